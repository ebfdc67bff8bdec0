// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What NVIDIA's driver says of this machine's GPUs, through its management library (NVML). That is
/// loaded when it is there, so builds without CUDA can ask too. Nothing on the machine is changed.
namespace norn {

/// What changes with a GPU's load. What the driver does not say is empty, here and below.
struct GpuMoment {
  std::optional<unsigned> pcie_generation;
  std::optional<unsigned> pcie_width;
  std::optional<unsigned> core_mhz;
  std::optional<unsigned> memory_mhz;
  std::optional<std::uint64_t> slowed_by;  ///< bits: the members of SlowedBy
  std::optional<unsigned> celsius;
  std::optional<double> watts;
};

/// Why clocks are below their maximum: NVML's reasons, of which those of an idle GPU are left out.
struct SlowedBy {
  static constexpr std::uint64_t kPowerLimit = 0x4;
  static constexpr std::uint64_t kHardware = 0x8;
  static constexpr std::uint64_t kHot = 0x20;
  static constexpr std::uint64_t kVeryHot = 0x40;
  static constexpr std::uint64_t kPowerSupply = 0x80;
};

struct NvLink {
  unsigned number = 0;
  bool active = false;
  std::optional<unsigned> version;
  std::string other_end;  ///< PCI address: of a GPU, or of a switch
};

struct GpuProcess {
  unsigned process = 0;
  std::uint64_t bytes = 0;
};

enum class ComputeMode { shared, one_thread, prohibited, one_process };

struct GpuFacts {
  std::string name;
  std::string pci;  ///< "0000:17:00.0"
  GpuMoment now;
  std::optional<bool> persistence;
  std::optional<unsigned> pcie_generation_most;  ///< of card and slot together
  std::optional<unsigned> pcie_width_most;
  std::optional<unsigned> pcie_generation_card;
  std::optional<unsigned> core_mhz_most;
  std::optional<unsigned> memory_mhz_most;
  std::optional<bool> ecc;
  std::optional<std::uint64_t> ecc_corrected;  ///< since the driver was loaded
  std::optional<std::uint64_t> ecc_uncorrected;
  std::optional<unsigned> rows_remapped;  ///< for errors that were not corrected
  std::optional<bool> rows_pending;       ///< a reset of the GPU is due
  std::optional<bool> rows_failed;
  std::optional<unsigned> pages_retired;
  std::optional<double> power_limit;  ///< watts
  std::optional<double> power_limit_default;
  std::optional<unsigned> celsius_slowdown;
  std::optional<bool> mig;
  std::optional<ComputeMode> compute_mode;
  std::optional<std::vector<GpuProcess>> processes;
  std::optional<std::uint64_t> bar1_bytes;
  std::optional<std::uint64_t> memory_bytes;
  std::vector<NvLink> links;
};

struct DriverFacts {
  std::string error;      ///< why there are no facts; empty: there are
  bool mismatch = false;  ///< the library is of another version than the kernel's module
  std::string version;    ///< "580.159.04"
  int cuda = 0;           ///< newest CUDA that it runs: 13000
  std::vector<GpuFacts> gpus;
};

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual DriverFacts facts() const = 0;
  /// The GPU at a PCI address, now.
  virtual GpuMoment moment(const std::string& pci) const = 0;
};

/// Never fails: what is wrong is said in facts().error.
std::unique_ptr<GpuDriver> open_gpu_driver(const std::string& library = "libnvidia-ml.so.1");

/// "00000000:17:00.0" and "0000:17:00.0" as the same text.
std::string plain_pci_address(const std::string& address);

}  // namespace norn
