// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of how GPUs reach each other.
#include "tools/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr const char* kOneGpu = "fewer than two GPUs are seen";

int active_links(const ExaminedGpu& gpu) {
  if (!gpu.facts) return 0;
  return int(std::count_if(gpu.facts->links.begin(), gpu.facts->links.end(),
                           [](const NvLink& link) { return link.active; }));
}

void check_nvlink(const Examination& machine, Findings& findings) {
  if (machine.gpus.size() < 2) return findings.not_checked(kOneGpu);
  std::string value;
  std::string dead;
  std::map<int, int> counts;
  for (const ExaminedGpu& gpu : machine.gpus) {
    const int active = active_links(gpu);
    ++counts[active];
    unsigned version = 0;
    if (gpu.facts)
      for (const NvLink& link : gpu.facts->links) {
        version = std::max(version, link.version.value_or(0));
        if (!link.active)
          dead += fmt::format("{}GPU {} link {}", dead.empty() ? "" : ", ", gpu.shape.device,
                              link.number);
      }
    value += fmt::format("{}GPU {}: {} links", value.empty() ? "" : "; ", gpu.shape.device, active);
    if (version > 0) value += fmt::format(" of version {}", version);
  }
  if (!dead.empty())
    return findings.warning(value + "; not active: " + dead, "all active",
                            "a bridge is missing or NVIDIA's fabric manager does not run: "
                            "systemctl status nvidia-fabricmanager; nvidia-smi nvlink -s");
  if (counts.size() > 1)
    return findings.warning(value, "the same number of links on all",
                            "collectives go at the speed of the slowest pair: nvidia-smi topo -m");
  findings.ok(value);
}

void check_peers(const Examination& machine, Findings& findings) {
  if (machine.gpus.size() < 2) return findings.not_checked(kOneGpu);
  if (machine.peers.empty())
    return findings.not_checked(machine.peers_error.empty() ? "it was not measured"
                                                            : machine.peers_error);
  for (const PeerRate& pair : machine.peers) {
    if (pair.from > pair.to &&
        std::any_of(machine.peers.begin(), machine.peers.end(), [&](const PeerRate& other) {
          return other.from == pair.to && other.to == pair.from && other.direct == pair.direct;
        }))
      continue;  // said of the other direction
    double back = pair.gigabytes;
    for (const PeerRate& other : machine.peers)
      if (other.from == pair.to && other.to == pair.from) back = other.gigabytes;
    const std::string value =
        fmt::format("GPU {} and {}: {}, {:.0f} and {:.0f} GB/s", pair.from, pair.to,
                    pair.direct ? "direct" : "through main memory", pair.gigabytes, back);
    const bool linked = active_links(machine.gpus[std::size_t(pair.from)]) > 0;
    const double least = linked ? 100.0 : 8.0;
    if (!pair.direct)
      findings.warning(value, "direct",
                       "they hang on different processors, or ACS or the IOMMU keeps them apart "
                       "(BIOS; NCCL's guide, PCI access control): ranks exchange data slowly");
    else if (std::min(pair.gigabytes, back) < least)
      findings.warning(value,
                       fmt::format("at least {:g} GB/s{}", least, linked ? " by NVLink" : ""),
                       "nvidia-smi topo -m shows the way between them; other programs may use it");
    else
      findings.ok(value);
  }
}

void check_nccl(const Examination& machine, Findings& findings) {
  if (machine.gpus.empty()) return findings.not_checked("no GPU can be used");
  if (!machine.nccl) {
    if (machine.gpus.size() < 2) return findings.ok("none in this build; one GPU needs none");
    return findings.warning("none in this build", "NCCL, with several GPUs",
                            "ranks exchange data through main memory: install NCCL beside the "
                            "toolkit and build again");
  }
  if (machine.nccl->error.empty())
    return findings.ok(machine.nccl->version + ", an all-reduce of one GPU is right");
  findings.problem(fmt::format("{}: {}", machine.nccl->version, machine.nccl->error),
                   "an all-reduce of one GPU",
                   "NCCL_DEBUG=INFO says more; /dev/shm and locked memory above are common causes");
}

constexpr std::array kChecks = {
    Check{"links", "NVLink", check_nvlink},
    Check{"links", "peer access", check_peers},
    Check{"links", "NCCL", check_nccl},
};

}  // namespace

std::span<const Check> link_checks() {
  return kChecks;
}

}  // namespace norn::tools
