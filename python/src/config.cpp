// SPDX-License-Identifier: Apache-2.0
// What this build is made of.
#include "norn_build.h"  // written when the programs are built
#include "python/src/parts.h"
#include "src/base/library_version.h"

#include <cstdlib>
#include <string>

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace norn::python {
namespace {

nb::dict show_config() {
  nb::dict all;
  all["version"] = NORN_VERSION;
  all["commit"] = NORN_SOURCE_VERSION;
  all["build"] = NORN_BUILD_TYPE ", " NORN_COMPILER;
  for (auto list : {kernel_libraries, parallel_libraries, data_libraries, nn_libraries})
    for (const LibraryVersion& library : list())
      all[nb::cast(library.name)] = nb::cast(library.version);
  // It changes bits.
  if (const char* core = std::getenv("OPENBLAS_CORETYPE")) all["OPENBLAS_CORETYPE"] = core;
  return all;
}

}  // namespace

void add_config(nb::module_& m) {
  m.attr("__version__") = NORN_VERSION;
  m.def(
      "version", [] { return NORN_VERSION; }, "The version: major, minor, patch.");
  m.def("show_config", &show_config,
        "Version, commit, compiler and libraries, as they are at run time.");
}

}  // namespace norn::python
