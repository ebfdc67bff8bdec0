// SPDX-License-Identifier: Apache-2.0
// What data sets are read with.
#include "netcdf_thread.h"
#include "src/base/library_version.h"

#include <fmt/format.h>
#include <hdf5.h>
#include <netcdf.h>
#include <zlib.h>

namespace norn {

std::vector<LibraryVersion> data_libraries() {
  std::string netcdf;  // "4.9.0 of Aug  5 2022 08:41:13 $"
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  bool known = false;
  // Even the question for its version begins the HDF5 library.
  on_netcdf_thread([&] {
    netcdf = nc_inq_libvers();
    known = H5get_libversion(&major, &minor, &release) >= 0;
  });
  return {{"NetCDF", netcdf.substr(0, netcdf.find(' '))},
          {"HDF5", known ? fmt::format("{}.{}.{}", major, minor, release) : "unknown"},
          {"zlib", zlibVersion()}};
}

}  // namespace norn
