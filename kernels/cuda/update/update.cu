// SPDX-License-Identifier: Apache-2.0
// Dense updates of weights, their initial values and their norms on the GPU.
#include "kernels/cuda/elements/column_sums.cuh"
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/families.h"
#include "kernels/cuda/update/rule_step.cuh"
#include "kernels/cuda/update/weight_access.cuh"
#include "kernels/update.h"

#include <algorithm>

namespace norn::cuda {
namespace {

/// Bytes a weight: 12 and 8 a slot.
template <typename Rule, typename Weights>
struct UpdateWork {
  Rule rule;
  UpdateStep step;
  Weights w;
  MatrixView<const float> g;
  MatrixView<float> slot[kHeldSlots<Rule>];
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    Pack<float, n> weight = w.template read<n, kStep>(r, c);
    Pack<float, n> gradient = load<n, kStep>(g.row(r) + c);
    clip_some(step, gradient.value);
    float state[kHeldSlots<Rule>][n] = {};
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) {
      const Pack<float, n> pack = load<n, kStep>(slot[s].row(r) + c);
#pragma unroll
      for (int i = 0; i < n; ++i) state[s][i] = pack.value[i];
    }
    step_some(rule, step, weight.value, gradient.value, state);
    w.template write<n, kStep>(r, c, weight);
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) {
      Pack<float, n> pack;
#pragma unroll
      for (int i = 0; i < n; ++i) pack.value[i] = state[s][i];
      store<n, kStep>(slot[s].row(r) + c, pack);
    }
  }
};

/// Between floats and halves.
struct JoinWork {
  SplitWeights w;
  MatrixView<float> floats;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    store<n, kStep>(floats.row(r) + c, w.template read<n, kStep>(r, c));
  }
};
struct SplitWork {
  MatrixView<const float> floats;
  SplitWeights w;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    w.template write<n, kStep>(r, c, load<n, kStep>(floats.row(r) + c));
  }
};

/// Vectors that one kernel updates.
struct VectorList {
  static constexpr int kMost = 32;
  struct Vector {
    VectorView<float> w;
    VectorView<const float> g;
    VectorView<float> slot[kMostSlots];
  };
  Vector vector[kMost];
};

template <typename Rule>
__global__ void __launch_bounds__(kElementThreads)
    update_vectors_kernel(const Rule rule, const UpdateStep step, const VectorList list) {
  const VectorList::Vector& v = list.vector[blockIdx.y];
  const Index threads = Index(gridDim.x) * kElementThreads;
  for (Index i = Index(blockIdx.x) * kElementThreads + threadIdx.x; i < v.w.size; i += threads) {
    float weight = v.w.data[i], state[kHeldSlots<Rule>] = {};
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) state[s] = v.slot[s].data[i];
    float gradient[1] = {v.g.data[i]};
    clip_some(step, gradient);
    rule.step(weight, gradient[0], state, step);
    v.w.data[i] = weight;
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) v.slot[s].data[i] = state[s];
  }
}

template <typename Scheme>
struct InitialiseWork {
  Scheme scheme;
  Fan fan;
  Philox random;
  WeightPlace place;
  MatrixView<float> w;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    static_assert(n == 1);
    const Index source = place.first_source + (place.by_destination ? c : r);
    const Index destination = place.first_destination + (place.by_destination ? r : c);
    const Philox::Block block =
        random.block(std::uint64_t(source * place.destinations + destination), 0);
    w(r, c) = scheme.value(fan, block.word[0], block.word[1]);
  }
};

/// w *= factor of its column.
struct ScaleColumnsWork {
  MatrixView<const float> factor;
  MatrixView<float> w;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> f = load<n, kStep>(factor.row(r) + c);
    Pack<float, n> x = load<n, kStep>(w.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] *= f.value[i];
    store<n, kStep>(w.row(r) + c, x);
  }
};

/// factor[c] = what brings a column of that sum of squares down to the limit.
struct ColumnFactor {
  double limit;
  float* factor;
  __device__ void operator()(Index c, const double (&squares)[1]) const {
    const double norm = std::sqrt(squares[0]);
    factor[c] = norm > limit ? float(limit / norm) : 1.0f;
  }
};

/// squares[c] += a column's sum.
struct AddColumn {
  double* squares;
  __device__ void operator()(Index c, const double (&sum)[1]) const { squares[c] += sum[0]; }
};

/// The same for sums that are there already.
struct FactorsWork {
  ColumnFactor finish;
  const double* squares;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    static_assert(n == 1);
    finish(c, {squares[c]});
  }
};

/// Brings a row with this sum of squares down to the limit.
template <int kThreads, bool kPacked>
__device__ __forceinline__ void bound_row(double limit, double squares, float* row, Index cols) {
  const double norm = std::sqrt(squares);
  if (norm <= limit) return;
  const float factor = float(limit / norm);
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < cols; c += 4 * kThreads) {
    Pack<float, 4> x = load_four<kPacked>(row, c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) x.value[i] *= factor;
    store_four<kPacked>(row, c, cols, x);
  }
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    clip_row_norms_kernel(const double limit, const MatrixView<float> w) {
  const Index r = row_of_group<kThreads>();
  if (r >= w.rows) return;
  float* row = w.row(r);
  bound_row<kThreads, kPacked>(limit, sum_of_squares<kThreads, kPacked>(row, w.cols), row, w.cols);
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    add_row_squares_kernel(const MatrixView<const float> w, double* squares) {
  const Index r = row_of_group<kThreads>();
  if (r >= w.rows) return;
  const double sum = sum_of_squares<kThreads, kPacked>(w.row(r), w.cols);
  if (threadIdx.x == 0) squares[r] += sum;
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    scale_rows_kernel(const double limit, const double* squares, const MatrixView<float> w) {
  const Index r = row_of_group<kThreads>();
  if (r < w.rows) bound_row<kThreads, kPacked>(limit, squares[r], w.row(r), w.cols);
}

// Norms: the elements, counted along the rows, are dealt out in fours to a grid whose size depends
// on their number alone.
constexpr int kNormThreads = 256;
constexpr int kMaximumNormBlocks = 512;
constexpr Index kElementsOfNormBlock = 4096;  // at least

struct Norms {
  double squares = 0;
  double magnitudes = 0;
  __device__ void add(float x) {
    squares += double(x) * double(x);
    magnitudes += std::fabs(double(x));
  }
};

/// kRun: the matrix is one run that may be read in packs.
template <bool kRun, typename Weights>
__global__ void __launch_bounds__(kNormThreads)
    norms_kernel(const Weights w, const Index size, const Index cols, double* partial) {
  const Index step = Index(gridDim.x) * kNormThreads * 4;
  Norms sum;
#pragma unroll 4
  for (Index e = (Index(blockIdx.x) * kNormThreads + threadIdx.x) * 4; e < size; e += step) {
    if (kRun && e + 4 <= size) {
      const Pack<float, 4> x = w.template read<4, 1>(0, e);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum.add(x.value[i]);
    } else {
      const Index last = e + 4 < size ? e + 4 : size;
      for (Index i = e; i < last; ++i) sum.add(w.template read<1, 1>(i / cols, i % cols).value[0]);
    }
  }
  const double squares = reduce_threads<kNormThreads>(sum.squares, Plus{});
  const double magnitudes = reduce_threads<kNormThreads>(sum.magnitudes, Plus{});
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = squares;
  partial[gridDim.x + blockIdx.x] = magnitudes;
}

__global__ void __launch_bounds__(kMaximumNormBlocks)
    finish_norms_kernel(const double* partial, const int parts, double* squares,
                        double* magnitudes) {
  const int i = int(threadIdx.x);
  const double first = reduce_threads<kMaximumNormBlocks>(i < parts ? partial[i] : 0.0, Plus{});
  const double second =
      reduce_threads<kMaximumNormBlocks>(i < parts ? partial[parts + i] : 0.0, Plus{});
  if (i != 0) return;
  *squares = first;
  *magnitudes = second;
}

class CudaUpdate final : public UpdateKernels {
 public:
  explicit CudaUpdate(const Stream& stream)
      : stream_(stream), partial_(stream.memory), factor_(stream.memory) {}

 private:
  /// body(weights), as the kernels take them.
  template <typename Body>
  static void with_weights(const WeightView& w, const Body& body) {
    w.is_split() ? body(SplitWeights{w.high, w.low}) : body(FloatWeights{w.floats});
  }

  void do_update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                 MatrixView<const float> g, SlotViews slot) override {
    std::fill(slot.begin() + slots_of(rule), slot.end(), MatrixView<float>{});
    const Elements elements = std::apply(
        [&](const auto&... s) { return elements_of<4>(g, w.floats, w.high, w.low, s...); }, slot);
    with_weights(w, [&](const auto& weights) {
      std::visit(
          [&](const auto& r) {
            using Rule = std::remove_cvref_t<decltype(r)>;
            UpdateWork<Rule, std::remove_cvref_t<decltype(weights)>> work{r, step, weights, g, {}};
            std::copy_n(slot.begin(), kHeldSlots<Rule>, work.slot);
            run_elements<4>(stream_, "update", elements, work);
          },
          rule);
    });
  }

  void do_join(WeightView w, MatrixView<float> floats) override {
    run_elements<4>(stream_, "join", elements_of<4>(floats, w.high, w.low),
                    JoinWork{{w.high, w.low}, floats});
  }
  void do_split(MatrixView<const float> floats, WeightView w) override {
    run_elements<4>(stream_, "split", elements_of<4>(floats, w.high, w.low),
                    SplitWork{floats, {w.high, w.low}});
  }

  void do_update_vectors(const UpdateRule& rule, const UpdateStep& step,
                         std::span<const VectorUpdate> vectors) override {
    for (std::size_t first = 0; first < vectors.size(); first += VectorList::kMost) {
      const auto count = std::min<std::size_t>(VectorList::kMost, vectors.size() - first);
      VectorList list{};
      Index longest = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const VectorUpdate& from = vectors[first + i];
        list.vector[i] = {from.w, from.g, {}};
        std::ranges::copy(from.slot, list.vector[i].slot);
        longest = std::max(longest, list.vector[i].w.size);
      }
      if (longest == 0) continue;
      const dim3 grid(blocks_for(longest, kElementThreads, Index(8) * stream_.multiprocessors),
                      unsigned(count));
      std::visit(
          [&](const auto& r) {
            update_vectors_kernel<<<grid, kElementThreads, 0, stream_.stream>>>(r, step, list);
          },
          rule);
      check_launch("update_vectors");
    }
  }

  void do_initialise(const Initializer& initializer, Philox random, const WeightPlace& place,
                     MatrixView<float> w) override {
    const Fan fan = place.fans();
    // Not as one run: a weight's number comes from its row and column.
    const Elements elements{w.rows, w.cols, false};
    std::visit(
        [&](const auto& scheme) {
          using Scheme = std::remove_cvref_t<decltype(scheme)>;
          run_elements<1>(stream_, "initialise", elements,
                          InitialiseWork<Scheme>{scheme, fan, random, place, w});
        },
        initializer);
  }

  void do_clip_row_norms(float limit, MatrixView<float> w) override {
    with_row_threads(w.rows, w.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (is_packable<4>(w))
        clip_row_norms_kernel<kThreads, true><<<l.grid, l.block, 0, stream_.stream>>>(limit, w);
      else
        clip_row_norms_kernel<kThreads, false><<<l.grid, l.block, 0, stream_.stream>>>(limit, w);
      check_launch("clip_row_norms");
    });
  }

  void do_clip_column_norms(float limit, MatrixView<float> w) override {
    const VectorView<float> factor{factor_.reserve(w.cols), w.cols};
    sum_over_columns(stream_, partial_, "clip_column_norms", w.rows, w.cols, is_packable<4>(w),
                     SquareTerm{w}, ColumnFactor{double(limit), factor.data});
    scale_by_columns("clip_column_norms", factor, w);
  }

  void scale_by_columns(const char* name, VectorView<float> factor, MatrixView<float> w) {
    const MatrixView<const float> factors = on_every_row<const float>(factor, w.rows);
    run_elements<4>(stream_, name, elements_of<4>(w, factors), ScaleColumnsWork{factors, w});
  }

  void do_add_row_squares(MatrixView<const float> w, VectorView<double> squares) override {
    with_row_threads(w.rows, w.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (is_packable<4>(w))
        add_row_squares_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(w, squares.data);
      else
        add_row_squares_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(w, squares.data);
      check_launch("add_row_squares");
    });
  }

  void do_add_column_squares(MatrixView<const float> w, VectorView<double> squares) override {
    sum_over_columns(stream_, partial_, "add_column_squares", w.rows, w.cols, is_packable<4>(w),
                     SquareTerm{w}, AddColumn{squares.data});
  }

  void do_scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w) override {
    with_row_threads(w.rows, w.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (is_packable<4>(w))
        scale_rows_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(limit, squares.data, w);
      else
        scale_rows_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(limit, squares.data, w);
      check_launch("scale_rows");
    });
  }

  void do_scale_columns(float limit, VectorView<const double> squares,
                        MatrixView<float> w) override {
    const VectorView<float> factor{factor_.reserve(w.cols), w.cols};
    run_elements<1>(stream_, "scale_columns", Elements{1, w.cols, false},
                    FactorsWork{{double(limit), factor.data}, squares.data});
    scale_by_columns("scale_columns", factor, w);
  }

  void do_norms(WeightView w, double* squares, double* magnitudes) override {
    const Index size = w.floats.size();
    const auto parts = int(blocks_for(size, int(kElementsOfNormBlock), Index(kMaximumNormBlocks)));
    double* partial = partial_.reserve(2 * Index(kMaximumNormBlocks));
    const Elements elements = elements_of<4>(w.floats, w.high, w.low);
    with_weights(w, [&](const auto& weights) {
      if (elements.rows <= 1 && elements.is_packable)
        norms_kernel<true><<<unsigned(parts), kNormThreads, 0, stream_.stream>>>(weights, size,
                                                                                 w.cols(), partial);
      else
        norms_kernel<false><<<unsigned(parts), kNormThreads, 0, stream_.stream>>>(
            weights, size, w.cols(), partial);
    });
    check_launch("norms");
    finish_norms_kernel<<<1, kMaximumNormBlocks, 0, stream_.stream>>>(partial, parts, squares,
                                                                      magnitudes);
    check_launch("finish_norms");
  }

  Stream stream_;
  Workspace<double> partial_;
  Workspace<float> factor_;
};

}  // namespace

std::unique_ptr<UpdateKernels> make_update(const Stream& stream) {
  return std::make_unique<CudaUpdate>(stream);
}

}  // namespace norn::cuda
