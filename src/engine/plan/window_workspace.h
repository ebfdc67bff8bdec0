// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

/// What the kernels of convolutions on a GPU keep for themselves.
namespace norn {

/// Bytes of windows that are written out, of images that are rounded, of filters as products want
/// them, and of what products make of these. 0 without convolutions.
/// kernels/cuda/windows/convolution.cu asks for this memory.
Index window_workspace(const StepFacts& facts);

}  // namespace norn
