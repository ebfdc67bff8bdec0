// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of main memory and of what the shell allows.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <sys/resource.h>

namespace norn::tools {
namespace {

constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
constexpr double kMebi = 1024.0 * 1024.0;

void check_available(const Examination& machine, Findings& findings) {
  const std::string info = read_text(machine.root / "proc/meminfo").value_or("");
  const std::string total = value_after(info, "MemTotal").value_or("");
  const auto kibi = parse_integer(total.substr(0, total.find(' ')));
  if (!kibi) return findings.not_checked("/proc/meminfo cannot be read");
  const double all = 1024.0 * double(*kibi);
  const double free = double(machine.available_memory);
  const std::string value = fmt::format("{} available of {}", human_bytes(free), human_bytes(all));
  if (free < 0.5 * kGibi)
    return findings.problem(
        value, "at least 512 MiB",
        "end other programs, or raise the memory limit of the container or job");
  if (free < 0.1 * all)
    return findings.warning(
        value, "more than a tenth",
        "a container's limit, a job's limit (ulimit -v) or other programs hold the rest; "
        "trainer --plan says what a network needs");
  findings.ok(value);
}

void check_swap(const Examination& machine, Findings& findings) {
  const std::string info = read_text(machine.root / "proc/meminfo").value_or("");
  const auto kibi = [&](const char* key) {
    const std::string text = value_after(info, key).value_or("");
    return parse_integer(text.substr(0, text.find(' ')));
  };
  const auto total = kibi("SwapTotal");
  const auto free = kibi("SwapFree");
  if (!total || !free) return findings.not_checked("/proc/meminfo does not tell");
  const double used = 1024.0 * double(*total - *free);
  const std::string value = fmt::format("{} in use", human_bytes(used));
  if (used < kGibi) return findings.ok(value);
  findings.warning(value, "less than 1 GiB",
                   "memory was short, and what was moved to disk comes back slowly: end other "
                   "programs");
}

void check_shared(const Examination& machine, Findings& findings) {
  const auto space = machine.space(machine.root / "dev/shm");
  if (!space) return findings.not_checked("/dev/shm is not there");
  const std::string value = fmt::format("{} free of {}", human_bytes(double(space->free)),
                                        human_bytes(double(space->total)));
  const char* advice =
      "MPI and NCCL exchange data of one machine through it: docker run --shm-size=8g, or "
      "--ipc=host; elsewhere as root, mount -o remount,size=8g /dev/shm";
  // Of each rank MPI takes some MiB, NCCL about 10.
  if (machine.ranks_here > 1 && double(space->free) < 32.0 * kMebi * machine.ranks_here)
    return findings.problem(
        value, fmt::format("at least 32 MiB for each of {} ranks", machine.ranks_here), advice);
  if (double(space->total) < kGibi) return findings.warning(value, "at least 1 GiB", advice);
  findings.ok(value);
}

void check_huge_pages(const Examination& machine, Findings& findings) {
  const auto text = read_text(machine.root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (!text) return findings.not_checked("the system does not show it");
  if (text->find("[never]") == std::string::npos) return findings.ok(*text);
  findings.warning(*text, "always or madvise",
                   "scattered reads of weights take longer with small pages: as root, echo madvise "
                   "> /sys/kernel/mm/transparent_hugepage/enabled");
}

std::string limit_text(std::uint64_t limit, bool bytes) {
  if (limit == std::uint64_t(RLIM_INFINITY)) return "unlimited";
  return bytes ? human_bytes(double(limit)) : fmt::format("{}", limit);
}

// A limit that has to be unlimited or at least so much.
void check_limit(const Examination& machine, Findings& findings, int resource, std::uint64_t least,
                 bool bytes, const char* advice) {
  const std::uint64_t limit = machine.limit(resource);
  const std::string value = limit_text(limit, bytes);
  if (limit == std::uint64_t(RLIM_INFINITY) || limit >= least) return findings.ok(value);
  findings.warning(value, "at least " + limit_text(least, bytes), advice);
}

void check_open_files(const Examination& machine, Findings& findings) {
  check_limit(machine, findings, RLIMIT_NOFILE, 1024, false,
              "MPI opens connections to every rank: ulimit -n 65536");
}

void check_processes(const Examination& machine, Findings& findings) {
  const std::uint64_t cores = std::max<std::uint64_t>(1, machine.cores.size());
  check_limit(machine, findings, RLIMIT_NPROC, 256 + 4 * cores, false,
              "threads count too; those of OpenBLAS, CUDA and NCCL may fail to start: ulimit -u "
              "4096, or --pids-limit of the container");
}

void check_locked(const Examination& machine, Findings& findings) {
  std::error_code failure;
  const bool has_infiniband =
      std::filesystem::exists(machine.root / "sys/class/infiniband", failure) &&
      !std::filesystem::is_empty(machine.root / "sys/class/infiniband", failure);
  const std::uint64_t limit = machine.limit(RLIMIT_MEMLOCK);
  const std::string value = limit_text(limit, true);
  if (!has_infiniband || limit == std::uint64_t(RLIM_INFINITY))
    return findings.ok(value, has_infiniband ? "unlimited" : "");
  findings.warning(value, "unlimited, on a machine with InfiniBand",
                   "InfiniBand reads locked memory, and without it ranks fall back to slow ways: "
                   "ulimit -l unlimited, also for the batch system's daemon");
}

void check_address_space(const Examination& machine, Findings& findings) {
  const std::uint64_t limit = machine.limit(RLIMIT_AS);
  const std::string value = limit_text(limit, true);
  if (limit == std::uint64_t(RLIM_INFINITY)) return findings.ok(value);
  const char* advice =
      "CUDA reserves addresses for all memory of all GPUs, far more than it uses, and OpenBLAS 128 "
      "MiB a thread: ulimit -v unlimited; limit memory by a control group";
  if (!machine.gpus.empty()) return findings.problem(value, "unlimited, with GPUs", advice);
  findings.warning(value, "unlimited", advice);
}

void check_file_size(const Examination& machine, Findings& findings) {
  check_limit(machine, findings, RLIMIT_FSIZE, std::uint64_t(64) << 30, true,
              "a model that is larger cannot be written: ulimit -f unlimited");
}

void check_confinement(const Examination& machine, Findings& findings) {
  const std::string value = machine.confinement.text();
  if (machine.confinement.landlock > 0 && machine.confinement.filters) return findings.ok(value);
  findings.warning(
      value, "Landlock (Linux 5.13) and seccomp",
      "what reads files of strangers could open others, if a defect of HDF5 let one: a "
      "newer kernel, or a profile of the container that allows both");
}

constexpr std::array kChecks = {
    Check{"memory", "main memory", check_available},
    Check{"memory", "swap", check_swap},
    Check{"memory", "shared memory", check_shared},
    Check{"memory", "huge pages", check_huge_pages},
    Check{"limits", "open files", check_open_files},
    Check{"limits", "processes", check_processes},
    Check{"limits", "locked memory", check_locked},
    Check{"limits", "address space", check_address_space},
    Check{"limits", "file size", check_file_size},
    Check{"limits", "file readers", check_confinement},
};

}  // namespace

std::span<const Check> memory_checks() {
  return kChecks;
}

}  // namespace norn::tools
