// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/window.h"
#include "norn/tensor/views.h"

/// Gradients in tf32 on compute capability 9.0, whose tensor cores read floats along the summed
/// axis alone: products of turned images (turned_images.h), a tap of which is a distance in them.
namespace norn::cuda {

/// parts((r*slices + s)*K + k) = delta^T * windows over slice s of the windows of run r, of so many
/// equal runs of the examples, in tf32.
///   delta [runs*K x T], x [runs*C x T]: turned, without gaps, T = window_pieces::turned_length()
///   of a run of so many examples; parts [runs*slices*K x taps * padded channels], without gaps
/// Windows must be those that window_pieces::can_turn(), the device one that
/// device_reads_windows().
void multiply_turned_slices(const Stream& stream, const Window& window, Index examples,
                            MatrixView<const float> delta, MatrixView<const float> x, Index runs,
                            Index slices, MatrixView<float> parts);

}  // namespace norn::cuda
