// SPDX-License-Identifier: Apache-2.0
// Sums over examples, run by run.
#include "src/nn/run_sums.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

constexpr Index kRowsOfTask = 64;

}  // namespace

void add_run_sums(MatrixView<const double> runs, VectorView<FixedSum> sums) {
  std::fill(sums.begin(), sums.end(), FixedSum());
  for (Index run = 0; run < runs.rows; ++run)
    for (Index c = 0; c < sums.size; ++c) sums[c].add(runs(run, c));
}

void add_moments(const float* x, Index units, double* sums) {
  for (Index c = 0; c < units; ++c) {
    sums[c] += double(x[c]);
    sums[units + c] += double(x[c]) * double(x[c]);
  }
}

void add_products(const float* d, const float* x, Index units, double* sums) {
  for (Index c = 0; c < units; ++c) {
    sums[c] += double(d[c]);
    sums[units + c] += double(d[c]) * double(x[c]);
  }
}

void normalise_rows(Executor& executor, const BatchNormView& norm,
                    VectorView<const FixedSum> moments, Index rows, MatrixView<float> z,
                    MatrixView<float> normalised, VectorView<float> inverse_deviation) {
  const auto approach = [](float& running, double batch) {
    constexpr auto kMomentum = double(NormalizationKernels::momentum);
    running = float((1.0 - kMomentum) * double(running) + kMomentum * batch);
  };
  const Index units = z.cols;
  std::vector<double> mean(static_cast<std::size_t>(units));
  for (Index c = 0; c < units; ++c) {
    const double of_batch = moments[c].value() / double(rows);
    const double spread = std::max(0.0, moments[units + c].value() - of_batch * moments[c].value());
    mean[std::size_t(c)] = of_batch;
    inverse_deviation[c] =
        float(1.0 / std::sqrt(spread / double(rows) + double(NormalizationKernels::epsilon)));
    approach(norm.running_mean[c], of_batch);
    approach(norm.running_variance[c], spread / double(std::max<Index>(1, rows - 1)));
  }
  executor.for_ranges(z.rows, kRowsOfTask, [&](Index begin, Index end, int) {
    for (Index r = begin; r < end; ++r)
      for (Index c = 0; c < units; ++c) {
        normalised(r, c) = float(double(z(r, c)) - mean[std::size_t(c)]) * inverse_deviation[c];
        z(r, c) = norm.scale[c] * normalised(r, c) + norm.bias[c];
      }
  });
}

void normalise_rows_backward(Executor& executor, VectorView<const float> scale,
                             VectorView<const FixedSum> products, Index rows, Index examples,
                             MatrixView<const float> normalised,
                             VectorView<const float> inverse_deviation, MatrixView<float> delta,
                             VectorView<float> scale_gradient, VectorView<float> bias_gradient) {
  const Index units = scale.size;
  for (Index c = 0; c < units; ++c) {
    bias_gradient[c] = float(products[c].value() / double(rows));
    scale_gradient[c] = float(products[units + c].value() / double(rows));
  }
  const auto finish = [&](VectorView<float> gradient, Index first) {
    for (Index c = 0; c < units; ++c)
      gradient[c] = float(products[first + c].value() / double(examples));
  };
  executor.for_ranges(delta.rows, kRowsOfTask, [&](Index begin, Index end, int) {
    for (Index r = begin; r < end; ++r)
      for (Index c = 0; c < units; ++c)
        delta(r, c) = scale[c] * inverse_deviation[c] *
                      (delta(r, c) - bias_gradient[c] - normalised(r, c) * scale_gradient[c]);
  });
  if (rows == examples) return;
  finish(bias_gradient, 0);
  finish(scale_gradient, units);
}

void add_terms(std::span<const MatrixView<const float>> terms, Index first, VectorView<float> sum) {
  for (Index i = 0; i < sum.size; ++i) {
    double all = 0.0;
    for (const MatrixView<const float>& term : terms) all += double(term.data[first + i]);
    sum[i] = float(all);
  }
}

}  // namespace norn
