// SPDX-License-Identifier: Apache-2.0
// Rows of V and the stored targets of a batch. Sums over an example's entries are exact, in any
// order; those over a unit's entries run in the order of the list, long ones in pieces of kPiece.
#include "kernels/cuda/factored/factored_parts.h"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kTogether = 256;  // entries of an example that a block looks at together
constexpr Index kPiece = 64;    // entries of a piece; sums of longer units are made of these

struct Lists {
  const RowOffset* row_begin;
  const Column* column;
  const float* value;
  const Index* number;  // of each entry of the batch
  Index first_unit;
  const Index* unit;
  const Index* begin;
  const std::int32_t* example;
  Index touched;
};

Lists lists_of(const TargetLists& lists) {
  return {lists.batch.row_begin, lists.batch.column,   lists.batch.value,
          lists.entry.data(),    lists.first_unit,     lists.unit.data(),
          lists.begin.data(),    lists.example.data(), lists.touched};
}

/// FixedSum in registers, of terms that count no magnitude: in units of 2^-26, and what these leave
/// in units of 2^-52. A number next to which neighbours are so far apart rounds to them.
class RegisterSum {
 public:
  __device__ void add(double term) {
    if (fabs(term) < 0x1p16) {
      const double moved = term + kCoarse;
      coarse_ += __double_as_longlong(moved) - __double_as_longlong(kCoarse);
      const double rest = term - (moved - kCoarse);
      fine_ += __double_as_longlong(rest + kFine) - __double_as_longlong(kFine);
    } else {
      large_.add(term);
    }
  }
  __device__ FixedSum sum() const {
    FixedSum all =
        FixedSum::from_words(coarse_ >> 26, ((coarse_ & ((1ll << 26) - 1)) << 26) + fine_, 0);
    all.add(large_);
    return all;
  }

 private:
  static constexpr double kCoarse = 0x1.8p26, kFine = 1.5;
  long long coarse_ = 0, fine_ = 0;
  FixedSum large_;
};

__device__ double sum_of_warp(double x) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
  return x;
}

/// The entries that a block has at hand.
struct Stage {
  double r[kTogether];
  Index unit[kTogether];
};

/// z of an entry, its r and its cost. For all lanes of a warp.
__device__ double read_entry(const FactorView<const float>& v, Index unit, const float* source,
                             double t, const EntryRule& rule, double weight, double* cost) {
  const float* row = v.rows.row(unit);
  const Index d = v.rows.cols;
  float part = 0.0f;
#pragma unroll 8
  for (Index c = threadIdx.x % kWarp; c < d; c += kWarp) part = fmaf(row[c], source[c], part);
  const double z = sum_of_warp(double(part)) + double(v.last[unit]) * double(source[d]);
  if (threadIdx.x % kWarp == 0) *cost = weight * 0.5 * (t * t - 2.0 * z * t + rule.ignored * z * z);
  return sqrt(weight) * ((rule.one - rule.zero) * z - rule.one * t);
}

/// rv of the entries at hand, added to what earlier ones left.
__device__ void add_rows(const FactorView<const float>& v, const Stage& stage, int count,
                         bool is_first, FixedSum* rv) {
  const Index d = v.rows.cols;
  for (Index c = threadIdx.x; c <= d; c += kThreads) {
    const float* column = c < d ? v.rows.data + c : v.last.data;
    const Index stride = c < d ? v.rows.stride : 1;
    RegisterSum sum;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum.add(stage.r[i] * double(column[stage.unit[i] * stride]));
    FixedSum all = sum.sum();
    if (!is_first) all.add(rv[c]);
    rv[c] = all;
  }
}

/// A block an example. Without kReads r is there.
template <bool kReads>
__global__ void __launch_bounds__(kThreads)
    read_kernel(Lists lists, FactorView<const float> v, MatrixView<const double> h, EntryRule rule,
                double* r, double* cost, MatrixView<FixedSum> rv) {
  extern __shared__ float source[];
  __shared__ Stage stage;
  const Index e = blockIdx.x;
  const RowOffset origin = lists.row_begin[0];
  const Index begin = lists.row_begin[e] - origin, end = lists.row_begin[e + 1] - origin;
  if (kReads)
    for (Index c = threadIdx.x; c <= v.rows.cols; c += kThreads) source[c] = float(h(e, c));
  const double weight = kReads && rule.weight ? double(rule.weight[e]) : 1.0;
  Index first = begin;
  do {
    const int count = int(end - first < kTogether ? end - first : kTogether);
    __syncthreads();
    constexpr int kEach = kReads ? kWarp : 1;  // threads an entry
    for (int i = int(threadIdx.x) / kEach; i < count; i += kThreads / kEach) {
      const Index number = lists.number[first + i];
      const RowOffset at = origin + first + i;
      const Index unit = number < 0 ? 0 : Index(lists.column[at]) - lists.first_unit;
      double of_entry = 0.0;
      if (number >= 0 && kReads) {
        const double t = lists.value ? double(lists.value[at]) : 1.0;
        of_entry = read_entry(v, unit, source, t, rule, weight, cost + number);
      } else if (number >= 0) {
        of_entry = r[number];
      }
      if (threadIdx.x % kEach != 0) continue;
      stage.r[i] = of_entry;
      stage.unit[i] = unit;
      if (kReads && number >= 0) r[number] = of_entry;
    }
    __syncthreads();
    if (rv.data != nullptr)
      add_rows(v, stage, v.rows.rows > 0 ? count : 0, first == begin, rv.row(e));
    first += kTogether;
  } while (first < end);
}

/// The first of `count` ascending numbers that is at least `value`.
__device__ Index first_not_below(const Index* numbers, Index count, Index value) {
  Index low = 0, high = count;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (numbers[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
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
  const Index first = lists.begin[first_not_below(lists.unit, lists.touched, b * block_width)];
  const Index end = lists.begin[first_not_below(lists.unit, lists.touched, (b + 1) * block_width)];
  double part = 0.0;
  for (Index i = first + threadIdx.x; i < end; i += kThreads) part += cost[i];
  double sum = sum_of_block(part);
  if (b == 0) {
    part = 0.0;
    for (Index i = threadIdx.x; i < all_units.size; i += kThreads) part += all_units[i];
    sum += 0.5 * sum_of_block(part);
  }
  if (threadIdx.x == 0) of_blocks[b] = sum;
}

Index padded(Index width) {
  return (width + 3) / 4 * 4;
}

/// Sums of units of more than kPiece entries, piece by piece: piece s of a unit whose entries begin
/// at b stands at b / kSlot + s. No two stand at one place, for such a unit has room for them all.
constexpr Index kSlot = kPiece / 2;
Index slots_of(Index entries) {
  return entries / kSlot + 1;
}

__global__ void round_rows(MatrixView<const double> k, MatrixView<float> rounded) {
  const Index r = blockIdx.x;
  for (Index c = threadIdx.x; c < k.cols; c += kThreads) rounded(r, c) = float(k(r, c));
}

/// The sum of r k(e) over entries, of one column.
__device__ float sum_entries(const Lists& lists, const double* r, MatrixView<const float> k,
                             Index first, Index end, Index column) {
  float sum = 0.0f;
#pragma unroll 8
  for (Index i = first; i < end; ++i) sum = fmaf(float(r[i]), k(lists.example[i], column), sum);
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_pieces(Lists lists, const double* r, MatrixView<const float> k, MatrixView<float> pieces) {
  const Index slot = blockIdx.x;
  // The last unit whose pieces begin here or before.
  const Index t = first_not_below(lists.begin, lists.touched, (slot + 1) * kSlot) - 1;
  if (t < 0) return;
  const Index begin = lists.begin[t], end = lists.begin[t + 1];
  const Index first = begin + (slot - begin / kSlot) * kPiece;
  if (end - begin <= kPiece || first >= end) return;
  const Index last = first + kPiece < end ? first + kPiece : end;
  for (Index c = threadIdx.x; c < k.cols; c += kThreads)
    pieces(slot, c) = sum_entries(lists, r, k, first, last, c);
}

constexpr int kColumns = 8;  // of a lane at a time

/// A warp a unit.
__global__ void __launch_bounds__(kThreads)
    update_kernel(Lists lists, const double* r, float scale, MatrixView<const float> k,
                  MatrixView<const float> pieces, FactorView<float> v) {
  const Index t = blockIdx.x * Index(kThreads / kWarp) + threadIdx.x / kWarp;
  if (t >= lists.touched) return;
  const Index begin = lists.begin[t], end = lists.begin[t + 1];
  if (begin == end) return;
  const Index unit = lists.unit[t], d = v.rows.cols;
  const bool is_long = end - begin > kPiece;
  for (Index c0 = threadIdx.x % kWarp; c0 <= d; c0 += kWarp * kColumns) {
    float sum[kColumns] = {};
    const Index count = is_long ? (end - begin + kPiece - 1) / kPiece : end - begin;
    for (Index i = 0; i < count; ++i) {
      const float* row = is_long ? pieces.row(begin / kSlot + i) : k.row(lists.example[begin + i]);
      const float factor = is_long ? 1.0f : float(r[begin + i]);
#pragma unroll
      for (int q = 0; q < kColumns; ++q)
        if (c0 + q * kWarp <= d) sum[q] = fmaf(factor, row[c0 + q * kWarp], sum[q]);
    }
#pragma unroll
    for (int q = 0; q < kColumns; ++q) {
      const Index c = c0 + q * kWarp;
      if (c > d) break;
      float* to = c < d ? v.rows.row(unit) + c : v.last.data + unit;
      *to = fmaf(-scale, sum[q], *to);
    }
  }
}

}  // namespace

void read_rows(const Stream& stream, const TargetLists& lists, const FactorView<const float>& v,
               MatrixView<const double> h, const EntryRule& rule, double* r, double* cost,
               MatrixView<FixedSum> rv) {
  if (lists.examples == 0) return;
  const auto blocks = unsigned(lists.examples);
  if (h.data == nullptr) {
    read_kernel<false>
        <<<blocks, kThreads, 0, stream.stream>>>(lists_of(lists), v, h, rule, r, cost, rv);
    check_launch("sum rows of stored targets");
    return;
  }
  const std::size_t bytes = std::size_t(h.cols) * sizeof(float);
  if (bytes > 32768)
    check(cudaFuncSetAttribute(read_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(bytes)),
          "cudaFuncSetAttribute");
  read_kernel<true>
      <<<blocks, kThreads, bytes, stream.stream>>>(lists_of(lists), v, h, rule, r, cost, rv);
  check_launch("read stored targets");
}

void add_up_block_costs(const Stream& stream, const TargetLists& lists, const double* cost,
                        Index block_width, VectorView<const double> all_units,
                        VectorView<double> of_blocks) {
  cost_kernel<<<unsigned(of_blocks.size), kThreads, 0, stream.stream>>>(
      lists_of(lists), cost, block_width, all_units, of_blocks);
  check_launch("costs of blocks");
}

Index update_floats(const TargetLists& lists, Index width) {
  return (lists.examples + slots_of(lists.entries)) * padded(width);
}

void update_touched(const Stream& stream, const TargetLists& lists, const double* r, double scale,
                    MatrixView<const double> k, const FactorView<float>& v, float* workspace) {
  if (lists.touched == 0 || k.rows == 0) return;
  const Index stride = padded(k.cols), slots = slots_of(lists.entries);
  const MatrixView<float> rounded{workspace, k.rows, k.cols, stride};
  const MatrixView<float> pieces{workspace + k.rows * stride, slots, k.cols, stride};
  const Lists all = lists_of(lists);
  round_rows<<<unsigned(k.rows), kThreads, 0, stream.stream>>>(k, rounded);
  check_launch("round_rows");
  if (lists.entries > kPiece) {
    sum_pieces<<<unsigned(slots), kThreads, 0, stream.stream>>>(all, r, rounded, pieces);
    check_launch("sum_pieces");
  }
  constexpr Index kUnits = kThreads / kWarp;
  update_kernel<<<unsigned((lists.touched + kUnits - 1) / kUnits), kThreads, 0, stream.stream>>>(
      all, r, float(scale), rounded, pieces, v);
  check_launch("update rows of stored targets");
}

}  // namespace norn::cuda
