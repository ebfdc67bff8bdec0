// SPDX-License-Identifier: Apache-2.0
// Sums in float32 with the accesses, and nothing else, of those in fixed point.
#include "kernels/cuda/elements/dropout.cuh"
#include "norn/base/error.h"
#include "tests/bench/plain_sums.h"

#include <variant>

namespace norn::bench {
namespace {

using namespace norn::cuda;

/// The floats that stand where a sum's fine accumulators would: one row after the other, each at
/// the beginning of its row of accumulators.
MatrixView<float> floats_of(const FixedMatrixView& sum) {
  return {reinterpret_cast<float*>(sum.fine.data), sum.fine.rows, sum.fine.cols,
          2 * sum.fine.stride};
}

template <int n>
__device__ __forceinline__ void add_terms(const PartialSums& partial_sums, Index r, Index c,
                                          Pack<float, n>& sum) {
#pragma unroll
  for (int t = 0; t < PartialSums::kMost; ++t) {
    if (t >= partial_sums.count) break;
    const Pack<float, n> term = load<n>(partial_sums.of[t].row(r) + c);
#pragma unroll
    for (int i = 0; i < n; ++i) sum.value[i] += term.value[i];
  }
}

/// sum (+)= partial_sums, without dropout; or the delta that follows from the sum.
template <typename Function>
struct PlainPass {
  template <int n>
  struct Loaded {
    Pack<float, n> sum;
    Pack<float, n> y;
  };
  MatrixView<float> sum;  // empty: the partial sums are all
  PartialSums partial_sums;
  bool overwrites;  // what stood in the sum
  Function f;
  DropoutMask dropout;
  MatrixView<const float> y;  // empty: the sum itself is wanted
  MatrixView<float> result;   // may be `sum`
  MatrixView<Bfloat16> bf16;  // or empty

  template <int n>
  __device__ Loaded<n> load(Index r, Index c) const {
    Loaded<n> loaded{};
    if (!overwrites) loaded.sum = cuda::load<n>(sum.row(r) + c);
    add_terms(partial_sums, r, c, loaded.sum);
    if (y.data != nullptr) loaded.y = cuda::load<n>(y.row(r) + c);
    return loaded;
  }
  template <int n>
  __device__ void finish(Index r, Index c, const Loaded<n>& loaded, const UnitChances<n>& chance) {
    Pack<float, n> x = loaded.sum;
    if (y.data != nullptr) {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        x.value[i] =
            dropout.drops() ? dropout.value(chance.value[i], x.value[i]) : dropout.a * x.value[i];
        x.value[i] *= f.slope(loaded.y.value[i]);
      }
    }
    store<n>(result.row(r) + c, x);
    if (bf16.data != nullptr) store_bf16<n, 1>(bf16.row(r) + c, x);
  }
};

template <bool kPacked, typename Function>
__global__ void __launch_bounds__(kElementThreads) plain_sums_kernel(PlainPass<Function> pass) {
  for_units<kPacked, 2>(pass.dropout, pass.result.rows, pass.result.cols, pass);
}

class PlainSums final : public FixedKernels {
 public:
  explicit PlainSums(const Stream& stream) : stream_(stream) {}

 private:
  template <typename Function>
  void start(const PlainPass<Function>& pass) const {
    bool packed = pass.dropout.first_unit % 4 == 0 && is_packable<4>(pass.sum) &&
                  is_packable<4>(pass.y) && is_packable<4>(pass.result) &&
                  is_packable<4>(pass.bf16);
    for (const MatrixView<const float>& term : pass.partial_sums.of)
      packed = packed && is_packable<4>(term);
    const Launch l = unit_launch<2>(stream_, pass.dropout, pass.result.rows, pass.result.cols);
    auto* kernel = packed ? plain_sums_kernel<true, Function> : plain_sums_kernel<false, Function>;
    kernel<<<l.grid, l.block, 0, stream_.stream>>>(pass);
    check_launch("plain sums");
  }
  void sum_up(const FixedMatrixView& sum, const PartialSums& partial_sums, bool overwrites,
              MatrixView<float> result) const {
    start(PlainPass<Linear>{floats_of(sum), partial_sums, overwrites, {}, {}, {}, result, {}});
  }

  void do_add(const FixedFormat*, const PartialSums& partial_sums, FixedMatrixView sum) override {
    sum_up(sum, partial_sums, false, floats_of(sum));
  }
  void do_set(const FixedFormat*, const PartialSums& partial_sums, FixedMatrixView sum) override {
    sum_up(sum, partial_sums, true, floats_of(sum));
  }
  void do_to_float(const FixedFormat*, FixedMatrixView sum, const PartialSums& partial_sums,
                   MatrixView<float> value, float*) override {
    if (!value.empty()) sum_up(sum, partial_sums, partial_sums.count > 0, value);
  }
  void do_to_delta(FixedFormat*, std::int64_t, FixedMatrixView sum, const PartialSums& partial_sums,
                   const OutputSlope& slope, MatrixView<float> delta, MatrixView<Bfloat16> bf16,
                   float*) override {
    if (delta.empty()) return;
    DropoutMask mask = slope.dropout;
    if (!mask.drops()) mask.first_unit = 0;
    std::visit(
        [&](const auto& f) {
          start(PlainPass<std::remove_cvref_t<decltype(f)>>{
              floats_of(sum), partial_sums, partial_sums.count > 0, f, mask, slope.y, delta, bf16});
        },
        slope.f);
  }
  void do_adapt(const float*, std::int64_t, FixedFormat*) override {}

  Stream stream_;
};

}  // namespace

std::unique_ptr<FixedKernels> make_plain_sums(const Kernels& kernels, Memory& memory) {
  if (memory.is_host()) throw UsageError("--plain-sums is for GPUs; give --device cuda");
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return std::make_unique<PlainSums>(
      Stream{static_cast<cudaStream_t>(kernels.queue->native_stream()), memory, Precision::tf32,
             multiprocessors});
}

}  // namespace norn::bench
