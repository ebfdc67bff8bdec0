// SPDX-License-Identifier: Apache-2.0
// Costs and deltas of independent output units on the GPU.
#include "kernels/cost.h"
#include "kernels/cuda/cost/cost_kernels.h"
#include "kernels/cuda/cost/cost_pieces.h"
#include "kernels/cuda/families.h"

namespace norn::cuda {
namespace {

/// Pairs that get kernels of their own; the others are chosen element by element.
template <typename F, typename L>
constexpr bool kIsFrequent = F::has_cost_kernels&& L::has_cost_kernels;

/// One activation with one loss.
template <typename F, typename L>
struct PairCost {
  F f;
  L loss;
  __device__ ElementCost<float> operator()(float z, float t) const {
    return element_cost(f, loss, z, t);
  }
  __device__ float stored_target(float value) const { return loss.stored_target(value); }
};

/// body(the alternative that `variant` holds); std::visit has no device version.
template <std::size_t I = 0, typename Variant, typename Body>
__device__ auto visit_on_device(const Variant& variant, const Body& body) {
  if constexpr (I + 1 < std::variant_size_v<Variant>)
    if (variant.index() != I) return visit_on_device<I + 1>(variant, body);
  return body(*std::get_if<I>(&variant));
}

/// Out of line: all these pairs, once.
__device__ __noinline__ ElementCost<float> cost_of_any(const Activation& f, const Loss& loss,
                                                       float z, float t) {
  return visit_on_device(loss, [&](const auto& l) {
    return visit_on_device(f, [&]<typename F>(const F& a) -> ElementCost<float> {
      if constexpr (F::slope_from == SlopeFrom::y)
        return element_cost(a, l, z, t);
      else
        return {};  // AnyLoss evaluates these
    });
  });
}

/// Any activation whose slope is written in y, with any loss.
struct AnyCost {
  Activation f;
  Loss loss;
  __device__ ElementCost<float> operator()(float z, float t) const {
    return cost_of_any(f, loss, z, t);
  }
  __device__ float stored_target(float value) const {
    return visit_on_device(loss, [&](const auto& l) { return l.stored_target(value); });
  }
};

template <typename F>
__device__ __noinline__ ElementCost<float> cost_by_any(const F& f, const Loss& loss, float z,
                                                       float t) {
  return visit_on_device(loss, [&](const auto& l) { return element_cost(f, l, z, t); });
}

/// One activation with any loss: functions whose slope is written in z are long, and would
/// cost the others of AnyCost registers.
template <typename F>
struct AnyLoss {
  F f;
  Loss loss;
  __device__ ElementCost<float> operator()(float z, float t) const {
    return cost_by_any(f, loss, z, t);
  }
  __device__ float stored_target(float value) const {
    return visit_on_device(loss, [&](const auto& l) { return l.stored_target(value); });
  }
};

template <typename Cost>
struct UnitLoss {
  static constexpr bool kWrites = true;
  static constexpr bool kEvaluatesAbsent = true;
  Cost cost;
  DeltaBoost boost;

  struct Row {
    float factor_one;
    float factor_zero;
    double cost_factor;
  };
  __device__ Row row(const TargetView& target, Index r) const {
    const float weight = target.weight.empty() ? 1.0f : target.weight[r];
    return {weight * boost.one, weight * boost.zero, double(weight)};
  }
  __device__ ElementCost<float> absent(const Row& row, float z) const {
    const ElementCost<float> e = cost(z, 0.0f);
    return {e.cost, row.factor_zero * e.delta};
  }
  __device__ ElementCost<float> dense(const Row& row, float z, float t) const {
    const ElementCost<float> e = cost(z, t);
    return {e.cost, row.factor_one * e.delta};
  }
  __device__ StoredCost stored(const Row& row, float z, const StoredTarget& target) const {
    const ElementCost<float> e = cost(z, cost.stored_target(target.value));
    return {double(target.weight) * double(e.cost), row.factor_one * target.weight * e.delta};
  }
};

constexpr int kSumThreads = 1024;

__global__ void __launch_bounds__(kSumThreads)
    sum_partial(const double* partial, Index count, double* cost) {
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += kSumThreads) sum += partial[i];
  sum = block_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) *cost = sum;
}

}  // namespace

double* CudaCostKernels::reserve_partial(MatrixView<const float> z) {
  return partial_.reserve(z.rows * chunks_of(z.cols));
}

void CudaCostKernels::sum_pieces(MatrixView<const float> z, double* cost) {
  sum_partial<<<1, kSumThreads, 0, stream_.stream>>>(partial_.data(), z.rows * chunks_of(z.cols),
                                                     cost);
  check_launch("sum_partial");
}

void CudaCostKernels::do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                               MatrixView<float> z, double* cost, MatrixView<Bfloat16> bf16) {
  double* partial = reserve_partial(z);
  std::visit(
      [&](const auto& f, const auto& loss) {
        using F = std::remove_cvref_t<decltype(f)>;
        using L = std::remove_cvref_t<decltype(loss)>;
        const DeltaBoost boost = boost_of(rule, target.is_sparse);
        const auto evaluate = [&](const auto& element) {
          using Cost = std::remove_cvref_t<decltype(element)>;
          evaluate_pieces(stream_, UnitLoss<Cost>{element, boost}, target, first_unit, z, bf16,
                          partial);
        };
        if constexpr (kIsFrequent<F, L>)
          evaluate(PairCost<F, L>{f, loss});
        else if constexpr (F::slope_from == SlopeFrom::z)
          evaluate(AnyLoss<F>{f, rule.loss});
        else
          evaluate(AnyCost{rule.activation, rule.loss});
      },
      rule.activation, rule.loss);
  sum_pieces(z, cost);
}

std::unique_ptr<CostKernels> make_cost(const Stream& stream) {
  return std::make_unique<CudaCostKernels>(stream);
}

}  // namespace norn::cuda
