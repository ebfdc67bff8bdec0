// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of processors, and of the clock.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

// Cores that a control group's quota is worth; nothing when there is none.
std::optional<double> quota_cores(const fs::path& root) {
  const std::string groups = read_text(root / "proc/self/cgroup").value_or("");
  std::istringstream lines(groups);
  std::string line;
  std::optional<double> least;
  while (std::getline(lines, line)) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (fs::path group = line.substr(4);; group = group.parent_path()) {
      std::istringstream words(read_text(root / "sys/fs/cgroup" / group / "cpu.max").value_or(""));
      double quota = 0.0;
      double period = 0.0;
      if (words >> quota >> period && period > 0.0)
        least = std::min(least.value_or(quota / period), quota / period);
      if (group.empty()) break;
    }
  }
  const auto quota =
      parse_double(read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").value_or(""));
  const auto period =
      parse_double(read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").value_or(""));
  if (quota && period && *quota > 0.0 && *period > 0.0)
    least = std::min(least.value_or(*quota / *period), *quota / *period);
  return least;
}

void check_cores(const Examination& machine, Findings& findings) {
  const int cores = int(machine.cores.size());
  const int threads = machine.threads == 0 ? cores : machine.threads;
  const std::optional<double> quota = quota_cores(machine.root);
  std::string value = fmt::format("{} usable, {}", cores, counted(threads, "thread"));
  if (quota) value += fmt::format(", a quota of {:g}", *quota);
  if (quota && *quota < threads)
    return findings.warning(
        value, fmt::format("at most {} threads", std::max(1, int(std::floor(*quota)))),
        fmt::format("the control group stops all threads when they have used the quota: give "
                    "--threads {}, or a larger quota",
                    std::max(1, int(std::floor(*quota)))));
  if (threads > cores)
    return findings.warning(value, fmt::format("at most {} threads", cores),
                            "threads that share a core wait for each other: give fewer --threads");
  findings.ok(value);
}

void check_load(const Examination& machine, Findings& findings) {
  const auto text = read_text(machine.root / "proc/loadavg");
  const auto load = parse_double(text.value_or("").substr(0, text.value_or("").find(' ')));
  if (!load) return findings.not_checked("/proc/loadavg cannot be read");
  const double cores = double(std::max<std::size_t>(1, machine.cores.size()));
  const std::string value = fmt::format("{:.1f} running on {:g} cores", *load, cores);
  if (*load < 0.5 * cores + 0.5) return findings.ok(value);
  findings.warning(value, "most cores idle",
                   "other programs compute here: wait for them, or give fewer --threads");
}

void check_governor(const Examination& machine, Findings& findings) {
  std::map<std::string, int> cores_of;
  std::string driver;
  for (const int core : machine.cores) {
    const fs::path folder =
        machine.root / fmt::format("sys/devices/system/cpu/cpu{}/cpufreq", core);
    const auto governor = read_text(folder / "scaling_governor");
    if (!governor) continue;
    ++cores_of[*governor];
    driver = read_text(folder / "scaling_driver").value_or("");
  }
  if (cores_of.empty())
    return findings.not_checked("the system does not show it, as is usual in a virtual machine");
  std::string value;
  for (const auto& [name, count] : cores_of)
    value += fmt::format("{}{} on {} cores", value.empty() ? "" : ", ", name, count);
  // These drivers leave the choice to the processor, which does it well.
  const bool chooses = driver == "intel_pstate" || driver == "amd-pstate-epp";
  const bool slow = cores_of.count("powersave") > 0 && !chooses;
  if (!slow) return findings.ok(value);
  findings.warning(value, "performance, or schedutil",
                   "cores stay at their lowest clock: as root, cpupower frequency-set -g "
                   "performance");
}

bool has_flag(const std::string& flags, const std::string& flag) {
  return (" " + flags + " ").find(" " + flag + " ") != std::string::npos;
}

std::string cpu_flags(const Examination& machine) {
  const std::string text = read_text(machine.root / "proc/cpuinfo").value_or("");
  return value_after(text, "flags").value_or("");
}

void check_blas(const Examination& machine, Findings& findings) {
  const std::string flags = cpu_flags(machine);
  if (flags.empty()) return findings.not_checked("/proc/cpuinfo names no features");
  const auto uses = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) {
      return machine.blas.find(name) != std::string::npos;
    });
  };
  const bool wide = has_flag(flags, "avx512f") && has_flag(flags, "avx512dq") &&
                    has_flag(flags, "avx512bw") && has_flag(flags, "avx512vl");
  std::string expected;
  const char* right = "";
  if (wide && !uses({"SkylakeX", "Cooperlake", "SapphireRapids"})) {
    expected = "SkylakeX, Cooperlake or newer: the processor has AVX-512";
    right = "SkylakeX";
  } else if (has_flag(flags, "avx2") && uses({"Prescott", "Core2", "Nehalem", "Sandybridge",
                                              "Barcelona", "Bulldozer", "Piledriver", "Generic"})) {
    expected = "Haswell, Zen or newer: the processor has AVX2";
    right = "Haswell";
  }
  if (expected.empty()) return findings.ok(machine.blas);
  const auto forced = machine.variable("OPENBLAS_CORETYPE");
  findings.warning(
      machine.blas, expected,
      forced
          ? fmt::format("OPENBLAS_CORETYPE is set to {}, which costs up to half of the speed of "
                        "products: env -u OPENBLAS_CORETYPE trainer ...",
                        *forced)
          : fmt::format("this OpenBLAS does not know the processor: name it, OPENBLAS_CORETYPE={} "
                        "trainer ..., or use a newer OpenBLAS; the model's last bits change",
                        right));
}

void check_product(const Examination& machine, Findings& findings) {
  if (machine.core_gigaflops <= 0.0) return findings.not_checked("it was not measured");
  const std::string flags = cpu_flags(machine);
  const std::string info = read_text(machine.root / "proc/cpuinfo").value_or("");
  const auto mhz = parse_double(value_after(info, "cpu MHz").value_or(""));
  // Multiplications and additions of a cycle, of two units; clocks fall under wide ones.
  const double each = has_flag(flags, "avx512f") ? 64.0 : has_flag(flags, "avx2") ? 32.0 : 8.0;
  const std::string value = fmt::format("{:.0f} GFLOP/s a core", machine.core_gigaflops);
  if (!mhz) return findings.ok(value);
  const double most = 1e-3 * *mhz * each;
  const std::string expected =
      fmt::format("at least {:.0f}: {:.1f} GHz, {:g} operations a cycle at most", 0.3 * most,
                  1e-3 * *mhz, each);
  if (machine.core_gigaflops >= 0.3 * most) return findings.ok(value, expected);
  findings.warning(value, expected,
                   "cores are shared, slowed by heat, or BLAS uses old instructions: look at the "
                   "lines above, and measure on a quiet machine");
}

void check_clock(const Examination& machine, Findings& findings) {
  const auto source =
      read_text(machine.root / "sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return findings.not_checked("the system does not show it");
  static const std::set<std::string> slow = {"hpet", "acpi_pm",         "jiffies",
                                             "xen",  "refined-jiffies", "pit"};
  if (slow.count(*source) == 0) return findings.ok(*source);
  findings.warning(*source, "tsc, kvm-clock or arch_sys_counter",
                   "reading the time takes a system call, which drivers and MPI do all the time: "
                   "see why the kernel gave tsc up (dmesg), or boot with clocksource=tsc");
}

constexpr std::array kChecks = {
    Check{"CPU", "cores", check_cores},           Check{"CPU", "load", check_load},
    Check{"CPU", "governor", check_governor},     Check{"CPU", "BLAS kernels", check_blas},
    Check{"CPU", "dense product", check_product}, Check{"CPU", "clock source", check_clock},
};

}  // namespace

std::span<const Check> cpu_checks() {
  return kChecks;
}

}  // namespace norn::tools
