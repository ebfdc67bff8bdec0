// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums on the GPU. One stream adds at a time, so the words are added without atomics.
#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/families.h"
#include "kernels/cuda/row_group.cuh"
#include "norn/kernels/fixed.h"

namespace norn::cuda {
namespace {

constexpr int kPack = 2;  // elements: 16 bytes of words

__device__ void raise_flag(std::int64_t* flag) {
  volatile std::int64_t* raised = flag;
  if (*raised != 1) *raised = 1;
}

/// 20 bytes an element, or 12.
template <bool kOverwrite>
struct AddWork {
  const FixedFormat* format;
  MatrixView<const float> term;
  FixedMatrixView sum;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const FixedFormat f = *format;
    const double limit = f.fine_limit(), scale = f.fine_scale();
    const Pack<float, n> x = load<n, kStep>(term.row(r) + c);
    Pack<std::int64_t, n> fine{};
    if constexpr (!kOverwrite) fine = load<n, kStep>(sum.fine.row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const double value = double(x.value[i]);
      if (std::fabs(value) < limit)
        fine.value[i] += __double2ll_rn(value * scale);
      else
        add_large(f, value, r, c + i * kStep);
    }
    store<n, kStep>(sum.fine.row(r) + c, fine);
  }
  __device__ void add_large(const FixedFormat& f, double value, Index r, Index c) const {
    if (std::fabs(value) < f.coarse_limit()) {
      sum.coarse(r, c) += __double2ll_rn(value * f.coarse_scale());
      raise_flag(sum.coarse_used);
    } else {
      raise_flag(sum.out_of_range);
    }
  }
};

struct FloatOfSum {
  double fine_unit;
  double coarse_unit;
  bool has_coarse;
  FixedMatrixView sum;
  __device__ FloatOfSum(const FixedFormat& format, const FixedMatrixView& words)
      : fine_unit(1.0 / format.fine_scale()),
        coarse_unit(1.0 / format.coarse_scale()),
        has_coarse(*words.coarse_used != 0),
        sum(words) {}
  template <int n, int kStep = 1>
  __device__ Pack<float, n> at(Index r, Index c, const Pack<std::int64_t, n>& fine) const {
    Pack<float, n> out;
    if (has_coarse) {
      const Pack<std::int64_t, n> coarse = load<n, kStep>(sum.coarse.row(r) + c);
#pragma unroll
      for (int i = 0; i < n; ++i)
        out.value[i] =
            float(double(fine.value[i]) * fine_unit + double(coarse.value[i]) * coarse_unit);
      store<n, kStep>(sum.coarse.row(r) + c, Pack<std::int64_t, n>{});
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) out.value[i] = float(double(fine.value[i]) * fine_unit);
    }
    return out;
  }
};

/// The larger of `top` and the bits of the magnitudes: they are in the order of the magnitudes, NaN
/// above all.
template <int n>
__device__ __forceinline__ int larger_bits(const Pack<float, n>& x, int top) {
#pragma unroll
  for (int i = 0; i < n; ++i) top = max(top, __float_as_int(x.value[i]) & 0x7FFFFFFF);
  return top;
}

/// Joins a block's maximum to *maximum_bits; true for the thread that did it.
__device__ bool join_maximum(int top, int* maximum_bits) {
  __shared__ int warp_top[kElementThreads / 32];
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  top = __reduce_max_sync(0xFFFFFFFFu, top);
  if (thread % 32 == 0) warp_top[thread / 32] = top;
  __syncthreads();
  if (thread != 0) return false;
#pragma unroll
  for (int i = 1; i < kElementThreads / 32; ++i) top = max(top, warp_top[i]);
  atomicMax(maximum_bits, top);
  return true;
}

/// maximum_bits is 0 before.
template <int kWidth, int kStep>
__global__ void __launch_bounds__(kElementThreads)
    to_float_kernel(const FixedFormat* format, const FixedMatrixView sum,
                    const MatrixView<float> value, const Index rows, const Index cols,
                    int* maximum_bits) {
  const FloatOfSum work(*format, sum);
  int top = 0;
  for_elements<kWidth, kStep>(rows, cols, [&](Index r, Index c, auto n, auto step) {
    constexpr int kCount = decltype(n)::value, kApart = decltype(step)::value;
    const Pack<float, kCount> x =
        work.at<kCount, kApart>(r, c, load<kCount, kApart>(sum.fine.row(r) + c));
    store<kCount, kApart>(value.row(r) + c, x);
    top = larger_bits(x, top);
  });
  join_maximum(top, maximum_bits);
}

__device__ void adapt_format(float maximum, std::int64_t terms, FixedFormat* format) {
  if (maximum > 0.0f && std::isfinite(maximum))
    *format = FixedFormat::for_maximum(double(maximum), terms);
}

/// What the blocks of a kernel join; zeros before it and after it.
struct Joined {
  int maximum_bits;
  unsigned blocks_done;
};

constexpr int kDeltaRows = 2;  // of a thread at a time

/// Bytes an element: 16, 2 for the rounded copy.
template <typename Function>
struct DeltaWork {
  Function f;
  DropoutMask dropout;
  MatrixView<const float> y;
  MatrixView<float> delta;
  MatrixView<Bfloat16> rounded;
};

/// DeltaWork under way in one thread.
template <typename Function>
struct DeltaPass {
  template <int n>
  struct Loaded {
    Pack<std::int64_t, n> fine;
    Pack<float, n> y;
  };
  const DeltaWork<Function>& work;
  const FloatOfSum sum;
  int top = 0;
  template <int n>
  __device__ Loaded<n> load(Index r, Index c) const {
    return {cuda::load<n>(sum.sum.fine.row(r) + c), cuda::load<n>(work.y.row(r) + c)};
  }
  template <int n>
  __device__ void finish(Index r, Index c, const Loaded<n>& loaded, const UnitChances<n>& chance) {
    Pack<float, n> x = sum.at<n>(r, c, loaded.fine);
    top = larger_bits(x, top);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x.value[i] = work.dropout.drops() ? work.dropout.value(chance.value[i], x.value[i])
                                        : work.dropout.a * x.value[i];
      x.value[i] *= work.f.slope(loaded.y.value[i]);
    }
    store<n>(work.delta.row(r) + c, x);
    if (work.rounded.data != nullptr) store_rounded<n, 1>(work.rounded.row(r) + c, x);
  }
};

/// The block that ends last publishes the maximum and adapts the format, which all have read by
/// then.
template <bool kPacked, typename Function>
__global__ void __launch_bounds__(kElementThreads, 4)
    to_delta_kernel(const DeltaWork<Function> work, const FixedMatrixView words,
                    FixedFormat* format, const std::int64_t adapt_terms, float* maximum,
                    Joined* joined) {
  DeltaPass<Function> pass{work, FloatOfSum(*format, words)};
  for_units<kPacked, kDeltaRows>(work.dropout, work.delta.rows, work.delta.cols, pass);
  if (!join_maximum(pass.top, &joined->maximum_bits)) return;
  __threadfence();
  if (atomicAdd(&joined->blocks_done, 1u) + 1 != gridDim.x * gridDim.y) return;
  __threadfence();
  *maximum = __int_as_float(atomicExch(&joined->maximum_bits, 0));
  joined->blocks_done = 0;
  if (adapt_terms > 0) adapt_format(*maximum, adapt_terms, format);
}

__global__ void adapt_kernel(const float* maximum, const std::int64_t terms, FixedFormat* format) {
  adapt_format(*maximum, terms, format);
}

class CudaFixed final : public FixedKernels {
 public:
  explicit CudaFixed(const Stream& stream)
      : stream_(stream), joined_(Buffer<Joined>::zeros(1, stream.memory)) {}

 private:
  void do_add(const FixedFormat* format, MatrixView<const float> term,
              FixedMatrixView sum) override {
    run_elements<kPack>(stream_, "fixed add", elements_of<kPack>(term, sum.fine, sum.coarse),
                        AddWork<false>{format, term, sum});
  }
  void do_set(const FixedFormat* format, MatrixView<const float> term,
              FixedMatrixView sum) override {
    run_elements<kPack>(stream_, "fixed set", elements_of<kPack>(term, sum.fine, sum.coarse),
                        AddWork<true>{format, term, sum});
  }

  void do_to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                   float* maximum) override {
    check(cudaMemsetAsync(maximum, 0, sizeof(float), stream_.stream), "cudaMemsetAsync");
    if (value.empty()) return;
    const Elements e = elements_of<kPack>(value, sum.fine, sum.coarse);
    auto* bits = reinterpret_cast<int*>(maximum);
    with_element_launch<kPack>(stream_, e, [&](auto step, Launch l) {
      // Few blocks, since all of them meet at one word.
      l.grid.x = std::min(l.grid.x, unsigned(8 * stream_.multiprocessors));
      to_float_kernel<kPack, decltype(step)::value>
          <<<l.grid, l.block, 0, stream_.stream>>>(format, sum, value, e.rows, e.cols, bits);
      check_launch("fixed to_float");
    });
  }

  void do_to_delta(FixedFormat* format, std::int64_t adapt_terms, FixedMatrixView sum,
                   const OutputSlope& slope, MatrixView<float> delta, MatrixView<Bfloat16> rounded,
                   float* maximum) override {
    if (delta.empty()) {
      check(cudaMemsetAsync(maximum, 0, sizeof(float), stream_.stream), "cudaMemsetAsync");
      return;
    }
    DropoutMask mask = slope.dropout;
    if (!mask.drops()) mask.first_unit = 0;
    const Launch l = unit_launch<kDeltaRows>(stream_, mask, delta.rows, delta.cols);
    const bool packed = mask.first_unit % 4 == 0 && is_packable<4>(sum.fine) &&
                        is_packable<4>(sum.coarse) && is_packable<4>(slope.y) &&
                        is_packable<4>(delta) && is_packable<4>(rounded);
    std::visit(
        [&](const auto& function) {
          using Work = DeltaWork<std::remove_cvref_t<decltype(function)>>;
          const Work work{function, mask, slope.y, delta, rounded};
          if (packed)
            to_delta_kernel<true><<<l.grid, l.block, 0, stream_.stream>>>(
                work, sum, format, adapt_terms, maximum, joined_.data());
          else
            to_delta_kernel<false><<<l.grid, l.block, 0, stream_.stream>>>(
                work, sum, format, adapt_terms, maximum, joined_.data());
        },
        slope.f);
    check_launch("fixed to_delta");
  }

  void do_adapt(const float* maximum, std::int64_t terms, FixedFormat* format) override {
    adapt_kernel<<<1, 1, 0, stream_.stream>>>(maximum, terms, format);
    check_launch("fixed adapt");
  }

  Stream stream_;
  Buffer<Joined> joined_;
};

}  // namespace

std::unique_ptr<FixedKernels> make_fixed(const Stream& stream) {
  return std::make_unique<CudaFixed>(stream);
}

}  // namespace norn::cuda
