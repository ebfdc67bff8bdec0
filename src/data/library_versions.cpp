// SPDX-License-Identifier: Apache-2.0
// What data sets are read with.
#include "netcdf_thread.h"
#include "src/base/library_version.h"

#include <cstdio>

#include <fmt/format.h>
#include <hdf5.h>
#include <jpeglib.h>
#include <netcdf.h>
#include <png.h>
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
  constexpr int jpeg = LIBJPEG_TURBO_VERSION_NUMBER;
  return {{"NetCDF", netcdf.substr(0, netcdf.find(' '))},
          {"HDF5", known ? fmt::format("{}.{}.{}", major, minor, release) : "unknown"},
          {"zlib", zlibVersion()},
          {"libpng", png_get_libpng_ver(nullptr)},
          {"libjpeg-turbo",
           fmt::format("{}.{}.{}", jpeg / 1'000'000, jpeg / 1000 % 1000, jpeg % 1000)}};
}

}  // namespace norn
