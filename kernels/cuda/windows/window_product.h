// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/dense.h"
#include "kernels/window.h"

/// Products of windows that are not written out: on compute capability 9.0 the copy engine brings
/// each tile of them from the images, a place of many windows at a time. bfloat16, or floats that
/// it rounds to tf32; sums of floats.
namespace norn::cuda {

/// Whether the device has such products. Windows must be those that window_pieces::can_read().
bool device_reads_windows();

/// z = windows * filters^T, or z += it, and plus a bias if there is one. Every row is a sum of its
/// own, in the order of the taps.
///   x [E x places*C], channels last,  filters [K x taps * padded channels],  bias [K],
///   z [E*windows x K]
/// No matrix has gaps.
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> filters, VectorView<const float> bias,
                      MatrixView<float> z, Existing existing);
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const float> x,
                      MatrixView<const float> filters, VectorView<const float> bias,
                      MatrixView<float> z, Existing existing);

/// parts(s*K + k) = delta^T * windows over slice s of all windows of the examples.
///   delta [E*windows x K],  x [E x places*C],  parts [slices*K x taps * padded channels]
void multiply_window_slices(const Stream& stream, const Window& window,
                            MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x,
                            Index slices, MatrixView<float> parts);

}  // namespace norn::cuda
