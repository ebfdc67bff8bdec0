// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums on the GPU. One stream adds at a time, so the words are added without atomics.
#include "kernels/cuda/elements.cuh"
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

/// 20 bytes an element.
struct AddWork {
  const FixedFormat* format;
  MatrixView<const float> term;
  FixedMatrixView sum;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const FixedFormat f = *format;
    const double limit = f.fine_limit(), scale = f.fine_scale();
    const Pack<float, n> x = load<n, kStep>(term.row(r) + c);
    Pack<std::int64_t, n> fine = load<n, kStep>(sum.fine.row(r) + c);
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
  MatrixView<float> value;
  /// Returns the larger of `top` and the bits of the magnitudes: they are in the order of the
  /// magnitudes, NaN above all.
  template <int n, int kStep>
  __device__ int at(Index r, Index c, int top) const {
    const Pack<std::int64_t, n> fine = load<n, kStep>(sum.fine.row(r) + c);
    Pack<float, n> out;
    if (has_coarse) {
      const Pack<std::int64_t, n> coarse = load<n, kStep>(sum.coarse.row(r) + c);
#pragma unroll
      for (int i = 0; i < n; ++i)
        out.value[i] =
            float(double(fine.value[i]) * fine_unit + double(coarse.value[i]) * coarse_unit);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) out.value[i] = float(double(fine.value[i]) * fine_unit);
    }
    store<n, kStep>(value.row(r) + c, out);
#pragma unroll
    for (int i = 0; i < n; ++i) top = max(top, __float_as_int(out.value[i]) & 0x7FFFFFFF);
    return top;
  }
};

/// maximum_bits is 0 before.
template <int kWidth, int kStep>
__global__ void __launch_bounds__(kElementThreads)
    to_float_kernel(const FixedFormat* format, const FixedMatrixView sum,
                    const MatrixView<float> value, const Index rows, const Index cols,
                    int* maximum_bits) {
  const FloatOfSum work{1.0 / format->fine_scale(), 1.0 / format->coarse_scale(),
                        *sum.coarse_used != 0, sum, value};
  int top = 0;
  for_elements<kWidth, kStep>(rows, cols, [&](Index r, Index c, auto n, auto step) {
    top = work.at<decltype(n)::value, decltype(step)::value>(r, c, top);
  });
  __shared__ int warp_top[kElementThreads / 32];
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  top = __reduce_max_sync(0xFFFFFFFFu, top);
  if (thread % 32 == 0) warp_top[thread / 32] = top;
  __syncthreads();
  if (thread != 0) return;
#pragma unroll
  for (int i = 1; i < kElementThreads / 32; ++i) top = max(top, warp_top[i]);
  // Most blocks find the maximum already above theirs.
  if (top > *static_cast<volatile int*>(maximum_bits)) atomicMax(maximum_bits, top);
}

__global__ void adapt_kernel(const float* maximum, const std::int64_t terms, FixedFormat* format) {
  if (*maximum > 0.0f && std::isfinite(*maximum))
    *format = FixedFormat::for_maximum(double(*maximum), terms);
}

class CudaFixed final : public FixedKernels {
 public:
  explicit CudaFixed(const Stream& stream) : stream_(stream) {}

 private:
  void do_add(const FixedFormat* format, MatrixView<const float> term,
              FixedMatrixView sum) override {
    run_elements<kPack>(stream_, "fixed add", elements_of<kPack>(term, sum.fine, sum.coarse),
                        AddWork{format, term, sum});
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

  void do_adapt(const float* maximum, std::int64_t terms, FixedFormat* format) override {
    adapt_kernel<<<1, 1, 0, stream_.stream>>>(maximum, terms, format);
    check_launch("fixed adapt");
  }

  Stream stream_;
};

}  // namespace

std::unique_ptr<FixedKernels> make_fixed(const Stream& stream) {
  return std::make_unique<CudaFixed>(stream);
}

}  // namespace norn::cuda
