// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of the ranks of a run.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr const char* kOneRank = "one rank: mpirun -n N checks it";

std::map<std::string, std::vector<int>> ranks_of_hosts(const Examination& machine) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t r = 0; r < machine.ranks.size(); ++r)
    hosts[machine.ranks[r].host].push_back(int(r));
  return hosts;
}

const RankFacts& rank_of(const Examination& machine, int rank) {
  return machine.ranks[std::size_t(rank)];
}

void check_hosts(const Examination& machine, Findings& findings) {
  const auto hosts = ranks_of_hosts(machine);
  std::string value =
      fmt::format("{} on {}", counted(machine.ranks.size(), "rank"), counted(hosts.size(), "host"));
  std::set<std::size_t> counts;
  for (const auto& [host, ranks] : hosts) {
    counts.insert(ranks.size());
    if (hosts.size() > 1) value += fmt::format(", {} on {}", ranks.size(), host);
  }
  if (counts.size() < 2) return findings.ok(value);
  findings.warning(value, "as many on each host",
                   "blocks are shared out evenly, so hosts with fewer ranks wait: --map-by "
                   "ppr:N:node");
}

// Cores of this host that are there at all.
std::size_t cores_here(const Examination& machine) {
  return parse_cores(read_text(machine.root / "sys/devices/system/cpu/online").value_or("")).size();
}

void check_binding(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  std::vector<int> crowded;
  std::size_t least = machine.ranks[0].cores.size();
  for (const auto& [host, ranks] : ranks_of_hosts(machine)) {
    for (const int r : ranks) {
      const RankFacts& rank = rank_of(machine, r);
      least = std::min(least, rank.cores.size());
      // A core for each is all there is, or what was asked for.
      const bool bound =
          rank.cores.size() == 1 && machine.threads == 0 && cores_here(machine) > ranks.size();
      if (bound || int(rank.cores.size()) < rank.threads) crowded.push_back(r);
    }
  }
  if (crowded.empty()) return findings.ok(fmt::format("every rank has at least {} cores", least));
  std::sort(crowded.begin(), crowded.end());
  const RankFacts& first = rank_of(machine, crowded[0]);
  findings.warning(
      fmt::format("of ranks {} each has too few cores: rank {} has {}, for {} threads",
                  cores_text(crowded), crowded[0], cores_text(first.cores), first.threads),
      "more than one core, and as many as threads",
      "mpirun binds each rank to one core unless told otherwise: mpirun --bind-to none, or "
      "--map-by "
      "slot:PE=N with --threads N");
}

void check_threads(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  bool good = true;
  std::string value;
  for (const auto& [host, ranks] : ranks_of_hosts(machine)) {
    std::set<int> cores;
    int threads = 0;
    for (const int r : ranks) {
      const RankFacts& rank = rank_of(machine, r);
      cores.insert(rank.cores.begin(), rank.cores.end());
      threads += machine.uses_gpu ? 1 : rank.threads;
    }
    const std::string here = fmt::format("{}: {} on {}", host, counted(threads, "thread"),
                                         counted(cores.size(), "core"));
    value += (value.empty() ? "" : "; ") + here;
    if (threads <= int(cores.size())) continue;
    good = false;
    const int each = std::max<int>(1, int(cores.size() / ranks.size()));
    findings.warning(here, "no more threads than cores",
                     fmt::format("without --threads every rank takes all cores it may use: give "
                                 "--threads {}, or use fewer ranks",
                                 each));
  }
  if (good) findings.ok(value);
}

void check_alike(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  std::map<std::string, int> versions;
  std::map<std::string, int> kernels;
  for (const RankFacts& rank : machine.ranks) {
    ++versions[rank.version];
    ++kernels[rank.blas];
  }
  const auto list = [](const std::map<std::string, int>& counts) {
    std::string text;
    for (const auto& [name, count] : counts)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, count);
    return text;
  };
  if (versions.size() > 1)
    return findings.problem(list(versions), "one version",
                            "install the same build on all hosts: the model's bits, or the run, "
                            "would be wrong");
  if (kernels.size() > 1)
    return findings.warning(list(kernels), "the same BLAS kernels",
                            "results then depend on which host computes a block: give all hosts "
                            "the same OPENBLAS_CORETYPE (mpirun -x OPENBLAS_CORETYPE=Haswell)");
  findings.ok(fmt::format("{}, {}", versions.begin()->first, kernels.begin()->first));
}

void check_mpi(const Examination& machine, Findings& findings) {
  std::string value = machine.mpi.implementation;
  if (value.empty())
    return findings.warning("an MPI that does not say what it is", "Open MPI or MPICH",
                            "ldd $(which trainer) shows which MPI is linked: mpirun must be of the "
                            "same");
  if (machine.mpi.takes_gpu_memory)
    value += *machine.mpi.takes_gpu_memory ? ", built for CUDA" : ", not built for CUDA";
  // Both are fine: MPI is only given main memory.
  findings.ok(value + "; Norn gives it main memory alone");
}

std::string link_text(const LinkWay& link) {
  return fmt::format("{:.1f} us a collective, {:.2f} GB/s", link.start_microseconds,
                     link.gigabytes);
}

void check_messages(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  if (!machine.host_link) return findings.not_checked("it was not measured");
  const bool one_host = ranks_of_hosts(machine).size() == 1;
  const double most = one_host ? 100.0 : 300.0;
  const double least = one_host ? 1.0 : 0.5;
  const std::string value = link_text(*machine.host_link);
  const std::string expected = fmt::format("at most {:g} us, at least {:g} GB/s", most, least);
  if (machine.host_link->start_microseconds <= most && machine.host_link->gigabytes >= least)
    return findings.ok(value, expected);
  findings.warning(value, expected,
                   one_host ? "ranks that wait keep a core busy: are there more ranks or threads "
                              "than cores? see the lines above"
                            : "is it the slow network? --mca btl_tcp_if_include NAME chooses the "
                              "interface; InfiniBand needs locked memory");
}

void check_devices(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  if (!machine.uses_gpu) return findings.not_checked("this run computes on the CPU");
  bool good = true;
  for (const auto& [host, ranks] : ranks_of_hosts(machine)) {
    std::map<std::string, std::vector<int>> users;
    bool hidden = false;
    for (const int r : ranks) {
      const RankFacts& rank = rank_of(machine, r);
      users[rank.gpu].push_back(r);
      hidden = hidden || (rank.gpus == 1 && rank.visible_gpus && ranks.size() > 1);
    }
    for (const auto& [gpu, sharing] : users) {
      if (sharing.size() < 2) continue;
      good = false;
      findings.warning(fmt::format("{}: {} ranks on GPU {}", host, sharing.size(), gpu),
                       "a GPU for each rank",
                       "they take turns and exchange data through main memory: start as many ranks "
                       "as GPUs; leave --gpu out");
    }
    if (!hidden || users.size() < 2) continue;
    good = false;
    findings.warning(fmt::format("{}: CUDA_VISIBLE_DEVICES shows one GPU to each rank", host),
                     "all GPUs of the host, to every rank",
                     "NCCL cannot use NVLink between GPUs that ranks do not see: unset it, and "
                     "leave out Slurm's --gpus-per-task; ranks take the GPUs in turn");
  }
  if (good) findings.ok("a GPU for each rank");
}

void check_device_link(const Examination& machine, Findings& findings) {
  if (machine.ranks.size() < 2) return findings.not_checked(kOneRank);
  if (!machine.device_link) return findings.not_checked("this run computes on the CPU");
  const std::string value =
      fmt::format("{}, {}", link_text(*machine.device_link), machine.device_link_by);
  const bool one_host = ranks_of_hosts(machine).size() == 1;
  const double least = one_host ? 20.0 : 2.0;
  const std::string expected = fmt::format("at least {:g} GB/s", least);
  if (machine.device_link->gigabytes >= least) return findings.ok(value, expected);
  findings.warning(value, expected,
                   "see NVLink, peer access and NCCL above; between hosts NCCL_DEBUG=INFO says "
                   "which network it took");
}

constexpr std::array kChecks = {
    Check{"ranks", "hosts", check_hosts},     Check{"ranks", "binding", check_binding},
    Check{"ranks", "threads", check_threads}, Check{"ranks", "alike", check_alike},
    Check{"ranks", "MPI", check_mpi},         Check{"ranks", "messages", check_messages},
    Check{"ranks", "GPUs", check_devices},    Check{"ranks", "GPU collectives", check_device_link},
};

}  // namespace

std::span<const Check> rank_checks() {
  return kChecks;
}

}  // namespace norn::tools
