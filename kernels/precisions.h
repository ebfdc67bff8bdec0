// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/precision.h"

namespace norn {

/// Those that there are, in the order of texts.
inline constexpr Precision kPrecisions[] = {Precision::fp32, Precision::tf32, Precision::bf16};

}  // namespace norn
