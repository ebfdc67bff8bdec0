// SPDX-License-Identifier: Apache-2.0
// Rows of V that the stored targets of a batch name: products with activations, and sums over an
// example's entries, which are exact in any order. A block has an example. It looks at so many
// entries together that their rows stay in its multiprocessor's cache, where the second of two
// passes over them finds them: one has a warp an entry, the other a thread four columns.
#include "kernels/cuda/factored/entry_lists.cuh"
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/fours.cuh"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kTogether = 256;       // entries of a stage at most
constexpr Index kCached = 32 << 10;  // bytes of rows of a stage, for several blocks have a cache
constexpr double kBound = 0x1p16;    // below which FixedSum counts no magnitude

/// FixedSum in registers, of terms that count no magnitude: in units of 2^-26, and what these leave
/// in units of 2^-52. A number next to which neighbours are so far apart rounds to them.
struct RegisterSum {
  long long coarse = 0, fine = 0;

  /// Leaves out what counts a magnitude, and then says no.
  __device__ bool add(double term) {
    constexpr double kCoarse = 0x1.8p26, kFine = 1.5;
    const bool fits = fabs(term) < kBound;
    const double x = fits ? term : 0.0, moved = x + kCoarse;
    coarse += __double_as_longlong(moved) - __double_as_longlong(kCoarse);
    const double rest = x - (moved - kCoarse);
    fine += __double_as_longlong(rest + kFine) - __double_as_longlong(kFine);
    return fits;
  }
  __device__ void add(const RegisterSum& other) {
    coarse += other.coarse;
    fine += other.fine;
  }
  __device__ FixedSum sum() const {
    return FixedSum::from_words(coarse >> 26, ((coarse & ((1ll << 26) - 1)) << 26) + fine, 0);
  }
};

__device__ double sum_of_warp(double x) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
  return x;
}

__device__ RegisterSum sum_of_warp(RegisterSum x) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2)
    x.add({__shfl_xor_sync(0xFFFFFFFFu, x.coarse, apart),
           __shfl_xor_sync(0xFFFFFFFFu, x.fine, apart)});
  return x;
}

/// What a block works on.
struct Work {
  Lists lists;
  FactorView<const float> v;
  MatrixView<const double> h;
  EntryRule rule;
  double* r;     // [entries]
  double* cost;  // [entries]
  MatrixView<FixedSum> rv;
  int together;  // entries of a stage
};

/// The entries at hand: those of this rank's units, in any order.
struct Stage {
  double r[kTogether];
  Index unit[kTogether];
  Index number[kTogether];
  float target[kTogether];
  int count;
};

/// A range of an example's entries.
struct Entries {
  RowOffset origin;  // of the batch
  Index begin, end;
};

__device__ Entries entries_of(const Lists& lists, Index example) {
  const RowOffset origin = lists.row_begin[0];
  return {origin, lists.row_begin[example] - origin, lists.row_begin[example + 1] - origin};
}

/// Those at `first` and after it. r where it is known.
template <bool kReads>
__device__ void take_stage(const Work& work, const Entries& entries, Index first, Stage& stage) {
  __syncthreads();
  if (threadIdx.x == 0) stage.count = 0;
  __syncthreads();
  const Index i = first + threadIdx.x;
  if (int(threadIdx.x) >= work.together || i >= entries.end) return;
  const Index number = work.lists.number[i];
  if (number < 0) return;
  const RowOffset at = entries.origin + i;
  const int place = atomicAdd(&stage.count, 1);
  stage.unit[place] = Index(work.lists.column[at]) - work.lists.first_unit;
  stage.number[place] = number;
  if (kReads)
    stage.target[place] = work.lists.value ? work.lists.value[at] : 1.0f;
  else
    stage.r[place] = work.r[number];
}

/// The part of h v' that a lane has.
template <bool kWhole>
__device__ double part_of_product(const float* row, Index d, const float4* source) {
  float part[4] = {};
#pragma unroll 4
  for (Index c = int(threadIdx.x) % kWarp * 4; c < d; c += kWarp * 4) {
    const float4 x = load_four<kWhole>(row + c, present(d, c)), y = source[c / 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = fmaf(part_of(x, i), part_of(y, i), part[i]);
  }
  return (double(part[0]) + double(part[1])) + (double(part[2]) + double(part[3]));
}

/// z of each entry at hand, its r and its cost. A warp an entry.
template <bool kWhole>
__device__ void read_entries(const Work& work, double weight, const float4* source, Stage& stage) {
  const Index d = work.v.rows.cols;
  const EntryRule& rule = work.rule;
  const double last = double(reinterpret_cast<const float*>(source)[d]), root = sqrt(weight);
  for (int i = int(threadIdx.x) / kWarp; i < stage.count; i += kThreads / kWarp) {
    const Index unit = stage.unit[i];
    const double z = sum_of_warp(part_of_product<kWhole>(work.v.rows.row(unit), d, source)) +
                     double(work.v.last[unit]) * last;
    if (threadIdx.x % kWarp != 0) continue;
    const double t = double(stage.target[i]);
    const double r = root * ((rule.one - rule.zero) * z - rule.one * t);
    stage.r[i] = r;
    work.r[stage.number[i]] = r;
    work.cost[stage.number[i]] = weight * 0.5 * (t * t - 2.0 * z * t + rule.ignored * z * z);
  }
}

/// Which columns and entries of a stage are a thread's.
struct Share {
  Index column;  // of four; those at and after the width are nobody's
  int first, apart;
};

/// Threads that have the same columns.
__host__ __device__ int groups_of(Index d) {
  const Index fours = (d + 3) / 4;
  return fours == 0 ? 1 : int(kThreads / (fours < kThreads ? fours : kThreads));
}

__device__ Share share_of(Index d, int tile) {
  const Index fours = (d + 3) / 4;
  const int groups = groups_of(d);
  if (groups == 1) return {(Index(tile) * kThreads + threadIdx.x) * 4, 0, 1};
  const int group = int(threadIdx.x / unsigned(fours));
  return {group < groups ? Index(threadIdx.x % unsigned(fours)) * 4 : d, group, groups};
}

/// Adds r v of the entries at hand.
template <bool kWhole>
__device__ bool add_entries(const FactorView<const float>& v, const Stage& stage,
                            const Share& share, RegisterSum (&sums)[4]) {
  bool fit = true;
  const int count = present(v.rows.cols, share.column);
  if (count == 0) return true;
#pragma unroll 4
  for (int i = share.first; i < stage.count; i += share.apart) {
    const float4 x = load_four<kWhole>(v.rows.row(stage.unit[i]) + share.column, count);
    const double r = stage.r[i];
#pragma unroll
    for (int c = 0; c < 4; ++c) fit &= sums[c].add(r * double(part_of(x, c)));
  }
  return fit;
}

/// The same of the last elements of rows: lanes of a warp have an entry each.
__device__ bool add_last(const FactorView<const float>& v, const Stage& stage, RegisterSum& sum) {
  bool fit = true;
  for (int i = int(threadIdx.x) % kWarp; i < stage.count; i += kWarp)
    fit &= sum.add(stage.r[i] * double(v.last[stage.unit[i]]));
  return fit;
}

/// Writes sums of columns, of all groups together.
__device__ void write_sums(Index d, const Share& share, const RegisterSum (&sums)[4],
                           RegisterSum* shared, FixedSum* rv) {
  const int groups = groups_of(d);
  if (groups == 1) {
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (share.column + c < d) rv[share.column + c] = sums[c].sum();
    return;
  }
  __syncthreads();
  const Index padded = (d + 3) / 4 * 4;
#pragma unroll
  for (int c = 0; c < 4; ++c)
    if (share.column < d) shared[share.first * padded + share.column + c] = sums[c];
  __syncthreads();
  for (Index c = threadIdx.x; c < d; c += kThreads) {
    RegisterSum sum = shared[c];
    for (int group = 1; group < groups; ++group) sum.add(shared[group * padded + c]);
    rv[c] = sum.sum();
  }
}

/// Adds the terms that count a magnitude, all of an example's.
__device__ void add_large(const Work& work, const Entries& entries, FixedSum* rv) {
  const Index d = work.v.rows.cols;
  for (Index c = threadIdx.x; c <= d; c += kThreads)
    for (Index i = entries.begin; i < entries.end; ++i) {
      const Index number = work.lists.number[i];
      if (number < 0) continue;
      const Index unit = Index(work.lists.column[entries.origin + i]) - work.lists.first_unit;
      const double term = work.r[number] * double(c < d ? work.v.rows(unit, c) : work.v.last[unit]);
      if (!(fabs(term) < kBound)) rv[c].add(term);
    }
}

/// Without kReads r is there.
template <bool kReads, bool kWhole>
__global__ void __launch_bounds__(kThreads) read_kernel(const __grid_constant__ Work work) {
  extern __shared__ __align__(16) unsigned char bytes[];
  __shared__ Stage stage;
  const Index e = blockIdx.x, d = work.v.rows.cols;
  const Entries entries = entries_of(work.lists, e);
  if (kReads)
    for (Index c = threadIdx.x; c < (d + 4) / 4 * 4; c += kThreads)
      reinterpret_cast<float*>(bytes)[c] = c <= d ? float(work.h(e, c)) : 0.0f;
  const double weight = kReads && work.rule.weight ? double(work.rule.weight[e]) : 1.0;
  const int tiles = int((d + 4 * kThreads - 1) / (4 * kThreads));
  const bool sums_up = work.rv.data != nullptr, has_last = threadIdx.x >= kThreads - kWarp;
  bool fit = true;
  for (int tile = 0; tile == 0 || (sums_up && tile < tiles); ++tile) {
    const Share share = share_of(d, tile);
    RegisterSum sums[4], last;
    for (Index first = entries.begin; first < entries.end; first += work.together) {
      if (kReads && tile == 0) {
        take_stage<true>(work, entries, first, stage);
        __syncthreads();
        read_entries<kWhole>(work, weight, reinterpret_cast<const float4*>(bytes), stage);
      } else {
        take_stage<false>(work, entries, first, stage);
      }
      __syncthreads();
      if (!sums_up) continue;
      fit &= add_entries<kWhole>(work.v, stage, share, sums);
      if (has_last && tile == 0) fit &= add_last(work.v, stage, last);
    }
    if (!sums_up) return;
    write_sums(d, share, sums, reinterpret_cast<RegisterSum*>(bytes), work.rv.row(e));
    last = sum_of_warp(last);
    if (threadIdx.x == kThreads - kWarp && tile == 0) work.rv(e, d) = last.sum();
  }
  if (__syncthreads_or(!fit)) add_large(work, entries, work.rv.row(e));
}

/// The sum of what the threads of a block have, in thread 0.
__device__ double sum_of_block(double x) {
  __shared__ double of_warp[kThreads / kWarp];
  x = sum_of_warp(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  double sum = 0.0;
  for (int i = 0; i < kThreads / kWarp; ++i) sum += of_warp[i];
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    cost_kernel(Lists lists, const double* cost, Index block_width,
                VectorView<const double> all_units, VectorView<double> of_blocks) {
  const Index b = blockIdx.x;
  __shared__ Index ends[2];
  if (threadIdx.x % kWarp == 0 && threadIdx.x < 2 * kWarp) {
    const Index side = threadIdx.x / kWarp;
    ends[side] = lists.begin[first_not_below(lists.unit, lists.touched, (b + side) * block_width)];
  }
  __syncthreads();
  double part = 0.0;
  for (Index i = ends[0] + threadIdx.x; i < ends[1]; i += kThreads) part += cost[i];
  double sum = sum_of_block(part);
  if (b == 0) {
    part = 0.0;
    for (Index i = threadIdx.x; i < all_units.size; i += kThreads) part += all_units[i];
    sum += 0.5 * sum_of_block(part);
  }
  if (threadIdx.x == 0) of_blocks[b] = sum;
}

template <bool kReads, bool kWhole>
void launch_read(const Stream& stream, const Work& work, Index examples) {
  const Index d = work.v.rows.cols;
  std::size_t bytes = kReads ? std::size_t((d + 4) / 4) * sizeof(float4) : 0;
  if (groups_of(d) > 1) bytes = std::max(bytes, kThreads * 4 * sizeof(RegisterSum));
  if (bytes > 32768)
    check(cudaFuncSetAttribute(read_kernel<kReads, kWhole>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
          "cudaFuncSetAttribute");
  read_kernel<kReads, kWhole><<<unsigned(examples), kThreads, bytes, stream.stream>>>(work);
  check_launch(kReads ? "read stored targets" : "sum rows of stored targets");
}

}  // namespace

void read_rows(const Stream& stream, const TargetLists& lists, const FactorView<const float>& v,
               MatrixView<const double> h, const EntryRule& rule, double* r, double* cost,
               MatrixView<FixedSum> rv) {
  if (lists.examples == 0) return;
  const Index d = v.rows.cols, row = std::max<Index>(1, d) * Index(sizeof(float));
  const auto together = int(std::clamp<Index>(kCached / row, kThreads / kWarp, kTogether));
  const Work work{lists_of(lists), v, h, rule, r, cost, rv, together};
  const bool whole = d % 4 == 0 && v.rows.stride % 4 == 0 &&
                     reinterpret_cast<std::uintptr_t>(v.rows.data) % sizeof(float4) == 0;
  const auto launch = h.data == nullptr
                          ? (whole ? launch_read<false, true> : launch_read<false, false>)
                          : (whole ? launch_read<true, true> : launch_read<true, false>);
  launch(stream, work, lists.examples);
}

void add_up_block_costs(const Stream& stream, const TargetLists& lists, const double* cost,
                        Index block_width, VectorView<const double> all_units,
                        VectorView<double> of_blocks) {
  cost_kernel<<<unsigned(of_blocks.size), kThreads, 0, stream.stream>>>(
      lists_of(lists), cost, block_width, all_units, of_blocks);
  check_launch("costs of blocks");
}

}  // namespace norn::cuda
