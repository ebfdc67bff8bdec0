// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/weight_view.h"
#include "src/nn/connection.h"

#include <functional>

/// Weights for those that want floats, whether a device holds floats or halves: in bounded memory.
namespace norn {

/// Calls edit(first, rows) for rows of weights in the device's memory, all at once where they are
/// floats, else some at a time, which are joined before and split after it.
void edit_rows(const Compute& compute, const WeightView& weights,
               const std::function<void(Index first, MatrixView<float> rows)>& edit);

/// UpdateKernels::clip_row_norms of them.
void clip_row_norms(const Compute& compute, float limit, const WeightView& weights);

/// Copies between a device's weights and floats in main memory, of one shape.
void read_weights(const Memory& memory, const WeightView& weights, MatrixView<float> host);
void write_weights(Memory& memory, MatrixView<const float> host, const WeightView& weights);

}  // namespace norn
