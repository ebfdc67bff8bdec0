// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"
#include "src/tensor/example_partition.h"

#include <span>

/// Sums over the examples of a batch of which every rank has runs of its own: run by run, then over
/// the runs so that no bit depends on who has which.
namespace norn {

class RunSumKernels {
 public:
  virtual ~RunSumKernels() = default;
  static constexpr Index kMostTerms = ExamplePartition::kRuns;

  /// sums[c] = the sum of a(r, c) over the rows of all runs and, where there are 2 N sums,
  /// sums[N + c] = that of a(r, c) * b(r, c): of a run in float64 in an order that its number of
  /// rows alone fixes (on the CPU that of the rows), of all in fixed point.
  /// An `a` without floats is read in bf16, on devices that compute in it, and has N sums.
  ///   a [rows x N],  b [rows x N], or anything where there are N sums,  runs: rows of a,
  ///   of_runs [at least runs x sums] what each gives,  sums [N] or [2 N]
  void sum_columns(const DenseOperand& a, MatrixView<const float> b, std::span<const Range> runs,
                   MatrixView<double> of_runs, VectorView<FixedSum> sums);

  /// values[c] = factor * sums[c].
  void to_float(VectorView<const FixedSum> sums, double factor, VectorView<float> values);

  /// sum[i] = terms[0][i] + terms[1][i] + ... in float64, in their order. kMostTerms at most.
  void add_terms(std::span<const VectorView<const float>> terms, VectorView<float> sum);

 private:
  virtual void do_sum_columns(const DenseOperand& a, MatrixView<const float> b,
                              std::span<const Range> runs, MatrixView<double> of_runs,
                              VectorView<FixedSum> sums) = 0;
  virtual void do_to_float(VectorView<const FixedSum> sums, double factor,
                           VectorView<float> values) = 0;
  virtual void do_add_terms(std::span<const VectorView<const float>> terms,
                            VectorView<float> sum) = 0;
};

}  // namespace norn
