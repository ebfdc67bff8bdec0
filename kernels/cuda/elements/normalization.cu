// SPDX-License-Identifier: Apache-2.0
// Statistics over a batch on the GPU.
#include "kernels/cuda/elements/column_sums.cuh"
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/families.h"
#include "kernels/normalization.h"

namespace norn::cuda {
namespace {

constexpr float kEpsilon = NormalizationKernels::epsilon;
constexpr float kMomentum = NormalizationKernels::momentum;

struct Mean {
  double rows;
  double* mean;
  __device__ void operator()(Index c, const double (&total)[1]) const { mean[c] = total[0] / rows; }
};

/// The sum of squared distances from the mean.
struct DistanceTerm {
  static constexpr int kSums = 1;
  MatrixView<const float> z;
  const double* mean;
  template <bool kPacked>
  __device__ void add(Index r, Index c, Index cols, double (&sum)[4][1]) const {
    const Pack<float, 4> x = load_four<kPacked>(z.row(r), c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const double distance = c + i < cols ? double(x.value[i]) - mean[c + i] : 0.0;
      sum[i][0] += distance * distance;
    }
  }
};

__device__ void approach(float& running, double batch) {
  running = float((1.0 - double(kMomentum)) * double(running) + double(kMomentum) * batch);
}

struct Statistics {
  double rows;
  const double* mean;
  float* running_mean;
  float* running_variance;
  float* inverse_deviation;
  __device__ void operator()(Index c, const double (&spread)[1]) const {
    const double variance = spread[0] / rows;
    const double unbiased = spread[0] / (rows > 2.0 ? rows - 1.0 : 1.0);
    inverse_deviation[c] = float(1.0 / std::sqrt(variance + double(kEpsilon)));
    approach(running_mean[c], mean[c]);
    approach(running_variance[c], unbiased);
  }
};

/// Mean and spread from the sums of z and z^2, one row.
struct MomentsWork {
  const FixedSum* sums;
  Index units;
  double* mean;
  Statistics statistics;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    static_assert(n == 1);
    const double sum = sums[c].value(), of_batch = sum / statistics.rows;
    const double distance = sums[units + c].value() - of_batch * sum;
    mean[c] = of_batch;
    const double spread[1] = {distance > 0.0 ? distance : 0.0};
    statistics(c, spread);
  }
};

struct NormaliseWork {
  MatrixView<const double> mean;
  MatrixView<const float> inverse;
  MatrixView<const float> scale;
  MatrixView<const float> bias;
  MatrixView<float> normalised;
  MatrixView<float> z;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<double, n> centre = load<n, kStep>(mean.row(r) + c);
    const Pack<float, n> factor = load<n, kStep>(inverse.row(r) + c);
    const Pack<float, n> slope = load<n, kStep>(scale.row(r) + c);
    const Pack<float, n> start = load<n, kStep>(bias.row(r) + c);
    Pack<float, n> x = load<n, kStep>(z.row(r) + c);
    Pack<float, n> unit;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      unit.value[i] = float(double(x.value[i]) - centre.value[i]) * factor.value[i];
      x.value[i] = slope.value[i] * unit.value[i] + start.value[i];
    }
    store<n, kStep>(normalised.row(r) + c, unit);
    store<n, kStep>(z.row(r) + c, x);
  }
};

/// factor = scale / sqrt(variance + epsilon), one row.
struct FactorWork {
  MatrixView<const float> scale;
  MatrixView<const float> variance;
  MatrixView<float> factor;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    static_assert(n == 1);
    factor(r, c) = scale(r, c) / std::sqrt(variance(r, c) + kEpsilon);
  }
};

struct PredictWork {
  MatrixView<const float> factor;
  MatrixView<const float> mean;
  MatrixView<const float> bias;
  MatrixView<float> z;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> slope = load<n, kStep>(factor.row(r) + c);
    const Pack<float, n> centre = load<n, kStep>(mean.row(r) + c);
    const Pack<float, n> start = load<n, kStep>(bias.row(r) + c);
    Pack<float, n> x = load<n, kStep>(z.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i)
      x.value[i] = slope.value[i] * (x.value[i] - centre.value[i]) + start.value[i];
    store<n, kStep>(z.row(r) + c, x);
  }
};

struct Gradients {
  double rows;
  float* bias_gradient;
  float* scale_gradient;
  __device__ void operator()(Index c, const double (&total)[2]) const {
    bias_gradient[c] = float(total[0] / rows);
    scale_gradient[c] = float(total[1] / rows);
  }
};

/// The same from sums of all rows, one row.
struct GradientsWork {
  const FixedSum* sums;
  Index units;
  Gradients gradients;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    static_assert(n == 1);
    const double total[2] = {sums[c].value(), sums[units + c].value()};
    gradients(c, total);
  }
};

struct BackwardWork {
  MatrixView<const float> scale;
  MatrixView<const float> inverse;
  MatrixView<const float> bias_gradient;
  MatrixView<const float> scale_gradient;
  MatrixView<const float> normalised;
  MatrixView<float> delta;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> a = load<n, kStep>(scale.row(r) + c);
    const Pack<float, n> b = load<n, kStep>(inverse.row(r) + c);
    const Pack<float, n> bias = load<n, kStep>(bias_gradient.row(r) + c);
    const Pack<float, n> slope = load<n, kStep>(scale_gradient.row(r) + c);
    const Pack<float, n> unit = load<n, kStep>(normalised.row(r) + c);
    Pack<float, n> d = load<n, kStep>(delta.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i)
      d.value[i] =
          a.value[i] * b.value[i] * (d.value[i] - bias.value[i] - unit.value[i] * slope.value[i]);
    store<n, kStep>(delta.row(r) + c, d);
  }
};

struct Penalty {
  double rows;
  double p;
  double beta;
  float* penalty;
  __device__ void operator()(Index c, const double (&total)[1]) const {
    double rho = total[0] / rows;
    rho = rho < 1e-6 ? 1e-6 : (rho > 0.999999 ? 0.999999 : rho);
    penalty[c] = float(beta * ((1.0 - p) / (1.0 - rho) - p / rho));
  }
};

struct AddToColumnsWork {
  MatrixView<const float> term;
  MatrixView<float> dy;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> t = load<n, kStep>(term.row(r) + c);
    Pack<float, n> x = load<n, kStep>(dy.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] += t.value[i];
    store<n, kStep>(dy.row(r) + c, x);
  }
};

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    add_row_squares_kernel(const MatrixView<const float> x, FixedSum* sum) {
  const Index r = row_of_group<kThreads>();
  if (r >= x.rows) return;
  const double squares = sum_of_squares<kThreads, kPacked>(x.row(r), x.cols);
  if (threadIdx.x == 0) sum[r].add(squares);
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    clip_rows_kernel(const double limit, const FixedSum* squares, const MatrixView<float> delta) {
  const Index r = row_of_group<kThreads>();
  if (r >= delta.rows) return;
  const double square = squares[r].value();
  if (square <= limit * limit) return;
  const float factor = float(limit / std::sqrt(square));
  float* row = delta.row(r);
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < delta.cols; c += 4 * kThreads) {
    Pack<float, 4> x = load_four<kPacked>(row, c, delta.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) x.value[i] *= factor;
    store_four<kPacked>(row, c, delta.cols, x);
  }
}

class CudaNormalization final : public NormalizationKernels {
 public:
  explicit CudaNormalization(const Stream& stream)
      : stream_(stream), partial_(stream.memory), mean_(stream.memory), unit_(stream.memory) {}

 private:
  void do_batch_norm(const BatchNormView& norm, MatrixView<float> z, MatrixView<float> normalised,
                     VectorView<float> inverse_deviation) override {
    const auto rows = double(z.rows);
    double* mean = mean_.reserve(z.cols);
    sum_over_columns(stream_, partial_, "batch_norm", z.rows, z.cols, is_packable<4>(z),
                     ValueTerm{z}, Mean{rows, mean});
    sum_over_columns(stream_, partial_, "batch_norm", z.rows, z.cols, is_packable<4>(z),
                     DistanceTerm{z, mean},
                     Statistics{rows, mean, norm.running_mean.data, norm.running_variance.data,
                                inverse_deviation.data});
    normalise(norm, mean, z, normalised, inverse_deviation);
  }

  void do_normalise_rows(const BatchNormView& norm, VectorView<const FixedSum> moments, Index rows,
                         MatrixView<float> z, MatrixView<float> normalised,
                         VectorView<float> inverse_deviation) override {
    double* mean = mean_.reserve(z.cols);
    run_elements<1>(stream_, "normalise_rows", {1, z.cols, false},
                    MomentsWork{moments.data, z.cols, mean,
                                Statistics{double(rows), mean, norm.running_mean.data,
                                           norm.running_variance.data, inverse_deviation.data}});
    normalise(norm, mean, z, normalised, inverse_deviation);
  }

  void normalise(const BatchNormView& norm, const double* mean, MatrixView<float> z,
                 MatrixView<float> normalised, VectorView<const float> inverse_deviation) {
    const NormaliseWork work{on_every_row<const double>({mean, z.cols}, z.rows),
                             on_every_row(inverse_deviation, z.rows),
                             on_every_row(norm.scale, z.rows),
                             on_every_row(norm.bias, z.rows),
                             normalised,
                             z};
    run_elements<4>(stream_, "normalise",
                    elements_of<4>(z, work.mean, work.inverse, work.scale, work.bias, normalised),
                    work);
  }

  void do_batch_norm_predict(const BatchNormView& norm, MatrixView<float> z) override {
    const VectorView<float> factor{unit_.reserve(z.cols), z.cols};
    const FactorWork first{on_every_row(norm.scale, 1),
                           on_every_row<const float>(norm.running_variance, 1),
                           on_every_row(factor, 1)};
    run_elements<1>(stream_, "batch_norm_predict", elements_of<1>(first.factor), first);
    const PredictWork work{on_every_row<const float>(factor, z.rows),
                           on_every_row<const float>(norm.running_mean, z.rows),
                           on_every_row(norm.bias, z.rows), z};
    run_elements<4>(stream_, "batch_norm_predict",
                    elements_of<4>(z, work.factor, work.mean, work.bias), work);
  }

  void do_batch_norm_backward(VectorView<const float> scale, MatrixView<const float> normalised,
                              VectorView<const float> inverse_deviation, MatrixView<float> delta,
                              VectorView<float> scale_gradient,
                              VectorView<float> bias_gradient) override {
    const Index rows = delta.rows;
    sum_over_columns(stream_, partial_, "batch_norm_backward", rows, delta.cols,
                     is_packable<4>(delta) && is_packable<4>(normalised),
                     ProductTerm{delta, normalised},
                     Gradients{double(rows), bias_gradient.data, scale_gradient.data});
    go_backward(scale, normalised, inverse_deviation, delta, scale_gradient, bias_gradient);
  }

  void do_normalise_rows_backward(VectorView<const float> scale,
                                  VectorView<const FixedSum> products, Index rows, Index examples,
                                  MatrixView<const float> normalised,
                                  VectorView<const float> inverse_deviation,
                                  MatrixView<float> delta, VectorView<float> scale_gradient,
                                  VectorView<float> bias_gradient) override {
    const auto means_over = [&](Index count) {
      run_elements<1>(
          stream_, "normalise_rows_backward", {1, delta.cols, false},
          GradientsWork{products.data, delta.cols,
                        Gradients{double(count), bias_gradient.data, scale_gradient.data}});
    };
    means_over(rows);
    go_backward(scale, normalised, inverse_deviation, delta, scale_gradient, bias_gradient);
    if (rows != examples) means_over(examples);
  }

  void go_backward(VectorView<const float> scale, MatrixView<const float> normalised,
                   VectorView<const float> inverse_deviation, MatrixView<float> delta,
                   VectorView<const float> scale_gradient, VectorView<const float> bias_gradient) {
    const Index rows = delta.rows;
    const BackwardWork work{on_every_row(scale, rows),
                            on_every_row(inverse_deviation, rows),
                            on_every_row(bias_gradient, rows),
                            on_every_row(scale_gradient, rows),
                            normalised,
                            delta};
    run_elements<4>(stream_, "normalise_backward",
                    elements_of<4>(delta, work.scale, work.inverse, work.bias_gradient,
                                   work.scale_gradient, normalised),
                    work);
  }

  void do_sparseness_penalty(float p, float beta, MatrixView<const float> y,
                             MatrixView<float> dy) override {
    const VectorView<float> penalty{unit_.reserve(y.cols), y.cols};
    sum_over_columns(stream_, partial_, "sparseness_penalty", y.rows, y.cols, is_packable<4>(y),
                     ValueTerm{y}, Penalty{double(y.rows), double(p), double(beta), penalty.data});
    const MatrixView<const float> terms = on_every_row<const float>(penalty, y.rows);
    run_elements<4>(stream_, "sparseness_penalty", elements_of<4>(dy, terms),
                    AddToColumnsWork{terms, dy});
  }

  void do_add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum) override {
    with_row_threads(x.rows, x.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (is_packable<4>(x))
        add_row_squares_kernel<kThreads, true><<<l.grid, l.block, 0, stream_.stream>>>(x, sum.data);
      else
        add_row_squares_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(x, sum.data);
      check_launch("add_row_squares");
    });
  }

  void do_clip_rows(float limit, VectorView<const FixedSum> squares,
                    MatrixView<float> delta) override {
    with_row_threads(delta.rows, delta.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (is_packable<4>(delta))
        clip_rows_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(double(limit), squares.data, delta);
      else
        clip_rows_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(double(limit), squares.data, delta);
      check_launch("clip_rows");
    });
  }

  Stream stream_;
  Workspace<double> partial_;
  Workspace<double> mean_;
  Workspace<float> unit_;
};

}  // namespace

std::unique_ptr<NormalizationKernels> make_normalization(const Stream& stream) {
  return std::make_unique<CudaNormalization>(stream);
}

}  // namespace norn::cuda
