// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace norn {

/// "2.28.9"; "none" in a build without NCCL.
std::string nccl_version();

}  // namespace norn
