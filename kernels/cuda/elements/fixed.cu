// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums on the GPU. One stream adds at a time, so the accumulators are added without
// atomics.
#include "kernels/cuda/elements/dropout.cuh"
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/families.h"
#include "kernels/fixed.h"

namespace norn::cuda {
namespace {

constexpr int kPack = 2;  // elements: 16 bytes of accumulators

__device__ void raise_flag(std::int64_t* flag) {
  volatile std::int64_t* raised = flag;
  if (*raised != 1) *raised = 1;
}

/// Where the partial sums' accumulators come from, and what becomes of those that have none.
struct TermRounding {
  double fine_limit, fine_scale, coarse_limit, coarse_scale;
  __device__ explicit TermRounding(const FixedFormat& f)
      : fine_limit(f.fine_limit()),
        fine_scale(f.fine_scale()),
        coarse_limit(f.coarse_limit()),
        coarse_scale(f.coarse_scale()) {}
};

/// n elements of each of up to kPartialSums partial sums.
template <int kPartialSums, int n>
struct LoadedPartialSums {
  Pack<float, n> of[kPartialSums];
};

template <int kPartialSums, int n, int kStep>
__device__ __forceinline__ LoadedPartialSums<kPartialSums, n> load_partial_sums(
    const PartialSums& partial_sums, Index r, Index c) {
  LoadedPartialSums<kPartialSums, n> loaded;
#pragma unroll
  for (int t = 0; t < kPartialSums; ++t)
    if (t < partial_sums.count) loaded.of[t] = load<n, kStep>(partial_sums.of[t].row(r) + c);
  return loaded;
}

/// Bytes an element: 4 for each partial sum, and 16, or 8 where accumulators are overwritten.
template <bool kOverwrite>
struct AddWork {
  const FixedFormat* format;
  PartialSums partial_sums;
  FixedMatrixView sum;
  template <int n, int kStep>
  __device__ void at(Index r, Index c) const {
    const TermRounding rounding(*format);
    const LoadedPartialSums<PartialSums::kMost, n> x =
        load_partial_sums<PartialSums::kMost, n, kStep>(partial_sums, r, c);
    Pack<std::int64_t, n> fine{};
    if constexpr (!kOverwrite) fine = load<n, kStep>(sum.fine.row(r) + c);
#pragma unroll
    for (int t = 0; t < PartialSums::kMost; ++t) {
      if (t >= partial_sums.count) break;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const double value = double(x.of[t].value[i]);
        if (std::fabs(value) < rounding.fine_limit)
          fine.value[i] += __double2ll_rn(value * rounding.fine_scale);
        else
          add_large(rounding, value, r, c + i * kStep);
      }
    }
    store<n, kStep>(sum.fine.row(r) + c, fine);
  }
  __device__ void add_large(const TermRounding& rounding, double value, Index r, Index c) const {
    if (std::fabs(value) < rounding.coarse_limit) {
      sum.coarse(r, c) += __double2ll_rn(value * rounding.coarse_scale);
      raise_flag(sum.coarse_used);
    } else {
      raise_flag(sum.out_of_range);
    }
  }
};

/// Values of sums that stand in accumulators.
struct FromAccumulators {
  FixedMatrixView sum;

  template <int n>
  using Loaded = Pack<std::int64_t, n>;
  static constexpr int kRows = 2;    // of a thread at a time
  static constexpr int kBlocks = 4;  // of a multiprocessor at least

  class Reader {
   public:
    __device__ Reader(const FixedFormat& format, const FromAccumulators& source)
        : sum_(source.sum),
          fine_unit_(1.0 / format.fine_scale()),
          coarse_unit_(1.0 / format.coarse_scale()),
          has_coarse_(*source.sum.coarse_used != 0) {}
    template <int n, int kStep = 1>
    __device__ Loaded<n> load(Index r, Index c) const {
      return cuda::load<n, kStep>(sum_.fine.row(r) + c);
    }
    template <int n, int kStep = 1>
    __device__ Pack<float, n> value(Index r, Index c, const Loaded<n>& fine) const {
      Pack<float, n> out;
      if (has_coarse_) {
        const Pack<std::int64_t, n> coarse = cuda::load<n, kStep>(sum_.coarse.row(r) + c);
#pragma unroll
        for (int i = 0; i < n; ++i)
          out.value[i] =
              float(double(fine.value[i]) * fine_unit_ + double(coarse.value[i]) * coarse_unit_);
        store<n, kStep>(sum_.coarse.row(r) + c, Pack<std::int64_t, n>{});
      } else {
#pragma unroll
        for (int i = 0; i < n; ++i) out.value[i] = float(double(fine.value[i]) * fine_unit_);
      }
      return out;
    }

   private:
    const FixedMatrixView& sum_;
    double fine_unit_;
    double coarse_unit_;
    bool has_coarse_;
  };
};

/// Values of sums whose few partial sums, up to kPartialSums, stand as they came: the accumulators
/// are in registers only.
template <int kPartialSums>
struct FromPartialSums {
  PartialSums partial_sums;
  std::int64_t* out_of_range;

  template <int n>
  using Loaded = LoadedPartialSums<kPartialSums, n>;
  static constexpr int kRows = kPartialSums == 1 ? 2 : 1;
  static constexpr int kBlocks = 3;

  class Reader {
   public:
    __device__ Reader(const FixedFormat& format, const FromPartialSums& source)
        : source_(source),
          rounding_(format),
          scale_(float(format.fine_scale())),
          limit_(scale_ >= 0x1p-126f && scale_ <= 0x1p127f
                     ? float(format.fine_limit() * format.fine_scale())
                     : 0.0f),
          fine_unit_(1.0 / format.fine_scale()),
          coarse_unit_(1.0 / format.coarse_scale()) {}
    template <int n, int kStep = 1>
    __device__ Loaded<n> load(Index r, Index c) const {
      return load_partial_sums<kPartialSums, n, kStep>(source_.partial_sums, r, c);
    }
    template <int n, int kStep = 1>
    __device__ Pack<float, n> value(Index, Index, const Loaded<n>& loaded) const {
      Pack<float, n> out;
      bool all_fine = true;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        std::int64_t fine = 0;
#pragma unroll
        for (int t = 0; t < kPartialSums; ++t) {
          if (t >= source_.partial_sums.count) break;
          // Scaled by a power of 2, which is exact where there is anything left of it.
          const float x = loaded.of[t].value[i] * scale_;
          all_fine = all_fine && std::fabs(x) < limit_;
          fine += __float2ll_rn(x);
        }
        out.value[i] = float(double(fine) * fine_unit_);
      }
      if (!all_fine) add_large(loaded, out);
      return out;
    }

   private:
    /// All over again, in both accumulators.
    template <int n>
    __device__ __forceinline__ void add_large(const Loaded<n>& loaded, Pack<float, n>& out) const {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        std::int64_t fine = 0;
        std::int64_t coarse = 0;
#pragma unroll
        for (int t = 0; t < kPartialSums; ++t) {
          if (t >= source_.partial_sums.count) break;
          const double x = double(loaded.of[t].value[i]);
          if (std::fabs(x) < rounding_.fine_limit)
            fine += __double2ll_rn(x * rounding_.fine_scale);
          else if (std::fabs(x) < rounding_.coarse_limit)
            coarse += __double2ll_rn(x * rounding_.coarse_scale);
          else
            raise_flag(source_.out_of_range);
        }
        // Adding a coarse accumulator of 0 changes nothing.
        out.value[i] = float(double(fine) * fine_unit_ + double(coarse) * coarse_unit_);
      }
    }

    const FromPartialSums& source_;
    TermRounding rounding_;
    float scale_;  ///< of fine accumulators
    float limit_;  ///< of scaled partial sums; 0 where the scale is no float
    double fine_unit_;
    double coarse_unit_;
  };
};

/// The larger of `top` and the bits of the magnitudes: they are in the order of the magnitudes, NaN
/// above all.
template <int n>
__device__ __forceinline__ int larger_bits(const Pack<float, n>& x, int top) {
#pragma unroll
  for (int i = 0; i < n; ++i) top = max(top, __float_as_int(x.value[i]) & 0x7FFFFFFF);
  return top;
}

/// Combines a block's maximum with *maximum_bits; true for the thread that did it.
__device__ bool combine_maximum(int top, int* maximum_bits) {
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
template <int kWidth, int kStep, class Sums>
__global__ void __launch_bounds__(kElementThreads)
    to_float_kernel(const FixedFormat* format, const Sums sums, const MatrixView<float> value,
                    const Index rows, const Index cols, int* maximum_bits) {
  const typename Sums::Reader reader(*format, sums);
  int top = 0;
  for_elements<kWidth, kStep>(rows, cols, [&](Index r, Index c, auto n, auto step) {
    constexpr int kCount = decltype(n)::value, kApart = decltype(step)::value;
    const Pack<float, kCount> x =
        reader.template value<kCount, kApart>(r, c, reader.template load<kCount, kApart>(r, c));
    store<kCount, kApart>(value.row(r) + c, x);
    top = larger_bits(x, top);
  });
  combine_maximum(top, maximum_bits);
}

__device__ void adapt_format(float maximum, std::int64_t partial_sums, FixedFormat* format) {
  if (maximum > 0.0f && std::isfinite(maximum))
    *format = FixedFormat::for_maximum(double(maximum), partial_sums);
}

/// What the blocks of a kernel combine; zeros before it and after it.
struct Combined {
  int maximum_bits;
  unsigned blocks_done;
};

/// Bytes an element: 8 and those of the sum, 2 for the bf16 copy.
template <typename Function>
struct DeltaWork {
  Function f;
  DropoutMask dropout;
  MatrixView<const float> y;
  MatrixView<float> delta;
  MatrixView<Bfloat16> bf16;
};

/// DeltaWork under way in one thread.
template <typename Function, class Sums>
struct DeltaPass {
  template <int n>
  struct Loaded {
    typename Sums::template Loaded<n> sum;
    Pack<float, n> y;
  };
  const DeltaWork<Function>& work;
  const typename Sums::Reader reader;
  int top = 0;
  template <int n>
  __device__ Loaded<n> load(Index r, Index c) const {
    return {reader.template load<n>(r, c), cuda::load<n>(work.y.row(r) + c)};
  }
  template <int n>
  __device__ void finish(Index r, Index c, const Loaded<n>& loaded, const UnitChances<n>& chance) {
    Pack<float, n> x = reader.template value<n>(r, c, loaded.sum);
    top = larger_bits(x, top);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x.value[i] = work.dropout.drops() ? work.dropout.value(chance.value[i], x.value[i])
                                        : work.dropout.a * x.value[i];
      x.value[i] *= work.f.slope(loaded.y.value[i]);
    }
    store<n>(work.delta.row(r) + c, x);
    if (work.bf16.data != nullptr) store_bf16<n, 1>(work.bf16.row(r) + c, x);
  }
};

/// The block that ends last publishes the maximum and adapts the format, which all have read by
/// then.
template <bool kPacked, typename Function, class Sums>
__global__ void __launch_bounds__(kElementThreads, Sums::kBlocks)
    to_delta_kernel(const DeltaWork<Function> work, const Sums sums, FixedFormat* format,
                    const std::int64_t adapt_count, float* maximum, Combined* combined) {
  DeltaPass<Function, Sums> pass{work, typename Sums::Reader(*format, sums)};
  for_units<kPacked, Sums::kRows>(work.dropout, work.delta.rows, work.delta.cols, pass);
  if (!combine_maximum(pass.top, &combined->maximum_bits)) return;
  __threadfence();
  if (atomicAdd(&combined->blocks_done, 1u) + 1 != gridDim.x * gridDim.y) return;
  __threadfence();
  *maximum = __int_as_float(atomicExch(&combined->maximum_bits, 0));
  combined->blocks_done = 0;
  if (adapt_count > 0) adapt_format(*maximum, adapt_count, format);
}

__global__ void adapt_kernel(const float* maximum, const std::int64_t partial_sums,
                             FixedFormat* format) {
  adapt_format(*maximum, partial_sums, format);
}

class CudaFixed final : public FixedKernels {
 public:
  explicit CudaFixed(const Stream& stream)
      : stream_(stream), combined_(Buffer<Combined>::zeros(1, stream.memory)) {}

 private:
  void do_add(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    run_elements<kPack>(stream_, "fixed add", elements_of_sum(sum, partial_sums),
                        AddWork<false>{format, partial_sums, sum});
  }
  void do_set(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    run_elements<kPack>(stream_, "fixed set", elements_of_sum(sum, partial_sums),
                        AddWork<true>{format, partial_sums, sum});
  }

  static Elements elements_of_sum(const FixedMatrixView& sum, const PartialSums& partial_sums) {
    return elements_of<kPack>(sum.fine, sum.coarse, partial_sums.of[0], partial_sums.of[1],
                              partial_sums.of[2], partial_sums.of[3]);
  }

  /// Calls body(sums) with where the sums are.
  template <typename Body>
  static void with_sums(const FixedMatrixView& sum, const PartialSums& partial_sums,
                        const Body& body) {
    if (partial_sums.count == 1)
      body(FromPartialSums<1>{partial_sums, sum.out_of_range});
    else if (partial_sums.count > 0)
      body(FromPartialSums<PartialSums::kMost>{partial_sums, sum.out_of_range});
    else
      body(FromAccumulators{sum});
  }

  void do_to_float(const FixedFormat* format, FixedMatrixView sum, const PartialSums& partial_sums,
                   MatrixView<float> value, float* maximum) override {
    check(cudaMemsetAsync(maximum, 0, sizeof(float), stream_.stream), "cudaMemsetAsync");
    if (value.empty()) return;
    const Elements e =
        elements_of<kPack>(value, sum.fine, sum.coarse, partial_sums.of[0], partial_sums.of[1],
                           partial_sums.of[2], partial_sums.of[3]);
    auto* bits = reinterpret_cast<int*>(maximum);
    with_sums(sum, partial_sums, [&](const auto& sums) {
      with_element_launch<kPack>(stream_, e, [&](auto step, Launch l) {
        // Few blocks, since all of them add to one number.
        l.grid.x = std::min(l.grid.x, unsigned(8 * stream_.multiprocessors));
        to_float_kernel<kPack, decltype(step)::value>
            <<<l.grid, l.block, 0, stream_.stream>>>(format, sums, value, e.rows, e.cols, bits);
        check_launch("fixed to_float");
      });
    });
  }

  void do_to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                   const PartialSums& partial_sums, const OutputSlope& slope,
                   MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) override {
    if (delta.empty()) {
      check(cudaMemsetAsync(maximum, 0, sizeof(float), stream_.stream), "cudaMemsetAsync");
      return;
    }
    DropoutMask mask = slope.dropout;
    if (!mask.drops()) mask.first_unit = 0;
    bool packed = mask.first_unit % 4 == 0 && is_packable<4>(sum.fine) &&
                  is_packable<4>(sum.coarse) && is_packable<4>(slope.y) && is_packable<4>(delta) &&
                  is_packable<4>(bf16);
    for (const MatrixView<const float>& term : partial_sums.of)
      packed = packed && is_packable<4>(term);
    with_sums(sum, partial_sums, [&](const auto& sums) {
      using Sums = std::remove_cvref_t<decltype(sums)>;
      Launch l = unit_launch<Sums::kRows>(stream_, mask, delta.rows, delta.cols);
      // No more blocks than run at a time: they synchronise at the end.
      const Index down = Index(Sums::kBlocks) * stream_.multiprocessors / l.grid.x;
      l.grid.y = std::min(l.grid.y, unsigned(std::max<Index>(1, down)));
      std::visit(
          [&](const auto& function) {
            using Work = DeltaWork<std::remove_cvref_t<decltype(function)>>;
            const Work work{function, mask, slope.y, delta, bf16};
            const auto start = [&](auto* kernel) {
              kernel<<<l.grid, l.block, 0, stream_.stream>>>(work, sums, format, adapt_count,
                                                             maximum, combined_.data());
            };
            using Function = std::remove_cvref_t<decltype(function)>;
            packed ? start(to_delta_kernel<true, Function, Sums>)
                   : start(to_delta_kernel<false, Function, Sums>);
          },
          slope.f);
    });
    check_launch("fixed to_delta");
  }

  void do_adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) override {
    adapt_kernel<<<1, 1, 0, stream_.stream>>>(maximum, partial_sums, format);
    check_launch("fixed adapt");
  }

  Stream stream_;
  Buffer<Combined> combined_;
};

}  // namespace

std::unique_ptr<FixedKernels> make_fixed(const Stream& stream) {
  return std::make_unique<CudaFixed>(stream);
}

}  // namespace norn::cuda
