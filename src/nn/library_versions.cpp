// SPDX-License-Identifier: Apache-2.0
// What descriptors are read with.
#include "src/base/library_version.h"

#include <json/version.h>

namespace norn {

std::vector<LibraryVersion> nn_libraries() {
  return {{"jsoncpp", JSONCPP_VERSION_STRING}};
}

}  // namespace norn
