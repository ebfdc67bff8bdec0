// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace norn {

/// A library of others that a layer uses: {"OpenBLAS", "0.3.21"}.
struct LibraryVersion {
  std::string name;
  std::string version;  ///< "none" when the build has been made without it
};

/// Of each layer, as they are at run time.
std::vector<LibraryVersion> kernel_libraries();
std::vector<LibraryVersion> data_libraries();
std::vector<LibraryVersion> parallel_libraries();
std::vector<LibraryVersion> nn_libraries();

}  // namespace norn
