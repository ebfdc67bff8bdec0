// SPDX-License-Identifier: Apache-2.0
// Preparation of batches, and dropout masks, on the GPU.
#include "kernels/batch.h"
#include "kernels/cuda/elements/dropout.cuh"
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/families.h"
#include "kernels/cuda/sparse/column_runs.h"

namespace norn::cuda {
namespace {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kRowWarps = 8;  // rows of a block: a warp each

/// What the rows of a sparse batch are prepared by.
struct SparseWork {
  CsrView x;
  const float* weight;   // or null
  const Index* example;  // or null
  InputPreparation preparation;

  /// Bit i says whether entry first + i of a row is kept.
  __device__ unsigned kept(std::uint64_t row_key, Index first, Index entries) const {
    const Philox::Block block = preparation.random.block(std::uint64_t(first) >> 2, row_key);
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (first + i < entries && Philox::uniform(block.word[i]) >= preparation.denoising)
        mask |= 1u << i;
    return mask;
  }
  __device__ std::uint64_t row_key(Index r) const {
    return std::uint64_t(example[r]) ^ (std::uint64_t(preparation.epoch) << 40);
  }
};

/// Without denoising: begin[r] = where row r begins in the batch.
__global__ void __launch_bounds__(kElementThreads)
    copy_offsets_kernel(const CsrView x, RowOffset* begin) {
  const Index r = Index(blockIdx.x) * kElementThreads + threadIdx.x;
  if (r <= x.rows) begin[r] = x.row_begin[r] - x.row_begin[0];
}

/// begin[r + 1] = entries that denoising leaves in row r.
__global__ void __launch_bounds__(32 * kRowWarps)
    count_kept_kernel(const SparseWork work, RowOffset* begin) {
  const Index r = Index(blockIdx.x) * kRowWarps + threadIdx.y;
  if (r >= work.x.rows) return;
  const Index entries = work.x.row_begin[r + 1] - work.x.row_begin[r];
  const std::uint64_t key = work.row_key(r);
  Index count = 0;
  for (Index first = 4 * Index(threadIdx.x); first < entries; first += 128)
    count += __popc(work.kept(key, first, entries));
  count = reduce_threads<32>(count, Plus{});
  if (threadIdx.x == 0) begin[r + 1] = count;
}

constexpr int kScanThreads = 1024;
constexpr int kScanRun = 4;  // elements of a thread and round

/// The sum of x over the lanes up to this one.
__device__ __forceinline__ RowOffset scan_warp(RowOffset x) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const RowOffset before = __shfl_up_sync(kAllLanes, x, unsigned(step));
    if (int(threadIdx.x % 32) >= step) x += before;
  }
  return x;
}

/// Entries of each row as count_kept_kernel left them.
struct CountedRows {
  const RowOffset* begin;
  __device__ RowOffset operator()(Index r) const { return begin[r + 1]; }
};

/// Entries of the rows that a batch takes from a data set.
struct ChosenRows {
  const RowOffset* row_begin;
  const Index* row;
  __device__ RowOffset operator()(Index r) const {
    return row_begin[row[r] + 1] - row_begin[row[r]];
  }
};

/// begin[0] = 0 and begin[r] = the entries of rows 0 to r - 1: one block.
template <typename Entries>
__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(const Entries entries_of, RowOffset* begin, const Index rows) {
  __shared__ RowOffset warp_end[32];
  RowOffset before = 0;
  for (Index first = 1; first <= rows; first += kScanThreads * kScanRun) {
    const Index start = first + Index(threadIdx.x) * kScanRun;
    RowOffset x[kScanRun];
    RowOffset own = 0;
#pragma unroll
    for (int i = 0; i < kScanRun; ++i) {
      x[i] = start + i <= rows ? entries_of(start + i - 1) : 0;
      own += x[i];
    }
    const RowOffset in_warp = scan_warp(own);
    __syncthreads();  // the last round's ends are read
    if (threadIdx.x % 32 == 31) warp_end[threadIdx.x / 32] = in_warp;
    __syncthreads();
    const RowOffset ends = scan_warp(warp_end[threadIdx.x % 32]);
    const int warp = int(threadIdx.x / 32);
    const RowOffset warps_before = __shfl_sync(kAllLanes, ends, warp == 0 ? 0 : warp - 1);
    RowOffset sum = before + in_warp - own + (warp == 0 ? 0 : warps_before);
#pragma unroll
    for (int i = 0; i < kScanRun; ++i) {
      sum += x[i];
      if (start + i <= rows) begin[start + i] = sum;
    }
    before += __shfl_sync(kAllLanes, ends, 31);
  }
  if (threadIdx.x == 0) begin[0] = 0;
}

/// A stored entry, times the weight of its feature where features have weights.
template <bool kWeighted>
__device__ __forceinline__ double value_of(const SparseWork& work, RowOffset i) {
  const double value = work.x.value ? double(work.x.value[i]) : 1.0;
  if constexpr (kWeighted)
    return value * double(work.preparation.feature_weight[Index(work.x.column[i])]);
  return value;
}

/// What the values of row r are multiplied by. To be called by a whole warp.
template <bool kWeighted>
__device__ double factor_of_row(const SparseWork& work, Index r) {
  const RowOffset begin = work.x.row_begin[r], end = work.x.row_begin[r + 1];
  double norm = 1.0;
  if (work.preparation.normalise_l2) {
    double squares = work.x.value || kWeighted ? 0.0 : double(end - begin);
    if (work.x.value || kWeighted) {
      for (RowOffset i = begin + threadIdx.x; i < end; i += 32) {
        const double value = value_of<kWeighted>(work, i);
        squares += value * value;
      }
      squares = reduce_threads<32>(squares, Plus{});
    }
    if (squares > 0.0) norm = std::sqrt(squares);
  }
  const double given = work.weight ? double(work.weight[r]) : 1.0;
  return given / (norm * (1.0 - double(work.preparation.denoising)));
}

/// Where the prepared batch goes; no values where none are wanted.
struct PreparedRows {
  const RowOffset* row_begin;
  Column* column;
  float* value;
  template <bool kWeighted>
  __device__ void put(RowOffset to, const SparseWork& work, RowOffset from, double factor) const {
    column[to] = work.x.column[from];
    if (value) value[to] = float(value_of<kWeighted>(work, from) * factor);
  }
};

/// kWeighted: features have weights.
template <bool kWeighted>
__global__ void __launch_bounds__(32 * kRowWarps)
    write_rows_kernel(const SparseWork work, const PreparedRows prepared) {
  const Index r = Index(blockIdx.x) * kRowWarps + threadIdx.y;
  if (r >= work.x.rows) return;
  const double factor = prepared.value ? factor_of_row<kWeighted>(work, r) : 1.0;
  const RowOffset from = work.x.row_begin[r];
  const Index entries = work.x.row_begin[r + 1] - from;
  RowOffset to = prepared.row_begin[r];
  if (!(work.preparation.denoising > 0.0f)) {
#pragma unroll 4
    for (Index i = threadIdx.x; i < entries; i += 32)
      prepared.put<kWeighted>(to + i, work, from + i, factor);
    return;
  }
  const std::uint64_t key = work.row_key(r);
  for (Index round = 0; round < entries; round += 128) {
    const Index first = round + 4 * Index(threadIdx.x);
    const unsigned mask = first < entries ? work.kept(key, first, entries) : 0u;
    const RowOffset count = __popc(mask);
    const RowOffset end = scan_warp(count);
    RowOffset next = to + end - count;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (mask >> i & 1u) prepared.put<kWeighted>(next++, work, from + first + i, factor);
    to += __shfl_sync(kAllLanes, end, 31);
  }
}

/// A warp a row.
__global__ void __launch_bounds__(32 * kRowWarps)
    copy_rows_kernel(const CsrView stored, const Index* row, const Index rows,
                     const PreparedRows gathered) {
  const Index r = Index(blockIdx.x) * kRowWarps + threadIdx.y;
  if (r >= rows) return;
  const RowOffset from = stored.row_begin[row[r]];
  const RowOffset to = gathered.row_begin[r];
  const Index entries = gathered.row_begin[r + 1] - to;
#pragma unroll 4
  for (Index i = threadIdx.x; i < entries; i += 32) {
    gathered.column[to + i] = stored.column[from + i];
    if (gathered.value) gathered.value[to + i] = stored.value[from + i];
  }
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    copy_dense_rows_kernel(const MatrixView<const float> stored, const Index* row,
                           const MatrixView<float> x) {
  const Index r = row_of_group<kThreads>();
  if (r >= x.rows) return;
  const float* from = stored.row(row[r]);
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < x.cols; c += 4 * kThreads)
    store_four<kPacked>(x.row(r), c, x.cols, load_four<kPacked>(from, c, x.cols));
}

template <int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads* rows_of_block(kThreads))
    prepare_dense_kernel(const MatrixView<const float> data, const float* weight,
                         const bool normalise_l2, const MatrixView<float> x) {
  const Index r = row_of_group<kThreads>();
  if (r >= x.rows) return;
  const float* from = data.row(r);
  double factor = weight ? double(weight[r]) : 1.0;
  if (normalise_l2) {
    const double squares = sum_of_squares<kThreads, kPacked>(from, data.cols);
    if (squares > 0.0) factor /= std::sqrt(squares);
  }
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < x.cols; c += 4 * kThreads) {
    Pack<float, 4> four = load_four<kPacked>(from, c, data.cols);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      four.value[i] = c + i < data.cols ? float(factor * double(four.value[i])) : 0.0f;
    store_four<kPacked>(x.row(r), c, x.cols, four);
  }
}

constexpr int kMaskedRows = 4;  // of a thread at a time

struct MaskWork {
  DropoutMask mask;
  MatrixView<const float> y;
  MatrixView<float> out;
  template <int n>
  __device__ Pack<float, n> load(Index r, Index c) const {
    return cuda::load<n>(y.row(r) + c);
  }
  template <int n>
  __device__ void finish(Index r, Index c, Pack<float, n> x, const UnitChances<n>& chance) const {
#pragma unroll
    for (int i = 0; i < n; ++i) x.value[i] = mask.value(chance.value[i], x.value[i]);
    store<n>(out.row(r) + c, x);
  }
};

template <bool kPacked>
__global__ void __launch_bounds__(kElementThreads) mask_kernel(const MaskWork work) {
  for_units<kPacked, kMaskedRows>(work.mask, work.y.rows, work.y.cols, work);
}

template <typename T>
void grow(Buffer<T>& buffer, Index size, Memory& memory) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4, memory);
}

class CudaBatch final : public BatchKernels {
 public:
  explicit CudaBatch(const Stream& stream) : stream_(stream) {}

 private:
  void do_gather(CsrView stored, VectorView<const Index> row, Index entries,
                 CsrBuffer& gathered) override {
    gathered.rows = row.size;
    gathered.cols = stored.cols;
    gathered.entry_limit = entries;
    gathered.has_values = stored.value != nullptr;
    grow(gathered.row_begin, row.size + 1, stream_.memory);
    grow(gathered.column, entries, stream_.memory);
    if (gathered.has_values) grow(gathered.value, entries, stream_.memory);
    RowOffset* begin = gathered.row_begin.data();
    scan_kernel<<<1, kScanThreads, 0, stream_.stream>>>(ChosenRows{stored.row_begin, row.data},
                                                        begin, row.size);
    check_launch("scan");
    if (row.size == 0) return;
    const auto blocks = unsigned((row.size + kRowWarps - 1) / kRowWarps);
    copy_rows_kernel<<<blocks, dim3(32, kRowWarps), 0, stream_.stream>>>(
        stored, row.data, row.size,
        {begin, gathered.column.data(), gathered.has_values ? gathered.value.data() : nullptr});
    check_launch("copy_rows");
  }

  void do_gather(MatrixView<const float> stored, VectorView<const Index> row,
                 MatrixView<float> x) override {
    if (x.empty()) return;
    const bool packed = is_packable<4>(stored) && is_packable<4>(x);
    with_row_threads(x.rows, x.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (packed)
        copy_dense_rows_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(stored, row.data, x);
      else
        copy_dense_rows_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(stored, row.data, x);
      check_launch("copy_dense_rows");
    });
  }

  void do_find_runs(CsrView x, const ColumnRuns& runs, int* begin) override {
    find_column_runs(stream_, x, runs, begin);
  }

  void do_prepare(CsrView x, VectorView<const float> weight, VectorView<const Index> example,
                  const InputPreparation& preparation, CsrBuffer& prepared) override {
    const bool denoise = preparation.denoising > 0.0f;
    prepared.rows = x.rows;
    prepared.cols = x.cols;
    prepared.entry_limit = x.entry_limit;
    const bool weighted = !preparation.feature_weight.empty();
    prepared.has_values =
        x.value || !weight.empty() || weighted || preparation.normalise_l2 || denoise;
    grow(prepared.row_begin, x.rows + 1, stream_.memory);
    grow(prepared.column, x.entry_limit, stream_.memory);
    if (prepared.has_values) grow(prepared.value, x.entry_limit, stream_.memory);
    const SparseWork work{x, weight.empty() ? nullptr : weight.data,
                          example.empty() ? nullptr : example.data, preparation};
    RowOffset* begin = prepared.row_begin.data();
    find_rows(work, begin);
    if (x.rows == 0) return;
    const auto blocks = unsigned((x.rows + kRowWarps - 1) / kRowWarps);
    const auto kernel = weighted ? write_rows_kernel<true> : write_rows_kernel<false>;
    kernel<<<blocks, dim3(32, kRowWarps), 0, stream_.stream>>>(
        work,
        {begin, prepared.column.data(), prepared.has_values ? prepared.value.data() : nullptr});
    check_launch("write_rows");
  }

  /// Where each row of the prepared batch begins.
  void find_rows(const SparseWork& work, RowOffset* begin) {
    const Index rows = work.x.rows;
    if (rows == 0) {
      check(cudaMemsetAsync(begin, 0, sizeof(RowOffset), stream_.stream), "cudaMemsetAsync");
      return;
    }
    if (!(work.preparation.denoising > 0.0f)) {
      const auto blocks = unsigned(rows / kElementThreads + 1);
      copy_offsets_kernel<<<blocks, kElementThreads, 0, stream_.stream>>>(work.x, begin);
      check_launch("copy_offsets");
      return;
    }
    const auto blocks = unsigned((rows + kRowWarps - 1) / kRowWarps);
    count_kept_kernel<<<blocks, dim3(32, kRowWarps), 0, stream_.stream>>>(work, begin);
    check_launch("count_kept");
    scan_kernel<<<1, kScanThreads, 0, stream_.stream>>>(CountedRows{begin}, begin, rows);
    check_launch("scan");
  }

  void do_prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                        bool normalise_l2, MatrixView<float> x) override {
    if (x.empty()) return;
    const bool packed = is_packable<4>(data) && is_packable<4>(x);
    const float* factor = weight.empty() ? nullptr : weight.data;
    with_row_threads(x.rows, x.cols, [&](auto threads, const Launch& l) {
      constexpr int kThreads = decltype(threads)::value;
      if (packed)
        prepare_dense_kernel<kThreads, true>
            <<<l.grid, l.block, 0, stream_.stream>>>(data, factor, normalise_l2, x);
      else
        prepare_dense_kernel<kThreads, false>
            <<<l.grid, l.block, 0, stream_.stream>>>(data, factor, normalise_l2, x);
      check_launch("prepare_dense");
    });
  }

  void do_mask(const DropoutMask& mask, MatrixView<const float> y, MatrixView<float> out) override {
    if (y.empty()) return;
    const Launch l = unit_launch<kMaskedRows>(stream_, mask, y.rows, y.cols);
    const MaskWork work{mask, y, out};
    if (mask.first_unit % 4 == 0 && is_packable<4>(y) && is_packable<4>(out))
      mask_kernel<true><<<l.grid, l.block, 0, stream_.stream>>>(work);
    else
      mask_kernel<false><<<l.grid, l.block, 0, stream_.stream>>>(work);
    check_launch("mask");
  }

  Stream stream_;
};

}  // namespace

std::unique_ptr<BatchKernels> make_batch(const Stream& stream) {
  return std::make_unique<CudaBatch>(stream);
}

}  // namespace norn::cuda
