// SPDX-License-Identifier: Apache-2.0
// Costs and deltas of SoftMax layers on the GPU, block by block.
#include "kernels/cuda/cost/cost_kernels.h"
#include "kernels/cuda/cost/cost_pieces.h"
#include "kernels/softmax_target.h"

#include <limits>

namespace norn::cuda {
namespace {

constexpr double kFixedUnit = FixedFormatOfRows::unit;
constexpr int kRowThreads = 128;  // of the kernels that have a thread or a warp for every row

/// x in units of 2^-36. NaN gives 0: it travels in the row's maximum instead.
__device__ std::int64_t to_fixed(double x, std::int64_t* out_of_range) {
  if (isnan(x)) return 0;
  if (fabs(x) >= FixedFormatOfRows::limit) {
    *out_of_range = 1;
    return 0;
  }
  return __double2ll_rn(x / kFixedUnit);
}

/// The larger one; NaN when either is.
__device__ float combined_maximum(float a, float b) {
  return b > a || b != b ? b : a;
}

/// What a row needs to turn pre-activations into probabilities.
struct RowScale {
  float maximum;
  float inverse_total;

  __device__ static RowScale of(const SoftMaxRows& rows, Index r) {
    return {rows.maximum[r], float(1.0 / (double(rows.total[r]) * kFixedUnit))};
  }
  __device__ float exponential(float z) const { return math::exp_nonpositive(z - maximum); }
  __device__ float probability(float z) const { return exponential(z) * inverse_total; }
};

/// The cross entropies: cost = tau * -ln y for the targets, so delta = -coupling * y - tau.
struct CrossEntropyLoss {
  static constexpr bool kWrites = true;
  static constexpr bool kEvaluatesAbsent = true;
  SoftMaxCost cost;
  SoftMaxTargetRule rule;
  SoftMaxRows rows;

  struct Row {
    RowScale scale;
    float factor;         // of e^(z - maximum) in the delta
    float absent_factor;  // the same, boosted
    float boost_one;
    float unit;        // what a target of 1 counts for
    double log_total;  // -ln y = log_total + maximum - z
    double cost_factor;
  };
  __device__ Row row(const TargetView& target, Index r) const {
    const RowScale scale = RowScale::of(rows, r);
    const double coupling = double(rows.coupling[r]) * kFixedUnit;
    const float factor = float(-coupling) * scale.inverse_total;
    const DeltaBoost boost = boost_of(cost, target.is_sparse);
    return {scale,
            factor,
            boost.zero * factor,
            boost.one,
            rule.unit(cost, target, r),
            log(double(rows.total[r]) * kFixedUnit),
            1.0};
  }
  __device__ ElementCost<float> absent(const Row& row, float z) const {
    return {0.0f, row.scale.exponential(z) * row.absent_factor};
  }
  __device__ ElementCost<float> dense(const Row& row, float z, float t) const {
    const float e = row.scale.exponential(z);
    const float tau = rule.gated(e * row.scale.inverse_total, rule.dense(row.unit, t));
    return {tau * (float(row.log_total) + (row.scale.maximum - z)), e * row.factor - tau};
  }
  __device__ StoredCost stored(const Row& row, float z, const StoredTarget& target) const {
    const float e = row.scale.exponential(z);
    const float tau = rule.gated(e * row.scale.inverse_total, rule.stored(row.unit, target));
    return {double(tau) * (row.log_total + (double(row.scale.maximum) - double(z))),
            row.boost_one * (e * row.factor - tau)};
  }
};

/// The sum of a row's targets that their margin does not let go of, negative.
struct CrossEntropyCoupling {
  static constexpr bool kWrites = false;
  static constexpr bool kEvaluatesAbsent = false;
  SoftMaxCost cost;
  SoftMaxTargetRule rule;
  SoftMaxRows rows;

  struct Row {
    RowScale scale;
    float unit;
    double cost_factor;
  };
  __device__ Row row(const TargetView& target, Index r) const {
    return {RowScale::of(rows, r), rule.unit(cost, target, r), -1.0};
  }
  __device__ ElementCost<float> absent(const Row&, float) const { return {0.0f, 0.0f}; }
  __device__ ElementCost<float> dense(const Row& row, float z, float t) const {
    return {rule.gated(row.scale.probability(z), rule.dense(row.unit, t)), 0.0f};
  }
  __device__ StoredCost stored(const Row& row, float z, const StoredTarget& target) const {
    return {double(rule.gated(row.scale.probability(z), rule.stored(row.unit, target))), 0.0f};
  }
};

/// Any other loss: delta = y * (g - coupling) with g = weight * d cost / d y.
template <typename L>
struct JacobianLoss {
  static constexpr bool kWrites = true;
  static constexpr bool kEvaluatesAbsent = true;
  L loss;
  SoftMaxCost rule;
  SoftMaxRows rows;

  struct Row {
    RowScale scale;
    float coupling;
    float weight;
    DeltaBoost boost;
    double cost_factor;
  };
  __device__ Row row(const TargetView& target, Index r) const {
    const float weight = target.weight.empty() ? 1.0f : target.weight[r];
    return {RowScale::of(rows, r), float(double(rows.coupling[r]) * kFixedUnit), weight,
            boost_of(rule, target.is_sparse), double(weight)};
  }
  __device__ ElementCost<float> evaluate(const Row& row, float z, float t, float weight) const {
    const float y = row.scale.probability(z);
    return {loss.cost(y, t), y * (weight * loss.slope(y, t) - row.coupling)};
  }
  __device__ ElementCost<float> dense(const Row& row, float z, float t) const {
    return evaluate(row, z, t, row.weight);
  }
  __device__ ElementCost<float> absent(const Row& row, float z) const {
    const ElementCost<float> e = dense(row, z, 0.0f);
    return {e.cost, row.boost.zero * e.delta};
  }
  __device__ StoredCost stored(const Row& row, float z, const StoredTarget& target) const {
    const ElementCost<float> e =
        evaluate(row, z, loss.stored_target(target.value), row.weight * target.weight);
    return {double(target.weight) * double(e.cost), row.boost.one * e.delta};
  }
};

/// Sum over the units of y * d cost / d y.
template <typename L>
struct JacobianCoupling {
  static constexpr bool kWrites = false;
  static constexpr bool kEvaluatesAbsent = true;
  L loss;
  SoftMaxRows rows;

  struct Row {
    RowScale scale;
    double cost_factor;
  };
  __device__ Row row(const TargetView& target, Index r) const {
    return {RowScale::of(rows, r), target.weight.empty() ? 1.0 : double(target.weight[r])};
  }
  __device__ ElementCost<float> dense(const Row& row, float z, float t) const {
    const float y = row.scale.probability(z);
    return {y * loss.slope(y, t), 0.0f};
  }
  __device__ ElementCost<float> absent(const Row& row, float z) const {
    return dense(row, z, 0.0f);
  }
  __device__ StoredCost stored(const Row& row, float z, const StoredTarget& target) const {
    const float y = row.scale.probability(z);
    const float slope = loss.slope(y, loss.stored_target(target.value));
    return {double(y * (target.weight * slope)), 0.0f};
  }
};

/// The probabilities themselves in place of the delta.
struct ValuesLoss {
  static constexpr bool kWrites = true;
  SoftMaxRows rows;

  struct Row {
    RowScale scale;
    double cost_factor;
  };
  __device__ Row row(const TargetView&, Index r) const { return {RowScale::of(rows, r), 0.0}; }
  __device__ ElementCost<float> absent(const Row& row, float z) const {
    return {0.0f, row.scale.probability(z)};
  }
  __device__ ElementCost<float> dense(const Row& row, float z, float) const {
    return absent(row, z);
  }
};

/// Maximum of a piece, NaN when one of its elements is, known to all threads.
__device__ float piece_maximum(const float (&x)[kPieceGroups][4]) {
  __shared__ float warp_maximum[kPieceThreads / 32];
  float top = -std::numeric_limits<float>::infinity();
#pragma unroll
  for (int g = 0; g < kPieceGroups; ++g)
#pragma unroll
    for (int j = 0; j < 4; ++j) top = combined_maximum(top, x[g][j]);  // -inf beyond the piece
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    top = combined_maximum(top, __shfl_xor_sync(kWholeWarp, top, step));
  if (threadIdx.x % 32 == 0) warp_maximum[threadIdx.x / 32] = top;
  __syncthreads();
  for (int w = 0; w < kPieceThreads / 32; ++w) top = combined_maximum(top, warp_maximum[w]);
  return top;
}

/// Of every piece the maximum, and the sum of e^(z - maximum).
__global__ void __launch_bounds__(kPieceThreads)
    statistics_of_pieces(MatrixView<const float> z, unsigned chunks, int width, double* maximum,
                         double* sum) {
  const unsigned r = blockIdx.x / chunks;
  const Index first = Index(blockIdx.x - r * chunks) * kChunk;
  const int count = int(min(Index(kChunk), z.cols - first));
  const float* piece = z.row(Index(r)) + first;
  const float none = -std::numeric_limits<float>::infinity();
  float x[kPieceGroups][4];
#pragma unroll
  for (int g = 0; g < kPieceGroups; ++g)
    load_four(piece, (g * kPieceThreads + int(threadIdx.x)) * 4, count, width, none, x[g]);
  const float top = piece_maximum(x);
  const float from = top == none ? 0.0f : top;
  double terms = 0;
#pragma unroll
  for (int g = 0; g < kPieceGroups; ++g)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if ((g * kPieceThreads + int(threadIdx.x)) * 4 + j < count)
        terms += double(math::exp_nonpositive(x[g][j] - from));
  terms = block_sum<kPieceThreads>(terms);
  if (threadIdx.x != 0) return;
  maximum[blockIdx.x] = double(top);
  sum[blockIdx.x] = terms;
}

__global__ void combine_statistics(const double* piece_maximum, const double* piece_sum,
                                   Index chunks, VectorView<float> maximum, VectorView<float> sum) {
  const Index r = Index(blockIdx.x) * kRowThreads + threadIdx.x;
  if (r >= maximum.size) return;
  float top = -std::numeric_limits<float>::infinity();
  for (Index i = 0; i < chunks; ++i)
    top = combined_maximum(top, float(piece_maximum[r * chunks + i]));
  double total = 0;
  for (Index i = 0; i < chunks; ++i)
    total += piece_sum[r * chunks + i] * exp(piece_maximum[r * chunks + i] - double(top));
  maximum[r] = top;
  sum[r] = float(total);
}

__global__ void combine_maxima(MatrixView<const float> block_maximum, VectorView<float> maximum) {
  const Index b = Index(blockIdx.x) * kRowThreads + threadIdx.x;
  if (b >= maximum.size) return;
  float top = -std::numeric_limits<float>::infinity();
  for (Index block = 0; block < block_maximum.rows; ++block)
    top = combined_maximum(top, block_maximum(block, b));
  maximum[b] = top;
}

__global__ void combine_totals(MatrixView<const float> block_maximum,
                               MatrixView<const float> block_sum, VectorView<const float> maximum,
                               VectorView<std::int64_t> total, std::int64_t* out_of_range) {
  const Index b = Index(blockIdx.x) * kRowThreads + threadIdx.x;
  if (b >= total.size) return;
  std::int64_t sum = total[b];
  for (Index block = 0; block < block_maximum.rows; ++block)
    sum += to_fixed(
        double(block_sum(block, b) * math::exp_nonpositive(block_maximum(block, b) - maximum[b])),
        out_of_range);
  total[b] = sum;
}

/// A warp a row; its lanes take the targets in turn.
__global__ void couple_targets(SoftMaxCost cost, SoftMaxTargetRule rule, TargetView target,
                               VectorView<std::int64_t> coupling, std::int64_t* out_of_range) {
  const Index r = Index(blockIdx.x) * (kRowThreads / 32) + threadIdx.x / 32;
  if (r >= coupling.size) return;
  const float unit = rule.unit(cost, target, r);
  const int lane = int(threadIdx.x) % 32;
  double sum = 0;
  if (target.is_sparse) {
    const CsrView& x = target.sparse;
    for (RowOffset i = x.row_begin[r] + lane; i < x.row_begin[r + 1]; i += 32)
      sum += double(rule.stored(unit, target.stored(i)));
  } else {
    for (Index c = lane; c < target.dense.cols; c += 32)
      sum += double(rule.dense(unit, target.dense(r, c)));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(kWholeWarp, sum, step);
  if (lane == 0) coupling[r] = to_fixed(-sum, out_of_range);
}

/// coupling[r] += the sum of the row's pieces.
__global__ void combine_couplings(const double* partial, Index chunks,
                                  VectorView<std::int64_t> coupling, std::int64_t* out_of_range) {
  const Index r = Index(blockIdx.x) * kRowThreads + threadIdx.x;
  if (r >= coupling.size) return;
  double sum = 0;
  for (Index i = 0; i < chunks; ++i) sum += partial[r * chunks + i];
  coupling[r] += to_fixed(sum, out_of_range);
}

unsigned blocks_of_rows(Index rows) {
  return unsigned((rows + kRowThreads - 1) / kRowThreads);
}

/// body(loss) for the losses that are no cross entropies.
template <typename Body>
void visit_other(const Loss& loss, const Body& body) {
  std::visit(
      [&](const auto& l) {
        using L = std::remove_cvref_t<decltype(l)>;
        if constexpr (!L::is_cross_entropy) body(l);
      },
      loss);
}

}  // namespace

void CudaCostKernels::do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                                            VectorView<float> sum) {
  if (z.rows == 0) return;
  const Index chunks = chunks_of(z.cols);
  double* top = statistics_.reserve(2 * z.rows * chunks);
  double* terms = top + z.rows * chunks;
  if (chunks > 0) {
    statistics_of_pieces<<<unsigned(z.rows * chunks), kPieceThreads, 0, stream_.stream>>>(
        z, unsigned(chunks), access_width(z), top, terms);
    check_launch("statistics_of_pieces");
  }
  combine_statistics<<<blocks_of_rows(z.rows), kRowThreads, 0, stream_.stream>>>(top, terms, chunks,
                                                                                 maximum, sum);
  check_launch("combine_statistics");
}

void CudaCostKernels::do_softmax_maximum(MatrixView<const float> block_maximum,
                                         VectorView<float> maximum) {
  if (maximum.empty()) return;
  combine_maxima<<<blocks_of_rows(maximum.size), kRowThreads, 0, stream_.stream>>>(block_maximum,
                                                                                   maximum);
  check_launch("combine_maxima");
}

void CudaCostKernels::do_softmax_total(MatrixView<const float> block_maximum,
                                       MatrixView<const float> block_sum,
                                       VectorView<const float> maximum,
                                       VectorView<std::int64_t> total, std::int64_t* out_of_range) {
  if (total.empty()) return;
  combine_totals<<<blocks_of_rows(total.size), kRowThreads, 0, stream_.stream>>>(
      block_maximum, block_sum, maximum, total, out_of_range);
  check_launch("combine_totals");
}

void CudaCostKernels::do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                                         VectorView<std::int64_t> coupling,
                                         std::int64_t* out_of_range) {
  if (coupling.empty()) return;
  couple_targets<<<blocks_of_rows(coupling.size * 32), kRowThreads, 0, stream_.stream>>>(
      rule, *softmax_target_rule(rule.loss), target, coupling, out_of_range);
  check_launch("couple_targets");
}

void CudaCostKernels::do_block_coupling(const SoftMaxCost& rule, const TargetView& target,
                                        Index first_unit, MatrixView<const float> z,
                                        const SoftMaxRows& rows, VectorView<std::int64_t> coupling,
                                        std::int64_t* out_of_range) {
  if (z.empty()) return;
  double* partial = reserve_partial(z);
  const auto evaluate = [&](const auto& by) {  // none of these writes
    evaluate_pieces(stream_, by, target, first_unit,
                    {const_cast<float*>(z.data), z.rows, z.cols, z.stride}, {}, partial);
  };
  if (const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss))
    evaluate(CrossEntropyCoupling{rule, *targets, rows});
  else
    visit_other(rule.loss, [&](const auto& loss) {
      evaluate(JacobianCoupling<std::remove_cvref_t<decltype(loss)>>{loss, rows});
    });
  combine_couplings<<<blocks_of_rows(z.rows), kRowThreads, 0, stream_.stream>>>(
      partial, chunks_of(z.cols), coupling, out_of_range);
  check_launch("combine_couplings");
}

void CudaCostKernels::do_softmax_delta(const SoftMaxCost& rule, const TargetView& target,
                                       Index first_unit, const SoftMaxRows& rows,
                                       MatrixView<float> z, double* cost,
                                       MatrixView<Bfloat16> bf16) {
  double* partial = reserve_partial(z);
  const auto evaluate = [&](const auto& by) {
    evaluate_pieces(stream_, by, target, first_unit, z, bf16, partial);
  };
  if (const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss))
    evaluate(CrossEntropyLoss{rule, *targets, rows});
  else
    visit_other(rule.loss, [&](const auto& loss) {
      evaluate(JacobianLoss<std::remove_cvref_t<decltype(loss)>>{loss, rule, rows});
    });
  sum_pieces(z, cost);
}

void CudaCostKernels::do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z) {
  evaluate_without_targets(stream_, ValuesLoss{rows}, z);
}

}  // namespace norn::cuda
