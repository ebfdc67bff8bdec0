// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"
#include "src/nn/layer.h"
#include "src/tensor/executor.h"

#include <span>
#include <vector>

/// Sums over examples that several ranks have, in main memory: within a run of examples in float64
/// in the order of the rows, over the runs so that no bit depends on who has which.
namespace norn {

/// sums[c] = the sum over the rows of `runs` in fixed point.   runs [runs x N],  sums [N]
void add_run_sums(MatrixView<const double> runs, VectorView<FixedSum> sums);

/// sums[c] += x[c] and sums[units + c] += x[c]^2.
void add_moments(const float* x, Index units, double* sums);
/// sums[c] += d[c] and sums[units + c] += d[c] * x[c].
void add_products(const float* d, const float* x, Index units, double* sums);

/// NormalizationKernels::batch_norm() of some of the rows of a batch.
///   moments [2 x units] of all `rows` rows, as add_moments() sums,  z [own rows x units]
void normalise_rows(Executor& executor, const BatchNormView& norm,
                    VectorView<const FixedSum> moments, Index rows, MatrixView<float> z,
                    MatrixView<float> normalised, VectorView<float> inverse_deviation);
/// batch_norm_backward() of some of the rows; gradients are means over the examples.
///   products [2 x units] as add_products() sums
void normalise_rows_backward(Executor& executor, VectorView<const float> scale,
                             VectorView<const FixedSum> products, Index rows, Index examples,
                             MatrixView<const float> normalised,
                             VectorView<const float> inverse_deviation, MatrixView<float> delta,
                             VectorView<float> scale_gradient, VectorView<float> bias_gradient);

/// sum[i] = the sum over the terms of element first + i, in their order in float64.
///   terms: matrices of one row
void add_terms(std::span<const MatrixView<const float>> terms, Index first, VectorView<float> sum);

}  // namespace norn
