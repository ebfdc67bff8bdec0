// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of what the driver says of a GPU.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <unistd.h>

namespace norn::tools {
namespace {

constexpr const char* kUntold = "the driver does not tell";

const GpuFacts& facts_of(const ExaminedGpu& gpu) {
  static const GpuFacts none;
  return gpu.facts ? *gpu.facts : none;
}

void check_persistence(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const auto on = facts_of(gpu).persistence;
  if (!on) return findings.not_checked(kUntold);
  if (*on) return findings.ok("on");
  findings.warning("off", "on",
                   "every program start waits seconds for the driver to wake the GPU: as root, "
                   "start nvidia-persistenced, or nvidia-smi -pm 1");
}

void check_pcie(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  const GpuMoment& busy = gpu.copying.pcie_generation ? gpu.copying : facts.now;
  if (!busy.pcie_generation || !busy.pcie_width) return findings.not_checked(kUntold);
  const bool loaded = gpu.copying.pcie_generation.has_value();
  const std::string value = fmt::format("generation {}, {} lanes, {}", *busy.pcie_generation,
                                        *busy.pcie_width, loaded ? "while copying" : "idle");
  const unsigned generation =
      facts.pcie_generation_card.value_or(facts.pcie_generation_most.value_or(0));
  const unsigned width = facts.pcie_width_most.value_or(0);
  const std::string expected = fmt::format("generation {}, {} lanes", generation, width);
  const bool narrow = *busy.pcie_width < width;
  const bool slow = loaded && *busy.pcie_generation < generation;
  if (!narrow && !slow) return findings.ok(value, expected);
  findings.warning(
      value, expected,
      narrow ? "some lanes are not used: the slot has fewer, a riser is loose, or the BIOS splits "
               "them; see the copy rates below"
             : "the slot, a riser or the BIOS keeps the link slow; see the copy rates below");
}

void check_near_cores(const ExaminedGpu& gpu, const Examination& machine, Findings& findings) {
  const auto list =
      read_text(machine.root / "sys/bus/pci/devices" / gpu.shape.pci / "local_cpulist");
  const std::vector<int> near = parse_cores(list.value_or(""));
  if (near.empty()) return findings.not_checked("the system does not tell which are near");
  const auto is_near = [&](int core) {
    return std::find(near.begin(), near.end(), core) != near.end();
  };
  const auto both = std::count_if(machine.cores.begin(), machine.cores.end(), is_near);
  const std::string value =
      fmt::format("{} of {} cores of this process", both, machine.cores.size());
  if (both > 0) return findings.ok(value);
  findings.warning(value, "some of " + *list,
                   "copies and launches go through the other processor: numactl --cpunodebind, or "
                   "mpirun --map-by numa");
}

void check_ecc(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  if (!facts.ecc) return findings.not_checked(kUntold);
  if (!*facts.ecc)
    return findings.warning("off", "on",
                            "a flipped bit in the GPU's memory goes unseen: as root, nvidia-smi -e "
                            "1 and restart; trainer --verify finds wrong results");
  const std::uint64_t bad = facts.ecc_uncorrected.value_or(0);
  const std::uint64_t mended = facts.ecc_corrected.value_or(0);
  const std::string value = fmt::format("on, {} errors corrected, {} not", mended, bad);
  if (bad > 0)
    return findings.problem(value, "0 that were not corrected",
                            "results since then may be wrong: reset the GPU or restart, and have "
                            "the card changed when errors come again");
  if (mended > 1000)
    return findings.warning(value, "few", "the memory wears out: watch it (nvidia-smi -q -d ECC)");
  findings.ok(value);
}

void check_rows(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  if (!facts.rows_remapped && !facts.pages_retired) return findings.not_checked(kUntold);
  const std::string value =
      facts.rows_remapped ? fmt::format("{} rows remapped{}", *facts.rows_remapped,
                                        facts.rows_pending.value_or(false) ? ", more pending" : "")
                          : fmt::format("{} pages retired", *facts.pages_retired);
  if (facts.rows_failed.value_or(false))
    return findings.problem(value + ", remapping failed", "spare rows are left",
                            "the memory is worn out: have the card changed");
  if (facts.rows_pending.value_or(false))
    return findings.problem(value, "none pending",
                            "a row is broken and still in use: reset the GPU or restart the "
                            "machine");
  if (facts.pages_retired.value_or(0) >= 60)
    return findings.warning(value, "below 60", "the memory wears out: have the card changed");
  findings.ok(value);
}

std::string reasons_text(std::uint64_t reasons) {
  std::vector<std::string> words;
  if (reasons & SlowedBy::kPowerLimit) words.emplace_back("power limit");
  if (reasons & SlowedBy::kHardware) words.emplace_back("hardware slowdown");
  if (reasons & SlowedBy::kHot) words.emplace_back("heat");
  if (reasons & SlowedBy::kVeryHot) words.emplace_back("heat, by hardware");
  if (reasons & SlowedBy::kPowerSupply) words.emplace_back("power supply");
  return words.empty() ? "nothing" : join(words);
}

void check_clocks(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  if (!gpu.multiplying.core_mhz || !facts.core_mhz_most)
    return findings.not_checked(gpu.multiplying.core_mhz ? kUntold : "no product was measured");
  const std::uint64_t reasons = gpu.multiplying.slowed_by.value_or(0);
  const std::string value = fmt::format(
      "{} MHz while multiplying{}, slowed by {}", *gpu.multiplying.core_mhz,
      gpu.multiplying.memory_mhz ? fmt::format(", memory {} MHz", *gpu.multiplying.memory_mhz)
                                 : std::string(),
      reasons_text(reasons));
  const std::string expected = fmt::format("at most {} MHz", *facts.core_mhz_most);
  const double share = double(*gpu.multiplying.core_mhz) / double(*facts.core_mhz_most);
  constexpr std::uint64_t kSerious =
      SlowedBy::kHardware | SlowedBy::kHot | SlowedBy::kVeryHot | SlowedBy::kPowerSupply;
  if (share < 0.4 || (reasons & (SlowedBy::kVeryHot | SlowedBy::kPowerSupply)))
    return findings.problem(value, expected,
                            "look at cooling and power cables; nvidia-smi -q -d PERFORMANCE says "
                            "more");
  if (share < 0.65 || (reasons & kSerious))
    return findings.warning(value, expected,
                            "look at cooling, the power limit below and application clocks "
                            "(nvidia-smi -q -d CLOCK)");
  findings.ok(value, expected);
}

void check_memory_clock(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const auto most = facts_of(gpu).memory_mhz_most;
  const auto now = gpu.multiplying.memory_mhz;
  if (!most || !now) return findings.not_checked(now ? kUntold : "no product was measured");
  const std::string value = fmt::format("{} MHz while multiplying", *now);
  const std::string expected = fmt::format("{} MHz", *most);
  if (double(*now) >= 0.9 * double(*most)) return findings.ok(value, expected);
  findings.warning(value, expected,
                   "the memory's clock is locked low: see nvidia-smi -q -d CLOCK; its owner may "
                   "have used nvidia-smi -lmc");
}

void check_temperature(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  const auto now = gpu.multiplying.celsius ? gpu.multiplying.celsius : facts.now.celsius;
  if (!now) return findings.not_checked(kUntold);
  const unsigned limit = facts.celsius_slowdown.value_or(90);
  const std::string value = fmt::format("{} C", *now);
  const std::string expected = fmt::format("below {} C, where clocks fall", limit);
  if (*now + 5 < limit) return findings.ok(value, expected);
  findings.warning(value, expected, "improve cooling: a hot GPU lowers its clocks");
}

void check_power(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  if (!facts.power_limit || !facts.power_limit_default) return findings.not_checked(kUntold);
  const std::string value = fmt::format("limit {:.0f} W", *facts.power_limit);
  const std::string expected = fmt::format("{:.0f} W, the default", *facts.power_limit_default);
  if (*facts.power_limit >= 0.95 * *facts.power_limit_default) return findings.ok(value, expected);
  findings.warning(value, expected,
                   "products run slower by that: the owner of the machine may raise it, nvidia-smi "
                   "-pl");
}

void check_mig(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const auto on = facts_of(gpu).mig;
  if (!on) return findings.not_checked("the card has no partitions (MIG)");
  if (!*on) return findings.ok("off");
  findings.warning("on", "off",
                   "a partition has a part of the GPU's speed, and partitions cannot be joined by "
                   "NVLink: the owner of the machine may turn MIG off");
}

void check_mode(const ExaminedGpu& gpu, const Examination& machine, Findings& findings) {
  const auto mode = facts_of(gpu).compute_mode;
  if (!mode) return findings.not_checked(kUntold);
  if (*mode == ComputeMode::prohibited)
    return findings.problem("prohibited", "default",
                            "no program may compute on it: as root, nvidia-smi -c DEFAULT");
  if (*mode == ComputeMode::shared) return findings.ok("default");
  const int here = machine.ranks_here;
  if (here > int(machine.gpus.size()))
    return findings.problem("exclusive", "default, since ranks share the GPU",
                            "one of the ranks will be refused: use as many ranks as GPUs");
  findings.ok("exclusive");
}

void check_others(const ExaminedGpu& gpu, const Examination&, Findings& findings) {
  const auto& processes = facts_of(gpu).processes;
  if (!processes) return findings.not_checked(kUntold);
  std::string others;
  int count = 0;
  for (const GpuProcess& one : *processes) {
    if (one.process == unsigned(::getpid())) continue;
    ++count;
    if (count <= 4) others += fmt::format("{}{}", others.empty() ? "" : ", ", one.process);
  }
  if (count == 0) return findings.ok("none");
  findings.warning(fmt::format("{}: process {}", count, others), "none",
                   "they share the GPU's time and memory: wait for them, or take another GPU "
                   "(--gpu)");
}

void check_bar(const ExaminedGpu& gpu, const Examination& machine, Findings& findings) {
  const GpuFacts& facts = facts_of(gpu);
  if (!facts.bar1_bytes || !facts.memory_bytes) return findings.not_checked(kUntold);
  const std::string value = fmt::format("{} of {}", human_bytes(double(*facts.bar1_bytes)),
                                        human_bytes(double(*facts.memory_bytes)));
  if (machine.gpus.size() < 2 || *facts.bar1_bytes >= *facts.memory_bytes)
    return findings.ok(value);
  const bool linked = std::any_of(facts.links.begin(), facts.links.end(),
                                  [](const NvLink& link) { return link.active; });
  if (linked) return findings.ok(value);
  findings.warning(value, "all of its memory, where GPUs exchange data over PCIe",
                   "peer copies are cut or refused: turn on resizable BAR (above 4G decoding) in "
                   "the BIOS");
}

constexpr std::array kChecks = {
    GpuCheck{"persistence", check_persistence},
    GpuCheck{"PCIe link", check_pcie},
    GpuCheck{"near cores", check_near_cores},
    GpuCheck{"ECC", check_ecc},
    GpuCheck{"memory rows", check_rows},
    GpuCheck{"clocks", check_clocks},
    GpuCheck{"memory clock", check_memory_clock},
    GpuCheck{"temperature", check_temperature},
    GpuCheck{"power limit", check_power},
    GpuCheck{"partitions", check_mig},
    GpuCheck{"compute mode", check_mode},
    GpuCheck{"other processes", check_others},
    GpuCheck{"BAR1", check_bar},
};

}  // namespace

std::span<const GpuCheck> gpu_state_checks() {
  return kChecks;
}

}  // namespace norn::tools
