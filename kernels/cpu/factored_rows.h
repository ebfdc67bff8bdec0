// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "src/tensor/executor.h"

/// Passes over the rows of V that a batch names, for the CPU's factored layers: an example or a
/// unit at a time, so that no bit depends on lanes.
namespace norn {

/// v h' of one row of V and one of h [width]: in an order that the width fixes.
double dot(const float* row, float last, const float* h, Index width);

/// FactoredKernels::read_entries.
void read_entries_by_rows(Executor& executor, const TargetLists& lists, FactorView<const float> v,
                          MatrixView<const double> h, const EntryRule& rule, Index block_width,
                          VectorView<double> r, VectorView<double> cost, MatrixView<FixedSum> rv);
/// FactoredKernels::sum_rows.
void sum_rows_by_example(Executor& executor, const TargetLists& lists, FactorView<const float> v,
                         VectorView<const double> r, Index block_width, MatrixView<FixedSum> rv);
/// FactoredKernels::sum_pairs.
void sum_pairs_by_example(Executor& executor, const TargetLists& lists, VectorView<const double> r,
                          Index block_width, MatrixView<FixedSum> rr);
/// FactoredKernels::update_rows.
void update_rows_by_unit(Executor& executor, const TargetLists& lists, VectorView<const double> r,
                         double scale, MatrixView<const double> k, FactorView<float> v);

}  // namespace norn
