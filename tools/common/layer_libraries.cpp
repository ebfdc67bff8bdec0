// SPDX-License-Identifier: Apache-2.0
// Libraries of all layers: apart from the other versions, so that a program without kernels needs
// none of them.
#include "tools/common/version.h"

#include <utility>

namespace norn::tools {

std::vector<LibraryVersion> library_versions() {
  std::vector<LibraryVersion> all;
  for (auto list : {kernel_libraries, parallel_libraries, data_libraries, nn_libraries})
    for (LibraryVersion& library : list()) all.push_back(std::move(library));
  return all;
}

}  // namespace norn::tools
