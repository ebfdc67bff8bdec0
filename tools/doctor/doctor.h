// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gpu_driver.h"
#include "kernels/gpu_probe.h"
#include "norn/nn/machine.h"
#include "src/data/reader/confinement.h"
#include "src/nn/json_value.h"
#include "src/parallel/rank_facts.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// `trainer --doctor`: what makes training slow or wrong on a machine. Checks are values: a table
/// of names and functions that look at an Examination, which holds all that was read and measured.
namespace norn::tools {

enum class Health { ok, warning, problem, not_checked };
const char* word_of(Health health);  ///< "ok", "warning", "problem", "not checked"

/// One line of the report.
struct Finding {
  Health health = Health::ok;
  std::string host;
  std::string area;      ///< "CPU", "GPU 0"
  std::string name;      ///< of the check
  std::string value;     ///< what was found; of not_checked: why not
  std::string expected;  ///< may be empty where all is well
  std::string advice;    ///< what to do: of warnings and problems
};

/// Takes down what the checks of an area say.
class Findings {
 public:
  void begin(std::string area, std::string name) {
    area_ = std::move(area);
    name_ = std::move(name);
  }
  void ok(std::string value, std::string expected = {}) {
    add(Health::ok, std::move(value), std::move(expected), {});
  }
  void warning(std::string value, std::string expected, std::string advice) {
    add(Health::warning, std::move(value), std::move(expected), std::move(advice));
  }
  void problem(std::string value, std::string expected, std::string advice) {
    add(Health::problem, std::move(value), std::move(expected), std::move(advice));
  }
  void not_checked(std::string why) { add(Health::not_checked, std::move(why), {}, {}); }
  std::vector<Finding> all;

 private:
  void add(Health health, std::string value, std::string expected, std::string advice) {
    all.push_back(
        {health, {}, area_, name_, std::move(value), std::move(expected), std::move(advice)});
  }
  std::string area_;
  std::string name_;
};

/// Bytes of a file system.
struct Space {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

struct DiskRate {
  double megabytes = 0.0;          ///< a second, written and synced
  double sync_milliseconds = 0.0;  ///< of one page
  std::string error;               ///< why it could not be measured
};

/// A GPU of this process with what was asked and measured.
struct ExaminedGpu {
  GpuShape shape;
  std::optional<GpuFacts> facts;  ///< none without NVML
  std::optional<GpuRates> rates;
  GpuMoment copying;      ///< while copies ran
  GpuMoment multiplying;  ///< while products ran
  double tf32 = 0.0;      ///< TFLOP/s of large products; 0: not measured
  double bf16 = 0.0;
  std::string error;  ///< why it could not be measured
};

/// What one rank says of itself.
struct RankFacts {
  std::string host;
  std::vector<int> cores;  ///< that it may run on
  int threads = 0;         ///< that it computes with on the CPU
  std::string blas;
  std::string version;
  std::optional<std::string> visible_gpus;  ///< CUDA_VISIBLE_DEVICES
  int gpus = 0;                             ///< that it sees
  std::string gpu;                          ///< PCI address of the one it computes on; empty: none
};

/// All that checks look at. Tests put in their own files, limits and answers.
struct Examination {
  std::filesystem::path root = "/";  ///< where proc and sys are
  std::function<std::optional<std::string>(const char* name)> variable;
  std::function<std::optional<Space>(const std::filesystem::path&)> space;
  std::function<std::uint64_t(int resource)> limit;  ///< RLIMIT_...; RLIM_INFINITY: none
  std::vector<int> cores;                            ///< that this process may run on
  int threads = 0;                                   ///< --threads; 0: one a core
  int ranks_here = 1;                                ///< ranks of the run on this host
  bool uses_gpu = false;                             ///< what the run would compute on
  std::string blas;                                  ///< describe_cpu_kernels()
  std::int64_t available_memory = 0;                 ///< bytes
  double core_gigaflops = 0.0;                       ///< of a product, one core; 0: not measured
  std::filesystem::path model;                       ///< --model; empty: not given
  std::optional<DiskRate> disk;                      ///< of its folder
  DriverFacts driver;
  CudaVersions cuda;
  std::vector<ExaminedGpu> gpus;
  std::vector<PeerRate> peers;
  std::string peers_error;
  Confinement confinement;
  std::optional<NcclFacts> nccl;
  MpiFacts mpi;
  std::vector<RankFacts> ranks;        ///< of the whole run; on rank 0 alone
  std::optional<LinkWay> host_link;    ///< between ranks, main memory
  std::optional<LinkWay> device_link;  ///< between ranks, GPUs
  std::string device_link_by;          ///< "NCCL 2.28.9"
};

struct Check {
  const char* area;
  const char* name;
  void (*look)(const Examination&, Findings&);
};
struct GpuCheck {
  const char* name;
  void (*look)(const ExaminedGpu&, const Examination&, Findings&);
};

// The tables; adding a check is adding a line to one of them, and to docs/user/doctor.md.
std::span<const Check> cpu_checks();
std::span<const Check> memory_checks();
std::span<const Check> disk_checks();
std::span<const Check> driver_checks();
std::span<const Check> link_checks();
std::span<const Check> rank_checks();  ///< of the whole run
std::span<const GpuCheck> gpu_state_checks();
std::span<const GpuCheck> gpu_rate_checks();

void look_at(std::span<const Check> checks, const Examination& machine, Findings& findings);
/// Everything but rank_checks(), of one host.
void look_at_host(const Examination& machine, Findings& findings);

/// What a card's maker says of it; `computed`: what its sizes say.
struct Card {
  std::string name;     ///< a part of what the driver calls it
  double memory = 0.0;  ///< gigabytes a second
  double tf32 = 0.0;    ///< TFLOP/s, without sparsity; 0: it has none
  double bf16 = 0.0;
  bool computed = false;
};
Card card_of(const GpuShape& gpu);

struct DoctorReport {
  std::vector<Finding> findings;
  double seconds = 0.0;
  int count(Health health) const;
};
std::string doctor_table(const DoctorReport& report);
std::string doctor_json(const DoctorReport& report);
JsonValue json_of(const Finding& finding);

}  // namespace norn::tools
