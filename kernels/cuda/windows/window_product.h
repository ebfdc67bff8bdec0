// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/signed_slopes.h"
#include "kernels/dense.h"
#include "kernels/dropout_mask.h"
#include "kernels/window.h"
#include "src/tensor/block_partition.h"

/// Products of windows that are not written out: on compute capability 9.0 the copy engine brings
/// each tile of them from the images, a place of many windows at a time. bfloat16, or floats that
/// it rounds to tf32; sums of floats.
namespace norn::cuda {

/// Whether the device has such products. Windows must be those that window_pieces::can_read().
bool device_reads_windows();

/// Where rows of results stand that are not one behind the other: in images of which windows have
/// some of the places.
struct ResultPlaces {
  Index width = 0;  ///< windows along x, or 0 where rows stand one behind the other
  Index height = 0;
  Index x = 0, y = 0, example = 0;  ///< elements from one to the next
};

/// What becomes of the sums of a product of windows: result = f(sums + bias), or their product with
/// f's slope at outputs. It goes to floats, with a bf16 copy if there is one, or to bf16 alone.
/// Then outputs are read in bf16.
struct WindowResult {
  MatrixView<float> result;                 ///< [E*windows x K]; without memory: bf16 alone
  Existing existing = Existing::overwrite;  ///< add: result += sums, and nothing else
  VectorView<const float> bias{};           ///< [K] or empty
  SignedSlopes f{};
  MatrixView<const float> outputs{};          ///< [E*windows x K] or empty
  MatrixView<const Bfloat16> bf16_outputs{};  ///< the same
  MatrixView<Bfloat16> bf16{};                ///< [E*windows x K] or empty
  DropoutMask dropout{};                      ///< of bf16 alone
  Index first_row = 0;                        ///< which of the mask's the first row is
  ResultPlaces places{};                      ///< of bf16 alone, and of outputs

  NORN_HD bool takes_slope() const {
    return outputs.data != nullptr || bf16_outputs.data != nullptr;
  }
  bool is_bf16_alone() const { return result.data == nullptr && bf16.data != nullptr; }

  /// Of these examples alone, which have so many windows each.
  WindowResult of_examples(Range examples, Index windows) const;
};

/// The sums are windows * filters^T. Every row is a sum of its own, in the order of the taps.
///   x [E x places*C], channels last,  filters [K x taps * padded channels]
/// No matrix has gaps. Of floats, results are floats.
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> filters, const WindowResult& result);
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const float> x,
                      MatrixView<const float> filters, const WindowResult& result);

/// parts((r*slices + s)*K + k) = delta^T * windows over slice s of the windows of run r, of so many
/// equal runs of the examples.
///   delta [E*windows x K],  x [E x places*C],
///   parts [runs*slices*K x window_pieces::gradient_columns()]
void multiply_window_slices(const Stream& stream, const Window& window,
                            MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x,
                            Index runs, Index slices, MatrixView<float> parts);

}  // namespace norn::cuda
