// SPDX-License-Identifier: Apache-2.0
// What a build has of CUDA; one without it has these functions too.
#pragma once

#include <string>

namespace norn {

/// "13.0, driver for CUDA 13.0", "none".
std::string cuda_version();
/// What the kernels are built for: "90a", "none".
std::string cuda_architectures();

}  // namespace norn
