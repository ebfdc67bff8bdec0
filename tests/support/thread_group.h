// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"

#include <functional>

namespace norn {

/// Runs body(communicator) on `ranks` threads of this process, each with its own rank, and returns
/// when all are done. The first exception of a rank is thrown again here; the other ranks'
/// collectives then throw CommunicationError instead of waiting, and so they do when a rank has
/// returned from body. There is no time limit. Model parallelism under a debugger and sanitizers.
void run_thread_group(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace norn
