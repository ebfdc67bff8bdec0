// SPDX-License-Identifier: Apache-2.0
// Pointwise work on the GPU.
#include "kernels/cuda/dense/transpose.h"
#include "kernels/cuda/elements/column_sums.cuh"
#include "kernels/cuda/elements/dropout.cuh"
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/families.h"
#include "kernels/pointwise.h"
#include "src/base/checksum.h"

namespace norn::cuda {
namespace {

constexpr int kChecksumThreads = 256;

// Integer sums: neither the grid nor the order of the atomic additions matters.
__global__ void checksum_kernel(VectorView<const std::byte> bytes, Index words,
                                std::uint64_t* sum) {
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data);
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % sizeof(std::uint32_t) == 0;
  std::uint64_t own = 0;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += Index(gridDim.x) * blockDim.x) {
    std::uint32_t word = 0;
    if (aligned && 4 * i + 4 <= bytes.size) {
      word = reinterpret_cast<const std::uint32_t*>(from)[i];
    } else {
      for (int b = 0; b < 4 && 4 * i + b < bytes.size; ++b)
        word |= std::uint32_t(from[4 * i + b]) << (8 * b);
    }
    own += checksum_term(word, std::uint64_t(i));
  }
  for (int step = 16; step > 0; step /= 2) own += __shfl_down_sync(0xffffffffu, own, step);
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(own));
}

struct CopyWork {
  MatrixView<const float> x;
  MatrixView<float> z;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    store<n, kStep>(z.row(r) + c, load<n, kStep>(x.row(r) + c));
  }
};

struct AddWork {
  MatrixView<const float> x;
  MatrixView<float> z;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> term = load<n, kStep>(x.row(r) + c);
    Pack<float, n> sum = load<n, kStep>(z.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) sum.value[i] += term.value[i];
    store<n, kStep>(z.row(r) + c, sum);
  }
};

struct ScaleWork {
  float factor;
  MatrixView<float> z;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    Pack<float, n> x = load<n, kStep>(z.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] *= factor;
    store<n, kStep>(z.row(r) + c, x);
  }
};

struct CastWork {
  MatrixView<const float> x;
  MatrixView<Bfloat16> bf16;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    store_bf16<n, kStep>(bf16.row(r) + c, load<n, kStep>(x.row(r) + c));
  }
};

template <typename Function>
struct ActivateWork {
  Function f;
  MatrixView<float> y;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    Pack<float, n> x = load<n, kStep>(y.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] = f.value(x.value[i]);
    store<n, kStep>(y.row(r) + c, x);
  }
};

constexpr int kActivatedRows = 4;  // of a thread at a time

/// Bytes an element: 8, and 4, 2 and 4 for the copies.
template <typename Function>
struct ActivateLayerWork {
  Function f;
  DropoutMask dropout;
  MatrixView<float> y;
  MatrixView<float> before_dropout;
  MatrixView<Bfloat16> bf16;
  MatrixView<float> z;  // of those whose slope is written in it
  template <int n>
  __device__ Pack<float, n> load(Index r, Index c) const {
    return cuda::load<n>(y.row(r) + c);
  }
  template <int n>
  __device__ Pack<float, n> finish(Index r, Index c, Pack<float, n> x,
                                   const UnitChances<n>& chance) const {
    if constexpr (Function::slope_from == SlopeFrom::z)
      if (z.data != nullptr) store<n>(z.row(r) + c, x);
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] = f.value(x.value[i]);
    if (before_dropout.data != nullptr) store<n>(before_dropout.row(r) + c, x);
    if (dropout.drops()) {
#pragma unroll
      for (int i = 0; i < n; ++i) x.value[i] = dropout.value(chance.value[i], x.value[i]);
    }
    store<n>(y.row(r) + c, x);
    if (bf16.data != nullptr) store_bf16<n, 1>(bf16.row(r) + c, x);
    return x;
  }
};

template <bool kPacked, typename Work>
__global__ void __launch_bounds__(kElementThreads) activate_layer_kernel(const Work work) {
  for_units<kPacked, kActivatedRows>(work.dropout, work.y.rows, work.y.cols, work);
}

constexpr int kSide = 32;  // of the tiles that are transposed, one to a block at a time
constexpr Index kMaximumTiles = 65535;

/// The same, where fours may be accessed at once, and the outputs transposed.
template <typename Work>
__global__ void __launch_bounds__(kElementThreads)
    activate_and_transpose_kernel(const Work work, const MatrixView<float> transposed) {
  __shared__ float tile[kSide][kSide + 1];
  const int x = 4 * int(threadIdx.x);
  const int y = int(threadIdx.y);
  const Index c = Index(blockIdx.x) * kSide + x;
  const Index to_row = Index(blockIdx.x) * kSide + y;
  for (Index first = Index(blockIdx.y) * kSide; first < transposed.cols;
       first += Index(gridDim.y) * kSide) {
    const Index r = first + y;
    Pack<float, 4> out{};
    if (r < work.y.rows && c < work.y.cols) {
      const UnitChances<4> chances =
          draw_chances(work.dropout, (work.dropout.first_unit + c) >> 2, r);
      if (c + 4 <= work.y.cols) {
        out = work.finish(r, c, work.template load<4>(r, c), chances);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (c + k < work.y.cols)
            out.value[k] = work.finish(r, c + k, work.template load<1>(r, c + k),
                                       UnitChances<1>{{chances.value[k]}})
                               .value[0];
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) tile[x + k][y] = out.value[k];
    __syncthreads();
    if (to_row < transposed.rows) {
#pragma unroll
      for (int k = 0; k < 4; ++k) out.value[k] = tile[y][x + k];
      store_four<true>(transposed.row(to_row), first + x, transposed.cols, out);
    }
    __syncthreads();
  }
}

template <typename Function>
struct SlopeWork {
  Function f;
  MatrixView<const float> x;
  MatrixView<float> delta;
  MatrixView<Bfloat16> bf16;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const Pack<float, n> from = load<n, kStep>(x.row(r) + c);
    Pack<float, n> d = load<n, kStep>(delta.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) d.value[i] *= f.slope(from.value[i]);
    store<n, kStep>(delta.row(r) + c, d);
    if (bf16.data != nullptr) store_bf16<n, kStep>(bf16.row(r) + c, d);
  }
};

struct ScaledSum {
  double scale;
  float* sum;
  __device__ void operator()(Index c, const double (&total)[1]) const {
    sum[c] = float(scale * total[0]);
  }
};

/// Rows that fit into the registers of their threads: kPacks packs each.
constexpr int kPacks = 8;

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    softmax_short_rows_kernel(const MatrixView<float> z) {
  const Index r = row_of_group<kThreads>();
  if (r >= z.rows) return;
  float* row = z.row(r);
  const int cols = int(z.cols), first = int(threadIdx.x) * 4;
  Pack<float, 4> x[kPacks];
  float top = row[0];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int c = first + k * 4 * kThreads;
    if (c >= cols) continue;
    x[k] = load_four<kPacked>(row, c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (c + i < cols) top = Larger{}(x[k].value[i], top);
  }
  top = reduce_threads<kThreads>(top, Larger{});
  double total = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int c = first + k * 4 * kThreads;
    if (c >= cols) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[k].value[i] = math::exp_nonpositive(x[k].value[i] - top);
      if (c + i < cols) total += double(x[k].value[i]);
    }
  }
  const float inverse = float(1.0 / reduce_threads<kThreads>(total, Plus{}));
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int c = first + k * 4 * kThreads;
    if (c >= cols) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[k].value[i] *= inverse;
    store_four<kPacked>(row, c, cols, x[k]);
  }
}

/// The exponentials are taken twice rather than kept: what they cost hides behind the memory.
template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    softmax_rows_kernel(const MatrixView<float> z) {
  const Index r = row_of_group<kThreads>();
  if (r >= z.rows) return;
  float* row = z.row(r);
  float top = row[0];
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < z.cols; c += 4 * kThreads) {
    const Pack<float, 4> x = load_four<kPacked>(row, c, z.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (c + i < z.cols) top = Larger{}(x.value[i], top);
  }
  top = reduce_threads<kThreads>(top, Larger{});
  double total = 0;
#pragma unroll 2
  for (Index c = Index(threadIdx.x) * 4; c < z.cols; c += 4 * kThreads) {
    const Pack<float, 4> x = load_four<kPacked>(row, c, z.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (c + i < z.cols) total += double(math::exp_nonpositive(x.value[i] - top));
  }
  total = reduce_threads<kThreads>(total, Plus{});
  const float inverse = float(1.0 / total);
#pragma unroll 2
  for (Index c = Index(threadIdx.x) * 4; c < z.cols; c += 4 * kThreads) {
    Pack<float, 4> x = load_four<kPacked>(row, c, z.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) x.value[i] = math::exp_nonpositive(x.value[i] - top) * inverse;
    store_four<kPacked>(row, c, z.cols, x);
  }
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    softmax_rows_backward_kernel(const MatrixView<const float> y, const MatrixView<float> delta) {
  const Index r = row_of_group<kThreads>();
  if (r >= y.rows) return;
  const float* output = y.row(r);
  float* row = delta.row(r);
  double coupling = 0;
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < y.cols; c += 4 * kThreads) {
    const Pack<float, 4> a = load_four<kPacked>(row, c, y.cols);
    const Pack<float, 4> b = load_four<kPacked>(output, c, y.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) coupling += double(a.value[i]) * double(b.value[i]);
  }
  const float shared = float(reduce_threads<kThreads>(coupling, Plus{}));
#pragma unroll 2
  for (Index c = Index(threadIdx.x) * 4; c < y.cols; c += 4 * kThreads) {
    Pack<float, 4> d = load_four<kPacked>(row, c, y.cols);
    const Pack<float, 4> b = load_four<kPacked>(output, c, y.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) d.value[i] = b.value[i] * (d.value[i] - shared);
    store_four<kPacked>(row, c, y.cols, d);
  }
}

constexpr int kOctets = 8;     // of columns, of a block
constexpr int kSumLanes = 64;  // lane l sums rows l, l + 64, ...

/// Sums of bf16 columns, eight to a thread, which reads 16 bytes at a time.
__global__ void __launch_bounds__(kOctets* kSumLanes)
    sum_bf16_columns_kernel(const MatrixView<const Bfloat16> delta, const double scale,
                            float* sum) {
  constexpr int kWarps = kOctets * kSumLanes / 32;
  __shared__ double part[kWarps][kOctets * 8];
  const Index first = (Index(blockIdx.x) * kOctets + threadIdx.x) * 8;
  double total[8] = {};
  if (first < delta.cols) {
#pragma unroll 8
    for (Index r = threadIdx.y; r < delta.rows; r += kSumLanes) {
      const uint4 eight = *reinterpret_cast<const uint4*>(delta.row(r) + first);
      const unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[2 * i] += double(__uint_as_float(word[i] << 16));
        total[2 * i + 1] += double(__uint_as_float(word[i] & 0xFFFF0000u));
      }
    }
  }
  const int thread = int(threadIdx.y * kOctets + threadIdx.x);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    double x = total[i];
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 8);
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 16);
    if (thread % 32 < kOctets) part[thread / 32][threadIdx.x * 8 + unsigned(i)] = x;
  }
  __syncthreads();
  const Index column = Index(blockIdx.x) * kOctets * 8 + thread;
  if (thread >= kOctets * 8 || column >= delta.cols) return;
  double all = 0.0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) all += part[warp][thread];
  sum[column] = float(scale * all);
}

class CudaPointwise final : public PointwiseKernels {
 public:
  explicit CudaPointwise(const Stream& stream) : stream_(stream), partial_(stream.memory) {}

 private:
  void do_set_rows(VectorView<const float> row, MatrixView<float> z) override {
    const MatrixView<const float> rows = on_every_row(row, z.rows);
    run_elements<4>(stream_, "set_rows", elements_of<4>(z, rows), CopyWork{rows, z});
  }
  void do_add(MatrixView<const float> x, MatrixView<float> z) override {
    run_elements<4>(stream_, "add", elements_of<4>(z, x), AddWork{x, z});
  }
  void do_copy(MatrixView<const float> x, MatrixView<float> z) override {
    run_elements<4>(stream_, "copy", elements_of<4>(z, x), CopyWork{x, z});
  }
  void do_scale(float factor, MatrixView<float> z) override {
    run_elements<4>(stream_, "scale", elements_of<4>(z), ScaleWork{factor, z});
  }
  void do_cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16) override {
    run_elements<8>(stream_, "round", elements_of<8>(x, bf16), CastWork{x, bf16});
  }
  void do_activate(const Activation& f, MatrixView<float> z_to_y) override {
    std::visit(
        [&](const auto& function) {
          using Function = std::remove_cvref_t<decltype(function)>;
          if constexpr (!std::is_same_v<Function, Linear>)
            run_elements<4>(stream_, "activate", elements_of<4>(z_to_y),
                            ActivateWork<Function>{function, z_to_y});
        },
        f);
  }
  void do_activate_layer(const Activation& f, const DropoutMask& dropout, MatrixView<float> z_to_y,
                         const ActivationCopies& copies) override {
    const MatrixView<float> transposed = copies.transposed;
    if (z_to_y.empty()) return transpose(stream_, z_to_y, transposed);
    const DropoutMask mask = dropout.drops() ? dropout : DropoutMask{};
    const Launch l = unit_launch<kActivatedRows>(stream_, mask, z_to_y.rows, z_to_y.cols);
    const bool packed = mask.first_unit % 4 == 0 && is_packable<4>(z_to_y) &&
                        is_packable<4>(copies.before_dropout) && is_packable<4>(copies.bf16) &&
                        is_packable<4>(copies.z);
    const bool transposes = !transposed.empty() && packed && is_packable<4>(transposed);
    const Launch tiles{dim3(blocks_for(z_to_y.cols, kSide, z_to_y.cols),
                            blocks_for(transposed.cols, kSide, kMaximumTiles)),
                       dim3(kSide / 4, kSide)};
    std::visit(
        [&](const auto& function) {
          using Work = ActivateLayerWork<std::remove_cvref_t<decltype(function)>>;
          const Work work{function, mask, z_to_y, copies.before_dropout, copies.bf16, copies.z};
          if (transposes)
            activate_and_transpose_kernel<<<tiles.grid, tiles.block, 0, stream_.stream>>>(
                work, transposed);
          else if (packed)
            activate_layer_kernel<true><<<l.grid, l.block, 0, stream_.stream>>>(work);
          else
            activate_layer_kernel<false><<<l.grid, l.block, 0, stream_.stream>>>(work);
        },
        f);
    check_launch("activate_layer");
    if (!transposes) transpose(stream_, z_to_y, transposed);
  }
  void do_multiply_slope(const Activation& f, MatrixView<const float> x, MatrixView<float> delta,
                         MatrixView<Bfloat16> bf16) override {
    std::visit(
        [&](const auto& function) {
          using Function = std::remove_cvref_t<decltype(function)>;
          if constexpr (!std::is_same_v<Function, Linear>)
            run_elements<4>(stream_, "multiply_slope", elements_of<4>(delta, x, bf16),
                            SlopeWork<Function>{function, x, delta, bf16});
          else if (bf16.data != nullptr)
            do_cast_to_bf16(delta, bf16);
        },
        f);
  }
  void do_sum_columns(std::span<const ColumnSum> sums) override {
    constexpr std::size_t kMost = 8;
    for (std::size_t first = 0; first < sums.size(); first += kMost) {
      const auto count = int(std::min(kMost, sums.size() - first));
      ColumnSumsList<ValueTerm, ScaledSum, int(kMost)> list{};
      for (int i = 0; i < count; ++i) {
        const auto& [delta, scale, sum] = sums[first + std::size_t(i)];
        list.of[i] = {
            {delta}, {double(scale), sum.data}, delta.rows, delta.cols, is_packable<4>(delta)};
      }
      sum_over_columns(stream_, partial_, "sum_columns", list, count);
    }
  }
  void do_sum_bf16_columns(MatrixView<const Bfloat16> delta, float scale,
                           VectorView<float> sum) override {
    if (is_packable<8>(delta) && delta.cols % 8 == 0 && delta.cols > 0) {
      const Index blocks = (delta.cols + kOctets * 8 - 1) / (kOctets * 8);
      sum_bf16_columns_kernel<<<unsigned(blocks), dim3(kOctets, kSumLanes), 0, stream_.stream>>>(
          delta, double(scale), sum.data);
      check_launch("sum_bf16_columns");
      return;
    }
    sum_over_columns(stream_, partial_, "sum_columns", delta.rows, delta.cols,
                     is_packable<Bf16Term::kColumns>(delta), Bf16Term{delta},
                     ScaledSum{double(scale), sum.data});
  }
  void do_softmax_rows(MatrixView<float> z_to_y) override {
    if (z_to_y.empty()) return;
    with_row_threads(z_to_y.rows, z_to_y.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      const bool packed = is_packable<4>(z_to_y);
      if constexpr (kThreads * 4 * kPacks >= kLongestRow<kThreads>) {
        if (packed)
          softmax_short_rows_kernel<kThreads, true><<<l.grid, l.block, 0, stream_.stream>>>(z_to_y);
        else
          softmax_short_rows_kernel<kThreads, false>
              <<<l.grid, l.block, 0, stream_.stream>>>(z_to_y);
      } else {
        if (packed)
          softmax_rows_kernel<kThreads, true><<<l.grid, l.block, 0, stream_.stream>>>(z_to_y);
        else
          softmax_rows_kernel<kThreads, false><<<l.grid, l.block, 0, stream_.stream>>>(z_to_y);
      }
      check_launch("softmax_rows");
    });
  }
  void do_softmax_rows_backward(MatrixView<const float> y, MatrixView<float> dy_to_delta) override {
    if (y.empty()) return;
    const bool packed = is_packable<4>(y) && is_packable<4>(dy_to_delta);
    with_row_threads(y.rows, y.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (packed)
        softmax_rows_backward_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(y, dy_to_delta);
      else
        softmax_rows_backward_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(y, dy_to_delta);
      check_launch("softmax_rows_backward");
    });
  }
  void do_checksum(VectorView<const std::byte> bytes, std::uint64_t* sum) override {
    const Index words = (bytes.size + 3) / 4;
    checksum_kernel<<<blocks_for(words, kChecksumThreads, 16 * stream_.multiprocessors),
                      kChecksumThreads, 0, stream_.stream>>>(bytes, words, sum);
    check_launch("checksum");
  }

  Stream stream_;
  Workspace<double> partial_;
};

}  // namespace

std::unique_ptr<PointwiseKernels> make_pointwise(const Stream& stream) {
  return std::make_unique<CudaPointwise>(stream);
}

}  // namespace norn::cuda
