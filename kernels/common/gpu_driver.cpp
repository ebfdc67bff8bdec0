// SPDX-License-Identifier: Apache-2.0
// NVML, found at run time. Its header is not in the CUDA toolkit's minimal packages, so the few
// functions that are called are declared here, by the library's documented interface.
#include "kernels/gpu_driver.h"

#include "src/base/text.h"

#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace norn {
namespace {

using Gpu = void*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kDriverNotLoaded = 9;
constexpr int kMismatch = 18;
constexpr unsigned kMostLinks = 18;
constexpr std::uint64_t kRealReasons = SlowedBy::kPowerLimit | SlowedBy::kHardware |
                                       SlowedBy::kHot | SlowedBy::kVeryHot | SlowedBy::kPowerSupply;

struct PciInfo {
  char short_address[16];
  unsigned domain, bus, device, identity, subsystem;
  char address[32];
};
struct Sizes {
  unsigned long long first, second, third;
};
struct ProcessInfo {
  unsigned process;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

class Library {
 public:
  explicit Library(const std::string& name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      error_ = name + " is not there: no NVIDIA driver, or a container without its libraries";
      return;
    }
    const int status = call("nvmlInit_v2");
    begun_ = status == kSuccess;
    if (!begun_) explain(status);
  }
  ~Library() {
    if (begun_) call("nvmlShutdown");
    // Not closed: the library leaves threads behind.
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& error() const { return error_; }
  bool mismatch() const { return mismatch_; }

  // Its status; a library without that function counts as failing.
  template <typename... Arguments>
  int call(const char* function, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto found = reinterpret_cast<Function>(handle_ ? dlsym(handle_, function) : nullptr);
    return found == nullptr ? -1 : found(arguments...);
  }

  // A number of a GPU by a function that takes (gpu, what..., &number).
  template <typename T, typename... What>
  std::optional<T> ask(const char* function, Gpu gpu, What... what) const {
    T value{};
    if (call(function, gpu, what..., &value) != kSuccess) return std::nullopt;
    return value;
  }

 private:
  void explain(int status) {
    mismatch_ = status == kMismatch;
    if (status == kDriverNotLoaded) {
      error_ = "the driver's kernel module is not loaded";
      return;
    }
    const auto text = reinterpret_cast<const char* (*)(int)>(dlsym(handle_, "nvmlErrorString"));
    error_ = fmt::format("NVML says: {} (error {})", text ? text(status) : "nothing", status);
  }

  void* handle_;
  bool begun_ = false;
  bool mismatch_ = false;
  std::string error_;
};

std::optional<bool> as_switch(std::optional<unsigned> value) {
  if (!value) return std::nullopt;
  return *value != 0;
}

std::optional<double> milliwatts(std::optional<unsigned> value) {
  if (!value) return std::nullopt;
  return 1e-3 * double(*value);
}

class NvmlDriver final : public GpuDriver {
 public:
  explicit NvmlDriver(const std::string& library) : nvml_(library) {}

  DriverFacts facts() const override {
    DriverFacts facts;
    facts.error = nvml_.error();
    facts.mismatch = nvml_.mismatch();
    if (!facts.error.empty()) return facts;
    std::array<char, 96> version{};
    if (nvml_.call("nvmlSystemGetDriverVersion", version.data(), unsigned(version.size() - 1)) ==
        kSuccess)
      facts.version = version.data();
    int cuda = 0;
    if (nvml_.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == kSuccess) facts.cuda = cuda;
    for (const Gpu gpu : gpus()) facts.gpus.push_back(facts_of(gpu));
    return facts;
  }

  GpuMoment moment(const std::string& pci) const override {
    for (const Gpu gpu : gpus())
      if (address_of(gpu) == plain_pci_address(pci)) return moment_of(gpu);
    return {};
  }

 private:
  std::vector<Gpu> gpus() const {
    std::vector<Gpu> found;
    unsigned count = 0;
    if (!nvml_.error().empty() || nvml_.call("nvmlDeviceGetCount_v2", &count) != kSuccess)
      return found;
    for (unsigned i = 0; i < count; ++i) {
      Gpu gpu = nullptr;
      if (nvml_.call("nvmlDeviceGetHandleByIndex_v2", i, &gpu) == kSuccess) found.push_back(gpu);
    }
    return found;
  }

  std::string address_of(Gpu gpu) const {
    const auto info = nvml_.ask<PciInfo>("nvmlDeviceGetPciInfo_v3", gpu);
    return info ? plain_pci_address(info->address) : std::string();
  }

  GpuMoment moment_of(Gpu gpu) const {
    constexpr unsigned kCores = 1;
    constexpr unsigned kMemory = 2;
    GpuMoment now;
    now.pcie_generation = nvml_.ask<unsigned>("nvmlDeviceGetCurrPcieLinkGeneration", gpu);
    now.pcie_width = nvml_.ask<unsigned>("nvmlDeviceGetCurrPcieLinkWidth", gpu);
    now.core_mhz = nvml_.ask<unsigned>("nvmlDeviceGetClockInfo", gpu, kCores);
    now.memory_mhz = nvml_.ask<unsigned>("nvmlDeviceGetClockInfo", gpu, kMemory);
    if (const auto reasons =
            nvml_.ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", gpu))
      now.slowed_by = *reasons & kRealReasons;
    now.celsius = nvml_.ask<unsigned>("nvmlDeviceGetTemperature", gpu, 0U);
    now.watts = milliwatts(nvml_.ask<unsigned>("nvmlDeviceGetPowerUsage", gpu));
    return now;
  }

  GpuFacts facts_of(Gpu gpu) const {
    GpuFacts facts;
    std::array<char, 96> name{};
    if (nvml_.call("nvmlDeviceGetName", gpu, name.data(), unsigned(name.size() - 1)) == kSuccess)
      facts.name = name.data();
    facts.pci = address_of(gpu);
    facts.now = moment_of(gpu);
    facts.persistence = as_switch(nvml_.ask<unsigned>("nvmlDeviceGetPersistenceMode", gpu));
    facts.pcie_generation_most = nvml_.ask<unsigned>("nvmlDeviceGetMaxPcieLinkGeneration", gpu);
    facts.pcie_width_most = nvml_.ask<unsigned>("nvmlDeviceGetMaxPcieLinkWidth", gpu);
    facts.pcie_generation_card = nvml_.ask<unsigned>("nvmlDeviceGetGpuMaxPcieLinkGeneration", gpu);
    facts.core_mhz_most = nvml_.ask<unsigned>("nvmlDeviceGetMaxClockInfo", gpu, 1U);
    facts.memory_mhz_most = nvml_.ask<unsigned>("nvmlDeviceGetMaxClockInfo", gpu, 2U);
    facts.power_limit = milliwatts(nvml_.ask<unsigned>("nvmlDeviceGetPowerManagementLimit", gpu));
    facts.power_limit_default =
        milliwatts(nvml_.ask<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit", gpu));
    facts.celsius_slowdown = nvml_.ask<unsigned>("nvmlDeviceGetTemperatureThreshold", gpu, 1U);
    if (const auto mode = nvml_.ask<unsigned>("nvmlDeviceGetComputeMode", gpu); mode && *mode < 4)
      facts.compute_mode = ComputeMode(*mode);
    if (const auto bar = nvml_.ask<Sizes>("nvmlDeviceGetBAR1MemoryInfo", gpu))
      facts.bar1_bytes = bar->first;
    if (const auto memory = nvml_.ask<Sizes>("nvmlDeviceGetMemoryInfo", gpu))
      facts.memory_bytes = memory->first;
    add_errors(gpu, facts);
    facts.processes = processes_of(gpu);
    facts.links = links_of(gpu);
    return facts;
  }

  void add_errors(Gpu gpu, GpuFacts& facts) const {
    unsigned now = 0;
    unsigned later = 0;
    if (nvml_.call("nvmlDeviceGetEccMode", gpu, &now, &later) == kSuccess) facts.ecc = now != 0;
    if (nvml_.call("nvmlDeviceGetMigMode", gpu, &now, &later) == kSuccess) facts.mig = now != 0;
    if (facts.ecc.value_or(false)) {
      facts.ecc_corrected =
          nvml_.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", gpu, 0U, 0U);
      facts.ecc_uncorrected =
          nvml_.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", gpu, 1U, 0U);
    }
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (nvml_.call("nvmlDeviceGetRemappedRows", gpu, &corrected, &uncorrected, &pending, &failed) ==
        kSuccess) {
      facts.rows_remapped = uncorrected;
      facts.rows_pending = pending != 0;
      facts.rows_failed = failed != 0;
    }
    unsigned pages = 0;
    unsigned long long* nowhere = nullptr;
    const int status = nvml_.call("nvmlDeviceGetRetiredPages", gpu, 1U, &pages, nowhere);
    if (status == kSuccess || status == kInsufficientSize) facts.pages_retired = pages;
  }

  std::optional<std::vector<GpuProcess>> processes_of(Gpu gpu) const {
    constexpr unsigned kMost = 64;
    std::array<ProcessInfo, kMost> infos{};
    unsigned count = kMost;
    if (nvml_.call("nvmlDeviceGetComputeRunningProcesses_v3", gpu, &count, infos.data()) !=
        kSuccess)
      return std::nullopt;
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < count && i < kMost; ++i)
      processes.push_back({infos[i].process, infos[i].bytes});
    return processes;
  }

  std::vector<NvLink> links_of(Gpu gpu) const {
    std::vector<NvLink> links;
    for (unsigned i = 0; i < kMostLinks; ++i) {
      const auto active = nvml_.ask<unsigned>("nvmlDeviceGetNvLinkState", gpu, i);
      if (!active) break;
      NvLink link{i, *active != 0, nvml_.ask<unsigned>("nvmlDeviceGetNvLinkVersion", gpu, i), {}};
      if (const auto end = nvml_.ask<PciInfo>("nvmlDeviceGetNvLinkRemotePciInfo_v2", gpu, i))
        link.other_end = plain_pci_address(end->address);
      links.push_back(std::move(link));
    }
    return links;
  }

  Library nvml_;
};

}  // namespace

std::unique_ptr<GpuDriver> open_gpu_driver(const std::string& library) {
  return std::make_unique<NvmlDriver>(library);
}

std::string plain_pci_address(const std::string& address) {
  std::string plain = lower_case(address);
  const std::size_t domain = plain.find(':');
  if (domain != std::string::npos && domain > 4) plain.erase(0, domain - 4);
  return plain;
}

}  // namespace norn
