// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/doctor/doctor.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

/// A machine that is as a test wants it: files of /proc and /sys, limits, answers of a driver.
namespace norn::tools {

class Scene {
 public:
  Scene() {
    std::string name = (std::filesystem::temp_directory_path() / "norn-doctor-XXXXXX").string();
    machine.root = ::mkdtemp(name.data());
    machine.variable = [this](const char* key) -> std::optional<std::string> {
      const auto found = variables.find(key);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    machine.space = [this](const std::filesystem::path&) { return space; };
    machine.limit = [this](int resource) {
      const auto found = limits.find(resource);
      return found == limits.end() ? std::uint64_t(RLIM_INFINITY) : found->second;
    };
    machine.cores = {0, 1, 2, 3};
  }
  ~Scene() { std::filesystem::remove_all(machine.root); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Scene& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((machine.root / path).parent_path());
    std::ofstream(machine.root / path) << text;
    return *this;
  }

  /// A GPU with all facts and rates as they should be; its PCI address is that of its number.
  ExaminedGpu& gpu(const std::string& name = "NVIDIA H200") {
    ExaminedGpu one;
    one.shape.device = int(machine.gpus.size());
    one.shape.name = name;
    one.shape.pci = "0000:0" + std::to_string(one.shape.device) + ":00.0";
    one.shape.capability = 90;
    one.shape.multiprocessors = 132;
    one.shape.core_mhz = 1980;
    one.shape.memory_mhz = 3201;
    one.shape.memory_bits = 6144;
    GpuFacts facts;
    facts.name = name;
    facts.pci = one.shape.pci;
    facts.persistence = true;
    facts.pcie_generation_card = facts.pcie_generation_most = 5;
    facts.pcie_width_most = 16;
    facts.core_mhz_most = 1980;
    facts.memory_mhz_most = 3201;
    facts.ecc = true;
    facts.ecc_corrected = facts.ecc_uncorrected = 0;
    facts.rows_remapped = 0;
    facts.rows_pending = facts.rows_failed = false;
    facts.power_limit = facts.power_limit_default = 700;
    facts.celsius_slowdown = 87;
    facts.mig = false;
    facts.compute_mode = ComputeMode::shared;
    facts.processes.emplace();
    facts.bar1_bytes = facts.memory_bytes = 1ULL << 37;
    facts.links = {{0, true, 4U, ""}, {1, true, 4U, ""}};
    machine.driver.version = "580.10.01";
    machine.driver.cuda = 13000;
    machine.driver.gpus.push_back(facts);
    one.facts = facts;
    one.rates = GpuRates{2.2, 1.1, 8.0, 55, 55, 8, 8, 4290};
    one.copying.pcie_generation = 5;
    one.copying.pcie_width = 16;
    one.multiplying.core_mhz = 1700;
    one.multiplying.memory_mhz = 3201;
    one.multiplying.slowed_by = SlowedBy::kPowerLimit;
    one.multiplying.celsius = 55;
    one.tf32 = 395;
    one.bf16 = 790;
    machine.cuda = {true, 13000, 13000, ""};
    machine.gpus.push_back(one);
    return machine.gpus.back();
  }
  ExaminedGpu& first() { return machine.gpus.at(0); }
  GpuFacts& facts() { return *first().facts; }

  /// `count` ranks of one host, each with cores of its own and as many threads.
  Scene& ranks(int count, int cores_each = 2) {
    for (int r = 0; r < count; ++r) {
      RankFacts rank;
      rank.host = "node1";
      for (int c = 0; c < cores_each; ++c) rank.cores.push_back(r * cores_each + c);
      rank.threads = cores_each;
      rank.blas = "OpenBLAS Cooperlake";
      rank.version = "trainer 1";
      rank.gpus = 8;
      rank.gpu = "0000:0" + std::to_string(r) + ":00.0";
      machine.ranks.push_back(rank);
    }
    machine.ranks_here = count;
    return *this;
  }

  Examination machine;
  std::map<std::string, std::string> variables;
  std::map<int, std::uint64_t> limits;
  std::optional<Space> space = Space{std::uint64_t(64) << 30, std::uint64_t(32) << 30};
};

}  // namespace norn::tools
