// SPDX-License-Identifier: Apache-2.0
// Statistics over a batch on the CPU: float64 sums in row order, vectorised across columns.
#include "kernels/normalization.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/strips.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace norn {
namespace {

constexpr Index kRowsOfTask = 64;

using ColumnSums = std::array<double, strips::kWidth>;

class CpuNormalizationKernels final : public NormalizationKernels {
 public:
  explicit CpuNormalizationKernels(Executor& executor) : executor_(executor) {}

 private:
  /// Calls body(first, count) for the column strips of a matrix of that shape.
  template <typename Body>
  void for_column_strips(Index rows, Index cols, const Body& body) {
    executor_.for_ranges(cols, strips::columns_per_task(rows),
                         [&](Index begin, Index end, int /*lane*/) { body(begin, end - begin); });
  }

  void do_batch_norm(const BatchNormView& norm, MatrixView<float> z, MatrixView<float> normalised,
                     VectorView<float> inverse_deviation) override {
    for_column_strips(z.rows, z.cols, [&](Index first, Index count) {
      ColumnSums mean{};
      ColumnSums squares{};
      column_moments(z, first, count, mean, squares);
      for (Index c = 0; c < count; ++c) {
        const double spread = squares[std::size_t(c)];
        const double variance = spread / double(z.rows);
        const double unbiased = spread / double(std::max<Index>(1, z.rows - 1));
        inverse_deviation[first + c] = float(1.0 / std::sqrt(variance + double(epsilon)));
        approach(norm.running_mean[first + c], mean[std::size_t(c)]);
        approach(norm.running_variance[first + c], unbiased);
      }
      for (Index r = 0; r < z.rows; ++r) {
        float* row = z.row(r) + first;
        float* unit = normalised.row(r) + first;
        for (Index c = 0; c < count; ++c)
          unit[c] = float(double(row[c]) - mean[std::size_t(c)]) * inverse_deviation[first + c];
        for (Index c = 0; c < count; ++c)
          row[c] = norm.scale[first + c] * unit[c] + norm.bias[first + c];
      }
    });
  }

  /// Mean and sum of squared distances from it, column by column.
  static void column_moments(MatrixView<const float> z, Index first, Index count, ColumnSums& mean,
                             ColumnSums& squares) {
    for (Index r = 0; r < z.rows; ++r) {
      const float* row = z.row(r) + first;
      for (Index c = 0; c < count; ++c) mean[std::size_t(c)] += double(row[c]);
    }
    for (Index c = 0; c < count; ++c) mean[std::size_t(c)] /= double(z.rows);
    for (Index r = 0; r < z.rows; ++r) {
      const float* row = z.row(r) + first;
      for (Index c = 0; c < count; ++c) {
        const double distance = double(row[c]) - mean[std::size_t(c)];
        squares[std::size_t(c)] += distance * distance;
      }
    }
  }

  static void approach(float& running, double batch) {
    running = float((1.0 - double(momentum)) * double(running) + double(momentum) * batch);
  }

  void do_batch_norm_predict(const BatchNormView& norm, MatrixView<float> z) override {
    for_column_strips(z.rows, z.cols, [&](Index first, Index count) {
      std::array<float, strips::kWidth> factor;
      for (Index c = 0; c < count; ++c)
        factor[std::size_t(c)] =
            norm.scale[first + c] / std::sqrt(norm.running_variance[first + c] + epsilon);
      for (Index r = 0; r < z.rows; ++r) {
        float* row = z.row(r) + first;
        for (Index c = 0; c < count; ++c)
          row[c] = factor[std::size_t(c)] * (row[c] - norm.running_mean[first + c]) +
                   norm.bias[first + c];
      }
    });
  }

  void do_batch_norm_backward(VectorView<const float> scale, MatrixView<const float> normalised,
                              VectorView<const float> inverse_deviation, MatrixView<float> delta,
                              VectorView<float> scale_gradient,
                              VectorView<float> bias_gradient) override {
    for_column_strips(delta.rows, delta.cols, [&](Index first, Index count) {
      ColumnSums bias{};
      ColumnSums product{};
      for (Index r = 0; r < delta.rows; ++r) {
        const float* row = delta.row(r) + first;
        const float* unit = normalised.row(r) + first;
        for (Index c = 0; c < count; ++c) {
          bias[std::size_t(c)] += double(row[c]);
          product[std::size_t(c)] += double(row[c]) * double(unit[c]);
        }
      }
      std::array<float, strips::kWidth> factor;
      for (Index c = 0; c < count; ++c) {
        bias_gradient[first + c] = float(bias[std::size_t(c)] / double(delta.rows));
        scale_gradient[first + c] = float(product[std::size_t(c)] / double(delta.rows));
        factor[std::size_t(c)] = scale[first + c] * inverse_deviation[first + c];
      }
      for (Index r = 0; r < delta.rows; ++r) {
        float* row = delta.row(r) + first;
        const float* unit = normalised.row(r) + first;
        for (Index c = 0; c < count; ++c)
          row[c] = factor[std::size_t(c)] *
                   (row[c] - bias_gradient[first + c] - unit[c] * scale_gradient[first + c]);
      }
    });
  }

  void do_normalise_rows(const BatchNormView& norm, VectorView<const FixedSum> moments, Index rows,
                         MatrixView<float> z, MatrixView<float> normalised,
                         VectorView<float> inverse_deviation) override {
    std::vector<double> mean(static_cast<std::size_t>(z.cols));
    for (Index c = 0; c < z.cols; ++c) {
      const double sum = moments[c].value(), of_batch = sum / double(rows);
      const double spread = std::max(0.0, moments[z.cols + c].value() - of_batch * sum);
      mean[std::size_t(c)] = of_batch;
      inverse_deviation[c] = float(1.0 / std::sqrt(spread / double(rows) + double(epsilon)));
      approach(norm.running_mean[c], of_batch);
      approach(norm.running_variance[c], spread / double(std::max<Index>(1, rows - 1)));
    }
    executor_.for_ranges(z.rows, kRowsOfTask, [&](Index begin, Index end, int /*lane*/) {
      for (Index r = begin; r < end; ++r)
        for (Index c = 0; c < z.cols; ++c) {
          normalised(r, c) = float(double(z(r, c)) - mean[std::size_t(c)]) * inverse_deviation[c];
          z(r, c) = norm.scale[c] * normalised(r, c) + norm.bias[c];
        }
    });
  }

  void do_normalise_rows_backward(VectorView<const float> scale,
                                  VectorView<const FixedSum> products, Index rows, Index examples,
                                  MatrixView<const float> normalised,
                                  VectorView<const float> inverse_deviation,
                                  MatrixView<float> delta, VectorView<float> scale_gradient,
                                  VectorView<float> bias_gradient) override {
    const Index units = scale.size;
    const auto means_over = [&](Index count) {
      for (Index c = 0; c < units; ++c) {
        bias_gradient[c] = float(products[c].value() / double(count));
        scale_gradient[c] = float(products[units + c].value() / double(count));
      }
    };
    means_over(rows);
    executor_.for_ranges(delta.rows, kRowsOfTask, [&](Index begin, Index end, int /*lane*/) {
      for (Index r = begin; r < end; ++r)
        for (Index c = 0; c < units; ++c)
          delta(r, c) = scale[c] * inverse_deviation[c] *
                        (delta(r, c) - bias_gradient[c] - normalised(r, c) * scale_gradient[c]);
    });
    if (rows != examples) means_over(examples);
  }

  void do_sparseness_penalty(float p, float beta, MatrixView<const float> y,
                             MatrixView<float> dy) override {
    for_column_strips(y.rows, y.cols, [&](Index first, Index count) {
      ColumnSums mean{};
      for (Index r = 0; r < y.rows; ++r) {
        const float* row = y.row(r) + first;
        for (Index c = 0; c < count; ++c) mean[std::size_t(c)] += double(row[c]);
      }
      std::array<float, strips::kWidth> penalty;
      for (Index c = 0; c < count; ++c) {
        const double rho = std::clamp(mean[std::size_t(c)] / double(y.rows), 1e-6, 0.999999);
        penalty[std::size_t(c)] =
            float(double(beta) * ((1.0 - double(p)) / (1.0 - rho) - double(p) / rho));
      }
      for (Index r = 0; r < y.rows; ++r) {
        float* row = dy.row(r) + first;
        for (Index c = 0; c < count; ++c) row[c] += penalty[std::size_t(c)];
      }
    });
  }

  void do_add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum) override {
    executor_.for_ranges(x.rows, strips::rows_per_task(x.cols),
                         [&](Index begin, Index end, int /*lane*/) {
                           for (Index r = begin; r < end; ++r)
                             sum[r].add(strips::sum_of_squares(x.row(r), x.cols));
                         });
  }

  void do_clip_rows(float limit, VectorView<const FixedSum> squares,
                    MatrixView<float> delta) override {
    executor_.for_ranges(delta.rows, strips::rows_per_task(delta.cols),
                         [&](Index begin, Index end, int /*lane*/) {
                           for (Index r = begin; r < end; ++r) {
                             const double square = squares[r].value();
                             if (square <= double(limit) * double(limit)) continue;
                             const float factor = float(double(limit) / std::sqrt(square));
                             float* row = delta.row(r);
                             for (Index c = 0; c < delta.cols; ++c) row[c] *= factor;
                           }
                         });
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<NormalizationKernels> make_cpu_normalization(Executor& executor) {
  return std::make_unique<CpuNormalizationKernels>(executor);
}

}  // namespace norn
