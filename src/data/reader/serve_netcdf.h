// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace norn {

/// Reads a file for the process at the other end of a socket, until that ends or closes its end.
/// Before it looks at the file this process gives up all that reading it does not take
/// (confinement.h). An end by a signal is expected: it is what a damaged file may do.
void serve_netcdf(int socket);

}  // namespace norn
