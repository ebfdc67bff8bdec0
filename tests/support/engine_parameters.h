// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "tests/support/reference_network.h"

/// Parameters on their way between the engine, alone on its rank, and the reference.
namespace norn::test {

reference::Parameters read_parameters(norn::Network& network);
void write_parameters(const reference::Parameters& parameters, norn::Network& network);

}  // namespace norn::test
