// SPDX-License-Identifier: Apache-2.0
// Poolings: which kernels make them, and the largest of several sources, of which a thread has a
// unit.
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/cuda/windows/max_pooling.h"
#include "kernels/cuda/windows/mean_pooling.h"
#include "kernels/cuda/windows/pair_sums.h"
#include "kernels/cuda/windows/responses.h"
#include "kernels/cuda/windows/unit_order.cuh"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/pooling.h"

namespace norn::cuda {
namespace {

using Sources = std::span<const PoolingSource>;

/// y = x of the first source; of all others what displaces it.
struct TakeLargest {
  UnitOrderMap from;
  UnitOrderMap result;
  Operand x;
  GivenDelta y;
  bool is_first;
  __device__ void operator()(Index e, int c) const {
    const float value = x(e, from.at(result.unit(c)));
    if (is_first || displaces(value, y.dx(e, c))) y.write(e, c, value);
  }
};

/// given = delta in the arrangement of a source.
struct ArrangeDelta {
  UnitOrderMap from;
  UnitOrderMap own;
  Operand delta;
  MatrixView<float> given;
  __device__ void operator()(Index e, int c) const { given(e, c) = delta(e, from.at(own.unit(c))); }
};

/// A source has a unit's delta if it displaces all in front and none behind displaces it.
struct KeepWinners {
  UnitOrderMap own;
  UnitOrderMap other;
  Operand x;
  Operand other_x;
  bool is_behind;  ///< the source, of the other one
  MatrixView<float> given;
  __device__ void operator()(Index e, int c) const {
    const float mine = x(e, c), theirs = other_x(e, other.at(own.unit(c)));
    const bool wins = is_behind ? displaces(mine, theirs) : !displaces(theirs, mine);
    if (!wins) given(e, c) = 0.0f;
  }
};

struct GiveDelta {
  MatrixView<const float> given;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const { to.add(e, c, given(e, c)); }
};

class CudaPooling final : public PoolingKernels {
 public:
  explicit CudaPooling(const Stream& stream) : stream_(stream), kept_(stream.memory) {}

 private:
  void do_forward(const Pooling& pooling, Sources sources, const DenseResult& y) override {
    for (const PoolingSource& source : sources) {
      const GivenDelta to{.dx = y.values, .adds = &source != sources.data(), .bf16 = y.bf16};
      std::visit([&](const auto& kind) { forward_of(kind, sources[0], source, to); }, pooling);
    }
  }
  void do_backward(const Pooling& pooling, Sources sources, std::size_t source,
                   const DenseOperand& delta, const DenseResult& dx, Existing existing) override {
    const GivenDelta to{.dx = dx.values, .adds = existing == Existing::add, .bf16 = dx.bf16};
    std::visit([&](const auto& kind) { backward_of(kind, sources, source, delta, to); }, pooling);
  }
  bool do_backward_through(const Pooling& pooling, Sources sources, std::size_t source,
                           const DenseOperand& delta, const Activation& f,
                           const DenseResult& dx) override {
    const std::optional<SignedSlopes> slopes = SignedSlopes::of(f);
    if (!slopes) return false;
    const Operand x(sources[source].x);
    const GivenDelta to{.dx = dx.values,
                        .slopes = true,
                        .f = *slopes,
                        .x = x.floats,
                        .bf16 = dx.bf16,
                        .x_bf16 = x.bf16};
    std::visit([&](const auto& kind) { backward_of(kind, sources, source, delta, to); }, pooling);
    return true;
  }

  void forward_of(const MaxPooling&, const PoolingSource&, const PoolingSource& source,
                  const GivenDelta& to) {
    pool_largest(stream_, source, to);
  }
  void forward_of(const AveragePooling&, const PoolingSource&, const PoolingSource& source,
                  const GivenDelta& to) {
    pool_means(stream_, source, to);
  }
  void forward_of(const LocalResponseNormalization& lrn, const PoolingSource&,
                  const PoolingSource& source, const GivenDelta& to) {
    normalise_responses(stream_, lrn, source, to);
  }
  void forward_of(const Maxout&, const PoolingSource& first, const PoolingSource& source,
                  const GivenDelta& to) {
    for_cells(stream_, "take the largest", to.dx.rows, to.dx.cols,
              TakeLargest{UnitOrderMap(source.window),
                          UnitOrderMap(first.window, UnitOrder::channels_last), source.x, to,
                          &source == &first});
  }

  void backward_of(const MaxPooling&, Sources sources, std::size_t number,
                   const DenseOperand& delta, const GivenDelta& to) {
    spread_largest(stream_, kept_, sources[number], delta, to);
  }
  void backward_of(const AveragePooling&, Sources sources, std::size_t number,
                   const DenseOperand& delta, const GivenDelta& to) {
    spread_means(stream_, sources[number], delta, to);
  }
  void backward_of(const LocalResponseNormalization& lrn, Sources sources, std::size_t number,
                   const DenseOperand& delta, const GivenDelta& to) {
    normalise_responses_backward(stream_, lrn, sources[number], delta, to);
  }
  void backward_of(const Maxout&, Sources sources, std::size_t number, const DenseOperand& delta,
                   const GivenDelta& to) {
    const UnitOrderMap own(sources[number].window);
    const Index rows = to.dx.rows, units = to.dx.cols;
    const MatrixView<float> given = reserve_matrix<float>(kept_, rows, units);
    for_cells(
        stream_, "arrange delta", rows, units,
        ArrangeDelta{UnitOrderMap(sources[0].window, UnitOrder::channels_last), own, delta, given});
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (s != number)
        for_cells(stream_, "keep winners", rows, units,
                  KeepWinners{own, UnitOrderMap(sources[s].window), sources[number].x, sources[s].x,
                              s < number, given});
    for_cells(stream_, "give delta", rows, units, GiveDelta{given, to});
  }

  void do_add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                        const PairSums<FixedSum>& sums) override {
    cuda::add_pair_sums(stream_, first, second, sums);
  }
  void do_compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                  MatrixView<float> y) override {
    cuda::compare(stream_, similarity, sums, y);
  }
  void do_compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                           MatrixView<const float> delta, const PoolingSource& first,
                           const PoolingSource& second, MatrixView<float> dx,
                           Existing existing) override {
    cuda::compare_backward(stream_, similarity, sums, delta, first, second, dx,
                           existing == Existing::add);
  }

  Stream stream_;
  Workspace<std::byte> kept_;
};

}  // namespace

std::unique_ptr<PoolingKernels> make_pooling(const Stream& stream) {
  return std::make_unique<CudaPooling>(stream);
}

}  // namespace norn::cuda
