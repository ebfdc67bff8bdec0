// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace norn {

/// Call before whatever may make a communicator of NCCL's. NCCL reads its settings once, when a
/// process makes its first: ranks whose settings differ wait for each other for ever.
inline void set_nccl_up() {
  // Multicast adds in an order of its own; all connections are made before a graph is captured.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("NCCL_RUNTIME_CONNECT", "0", 1);
}

}  // namespace norn
