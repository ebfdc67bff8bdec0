// SPDX-License-Identifier: Apache-2.0
// The door of the sums over runs: shapes are checked here, once for all devices.
#include "kernels/run_sums.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {

void RunSumKernels::sum_columns(const DenseOperand& a, MatrixView<const float> b,
                                std::span<const Range> runs, MatrixView<double> of_runs,
                                VectorView<FixedSum> sums) {
  const bool multiplies = sums.size == 2 * a.cols();
  require(multiplies || sums.size == a.cols(), "sum_columns: one or two sums a column");
  require(!multiplies || (b.rows == a.rows() && b.cols == a.cols() && !a.is_bf16_alone()),
          "sum_columns: a and b differ in shape, or a has no floats");
  require(Index(runs.size()) <= of_runs.rows && sums.size <= of_runs.cols,
          "sum_columns: of_runs must hold the sums of every run");
  for (const Range& run : runs)
    require(run.begin >= 0 && run.begin <= run.end && run.end <= a.rows(),
            "sum_columns: a run is not of the rows of a");
  if (sums.size > 0) do_sum_columns(a, b, runs, of_runs, sums);
}

void RunSumKernels::to_float(VectorView<const FixedSum> sums, double factor,
                             VectorView<float> values) {
  require(sums.size == values.size, "to_float: a value for every sum");
  if (values.size > 0) do_to_float(sums, factor, values);
}

void RunSumKernels::add_terms(std::span<const VectorView<const float>> terms,
                              VectorView<float> sum) {
  require(Index(terms.size()) <= kMostTerms, "add_terms: more terms than a batch has runs");
  for (const VectorView<const float>& term : terms)
    require(term.size == sum.size, "add_terms: a term and the sum differ in size");
  if (sum.size > 0) do_add_terms(terms, sum);
}

}  // namespace norn
