// SPDX-License-Identifier: Apache-2.0
// Reads NetCDF files for another program of Norn, which starts it: nobody else has use for it.

#include "src/data/reader/confinement.h"
#include "src/data/reader/serve_netcdf.h"
#include "src/data/reader_messages.h"

#include <string_view>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--confinement") {
    fmt::print("{}\n", norn::confinement_of_kernel().text());
    return 0;
  }
  int kind = 0;
  socklen_t size = sizeof(kind);
  if (::getsockopt(norn::kReaderSocket, SOL_SOCKET, SO_TYPE, &kind, &size) != 0) {
    fmt::print(stderr,
               "norn_netcdf_reader: error: trainer, predictor, evaluator and importer start this "
               "program themselves\n");
    return 2;
  }
  norn::serve_netcdf(norn::kReaderSocket);
  // What a damaged file has left behind is not tidied up.
  ::_exit(0);
}
