// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of what was measured on a GPU.
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace norn::tools {
namespace {

bool lacks(const ExaminedGpu& gpu, Findings& findings) {
  if (gpu.rates) return false;
  findings.not_checked(gpu.error.empty() ? "it was not measured" : gpu.error);
  return true;
}

// Times: fine up to `good`, a problem from `bad` on.
void check_time(Findings& findings, double microseconds, double good, double bad,
                const char* advice) {
  const std::string value = fmt::format("{:.1f} us", microseconds);
  const std::string expected = fmt::format("at most {:g} us", good);
  if (microseconds <= good) return findings.ok(value, expected);
  if (microseconds < bad) return findings.warning(value, expected, advice);
  findings.problem(value, expected, advice);
}

void check_launch(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  check_time(findings, gpu.rates->launch_microseconds, 6.0, 25.0,
             "small steps are slow then: the core is slow or shared, or the driver traps into a "
             "hypervisor (see driver parameters); keep graphs on");
}

void check_graph(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  check_time(findings, gpu.rates->graph_microseconds, 3.0, 10.0,
             "a training step is one graph of some dozen kernels: other programs may use the GPU, "
             "or its clock is low");
}

void check_round_trip(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  check_time(findings, gpu.rates->round_trip_microseconds, 25.0, 200.0,
             "the core is slow or shared with other programs: give the process cores of its own");
}

// Gigabytes a second that a PCIe link of that generation and width carries, after its overhead.
double link_rate(const ExaminedGpu& gpu) {
  static constexpr std::array<double, 7> kLane = {0, 0.2, 0.4, 0.78, 1.6, 3.4, 6.8};
  const GpuMoment& busy = gpu.copying;
  const unsigned generation =
      busy.pcie_generation.value_or(gpu.facts ? gpu.facts->pcie_generation_most.value_or(3) : 3);
  const unsigned width =
      busy.pcie_width.value_or(gpu.facts ? gpu.facts->pcie_width_most.value_or(16) : 16);
  return kLane[std::min<std::size_t>(generation, kLane.size() - 1)] * double(width);
}

void check_copies(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  const double least = std::min(gpu.rates->to_device, gpu.rates->to_host);
  const std::string value = fmt::format("{:.1f} GB/s to the GPU, {:.1f} GB/s back",
                                        gpu.rates->to_device, gpu.rates->to_host);
  const double link = link_rate(gpu);
  const std::string expected = fmt::format("about {:.0f} GB/s by the link", link);
  const char* advice =
      "other GPUs, ranks or disks share the way, the cores are far from the GPU, or a hypervisor "
      "stands between; --data-on-gpu keeps batches from crossing it";
  if (least >= 0.7 * link) return findings.ok(value, expected);
  if (least >= 2.0) return findings.warning(value, expected, advice);
  findings.problem(value, expected, advice);
}

void check_pageable(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  const double least = std::min(gpu.rates->pageable_to_device, gpu.rates->pageable_to_host);
  const std::string value = fmt::format("{:.1f} GB/s to the GPU, {:.1f} GB/s back",
                                        gpu.rates->pageable_to_device, gpu.rates->pageable_to_host);
  if (least >= 1.5) return findings.ok(value, "at least 1.5 GB/s");
  findings.warning(
      value, "at least 1.5 GB/s",
      "main memory is slow: models load and save slowly; look at cores and load above");
}

std::string by_maker(const Card& card) {
  return card.computed ? "computed from clock and sizes: the card is not in the table"
                       : "by the data sheet";
}

// Rates: a share of the card's.
void check_rate(Findings& findings, double rate, double most, double good, double bad,
                const char* unit, const Card& card, const char* advice) {
  const std::string value = fmt::format("{:.0f} {}, {:.0f} %", rate, unit, 100.0 * rate / most);
  const std::string expected =
      fmt::format("at least {:.0f} % of {:.0f} {}, {}", 100.0 * good, most, unit, by_maker(card));
  if (rate >= good * most) return findings.ok(value, expected);
  // What is computed may be twice too much.
  if (rate >= bad * most || card.computed) return findings.warning(value, expected, advice);
  findings.problem(value, expected, advice);
}

void check_memory(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  if (lacks(gpu, findings)) return;
  const Card card = card_of(gpu.shape);
  if (card.memory <= 0.0) return findings.not_checked("the card's rate is not known");
  check_rate(findings, gpu.rates->memory, card.memory, 0.75, 0.4, "GB/s", card,
             "look at clocks and other processes above; a partition (MIG) has a part of it");
}

void check_products(const ExaminedGpu& gpu, double rate, double most, const Card& card,
                    Findings& findings) {
  if (rate <= 0.0)
    return findings.not_checked(gpu.error.empty() ? "it was not measured" : gpu.error);
  if (most <= 0.0) return findings.not_checked("the card has no such products");
  check_rate(findings, rate, most, 0.55, 0.25, "TFLOP/s", card,
             "look at clocks, temperature, power limit and other processes above");
}

void check_tf32(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const Card card = card_of(gpu.shape);
  check_products(gpu, gpu.tf32, card.tf32, card, findings);
}

void check_bf16(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const Card card = card_of(gpu.shape);
  check_products(gpu, gpu.bf16, card.bf16, card, findings);
}

constexpr std::array kChecks = {
    GpuCheck{"kernel launch", check_launch},     GpuCheck{"kernel in a graph", check_graph},
    GpuCheck{"round trip", check_round_trip},    GpuCheck{"page-locked copies", check_copies},
    GpuCheck{"pageable copies", check_pageable}, GpuCheck{"memory rate", check_memory},
    GpuCheck{"tf32 products", check_tf32},       GpuCheck{"bf16 products", check_bf16},
};

}  // namespace

std::span<const GpuCheck> gpu_rate_checks() {
  return kChecks;
}

}  // namespace norn::tools
