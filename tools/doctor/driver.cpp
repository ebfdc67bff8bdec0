// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of NVIDIA's driver: versions, and parameters of its kernel module.
#include "src/base/files.h"
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

// NVIDIA's display and 3D controllers on the PCI bus.
int cards_on_bus(const fs::path& root) {
  std::error_code failure;
  int cards = 0;
  for (const fs::path& entry : entries_of(root / "sys/bus/pci/devices", failure)) {
    const std::string vendor = read_text(entry / "vendor").value_or("");
    const std::string kind = read_text(entry / "class").value_or("");
    cards += vendor == "0x10de" && kind.rfind("0x03", 0) == 0;
  }
  return cards;
}

// "580.159.04" in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...".
std::string module_version(const fs::path& root) {
  const std::string text = read_text(root / "proc/driver/nvidia/version").value_or("");
  std::istringstream words(value_after(text, "NVRM version").value_or(""));
  std::string word;
  while (words >> word)
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos)
      return word;
  return {};
}

bool has_any_gpu(const Examination& machine) {
  return cards_on_bus(machine.root) > 0 || !machine.driver.gpus.empty() || !machine.gpus.empty();
}

constexpr const char* kNoGpu = "no NVIDIA GPU is there";

std::string cuda_text(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

void check_driver(const Examination& machine, Findings& findings) {
  if (!has_any_gpu(machine)) return findings.not_checked(kNoGpu);
  const std::string module = module_version(machine.root);
  const DriverFacts& driver = machine.driver;
  if (driver.mismatch)
    return findings.problem(
        fmt::format("kernel module {}, libraries of another version",
                    module.empty() ? "unknown" : module),
        "the same version",
        "the driver was updated while it ran: restart the machine; in a container, start it again");
  if (!driver.error.empty() && module.empty())
    return findings.problem(driver.error, "a driver that is loaded",
                            "install NVIDIA's driver and load it (modprobe nvidia); a container "
                            "needs the NVIDIA container toolkit and --gpus all");
  if (!driver.error.empty())
    return findings.warning(fmt::format("module {}, but {}", module, driver.error), "NVML answers",
                            "a container needs the driver's libraries: NVIDIA_DRIVER_CAPABILITIES="
                            "compute,utility; what follows cannot be checked without them");
  if (!module.empty() && module != driver.version)
    return findings.problem(fmt::format("kernel module {}, libraries {}", module, driver.version),
                            "the same version", "restart the machine");
  findings.ok(driver.version);
}

void check_toolkit(const Examination& machine, Findings& findings) {
  const CudaVersions& cuda = machine.cuda;
  if (!has_any_gpu(machine)) return findings.not_checked(kNoGpu);
  if (!cuda.built)
    return findings.warning("this build has no CUDA", "a build with CUDA, since there is a GPU",
                            "build the preset cuda with nvcc on PATH (docs/user/building.md)");
  const int driver = cuda.driver != 0 ? cuda.driver : machine.driver.cuda;
  const std::string value =
      fmt::format("driver for {}, build for {}", driver == 0 ? "no CUDA" : cuda_text(driver),
                  cuda_text(cuda.runtime));
  if (driver / 1000 < cuda.runtime / 1000)
    return findings.problem(value, "a driver for " + cuda_text(cuda.runtime),
                            "update the driver, or build Norn with an older toolkit");
  // A list that hides all GPUs is the next check's.
  if (!cuda.error.empty() && !machine.variable("CUDA_VISIBLE_DEVICES"))
    return findings.problem(fmt::format("{}: {}", value, cuda.error), "CUDA finds the GPU",
                            "see dmesg for the driver's messages; nvidia-smi must list the GPU");
  if (driver < cuda.runtime)
    return findings.warning(value, "a driver at least as new as the build",
                            "it runs, but code that the driver has to compile does not: update the "
                            "driver");
  findings.ok(value);
}

void check_visible(const Examination& machine, Findings& findings) {
  if (!machine.cuda.built || !has_any_gpu(machine))
    return findings.not_checked(has_any_gpu(machine) ? "this build has no CUDA" : kNoGpu);
  const std::size_t all = machine.driver.gpus.size();
  const std::size_t seen = machine.gpus.size();
  const auto variable = machine.variable("CUDA_VISIBLE_DEVICES");
  std::string value = fmt::format("{} of {} GPUs", seen, std::max(all, seen));
  if (variable) value += fmt::format(", CUDA_VISIBLE_DEVICES={}", *variable);
  if (seen == 0)
    return findings.problem(value, "at least one",
                            variable ? "CUDA_VISIBLE_DEVICES hides them: unset it"
                                     : "the container may see none: docker run --gpus all");
  if (variable) {
    const auto parts = std::size_t(std::count(variable->begin(), variable->end(), ',')) + 1;
    if (!variable->empty() && parts > seen)
      return findings.warning(value, fmt::format("{} GPUs", parts),
                              "CUDA stops at the first name in CUDA_VISIBLE_DEVICES that it does "
                              "not know: correct it (nvidia-smi -L lists names)");
  }
  findings.ok(value);
}

// A parameter of the kernel module that makes training slow when it has one of these values.
struct ParameterRule {
  const char* name;
  bool (*is_bad)(long long value);
  const char* expected;
  const char* advice;
  bool in_virtual_machines_only = false;
  bool of_several_gpus_only = false;
};

constexpr std::array kParameters = {
    ParameterRule{"CheckPCIConfigSpace", [](long long v) { return v != 0; }, "0",
                  "old drivers read the PCI configuration space at every launch, which traps into "
                  "the hypervisor (Netflix found it in 2014): put options nvidia "
                  "NVreg_CheckPCIConfigSpace=0 into /etc/modprobe.d, or update the driver",
                  true},
    ParameterRule{"EnableMSI", [](long long v) { return v == 0; }, "1",
                  "interrupts go a slow way: put options nvidia NVreg_EnableMSI=1 into "
                  "/etc/modprobe.d"},
    ParameterRule{"NvLinkDisable", [](long long v) { return v == 1; }, "0",
                  "GPUs exchange data over PCIe instead of NVLink: leave it out of "
                  "/etc/modprobe.d",
                  false, true},
    ParameterRule{"UsePageAttributeTable", [](long long v) { return v == 0; }, "1",
                  "writes to the GPU's memory are not combined: leave it out of /etc/modprobe.d"},
};

bool in_virtual_machine(const fs::path& root) {
  const std::string flags =
      value_after(read_text(root / "proc/cpuinfo").value_or(""), "flags").value_or("");
  return (" " + flags + " ").find(" hypervisor ") != std::string::npos;
}

void check_parameters(const Examination& machine, Findings& findings) {
  const auto text = read_text(machine.root / "proc/driver/nvidia/params");
  if (!text)
    return findings.not_checked(has_any_gpu(machine) ? "/proc/driver/nvidia/params is not there"
                                                     : kNoGpu);
  bool good = true;
  const bool virtually = in_virtual_machine(machine.root);
  for (const ParameterRule& rule : kParameters) {
    const auto value = parse_integer(value_after(*text, rule.name).value_or(""));
    // All bits set: the driver decides.
    if (!value || *value == -1 || *value == 4294967295LL || !rule.is_bad(*value)) continue;
    if (rule.in_virtual_machines_only && !virtually) continue;
    if (rule.of_several_gpus_only && machine.driver.gpus.size() < 2) continue;
    good = false;
    findings.warning(fmt::format("NVreg_{}={}", rule.name, *value), rule.expected, rule.advice);
  }
  if (good)
    findings.ok(
        fmt::format("none is known to slow {}", virtually ? "a virtual machine" : "the machine"));
}

constexpr std::array kChecks = {
    Check{"driver", "version", check_driver},
    Check{"driver", "toolkit", check_toolkit},
    Check{"driver", "visible GPUs", check_visible},
    Check{"driver", "parameters", check_parameters},
};

}  // namespace

std::span<const Check> driver_checks() {
  return kChecks;
}

}  // namespace norn::tools
