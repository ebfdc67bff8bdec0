// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace norn {

/// Reads files for the process at the other end of a socket, one at a time, until that closes its
/// end. First sets this process its limits. An end by a signal is expected: it is what a damaged
/// file may do.
void serve_netcdf(int socket);

}  // namespace norn
