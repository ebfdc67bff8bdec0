// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

/// What ranks are joined with: MPI and NCCL, as they are on this machine.
namespace norn {

struct MpiFacts {
  std::string implementation;            ///< "Open MPI v4.1.4"
  std::optional<bool> takes_gpu_memory;  ///< whether it was built for CUDA; empty: it does not say
};
/// MPI need not be begun for it.
MpiFacts mpi_facts();

struct NcclFacts {
  std::string version;  ///< "2.28.9"
  std::string error;    ///< of the test; empty: it went well
};
/// "2.28.9"; "none" in a build without NCCL.
std::string nccl_version();
/// An all-reduce of one GPU with itself: shows that NCCL loads and runs. Empty in builds without
/// it.
std::optional<NcclFacts> try_nccl(int device);

}  // namespace norn
