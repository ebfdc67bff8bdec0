// SPDX-License-Identifier: Apache-2.0
// Transposes a sparse batch by a stable radix sort of its entries by column. The host knows only a
// limit of the entries: the keys are filled up to it, and the filling sorts last.
#include "kernels/cuda/sparse/batch_rows.cuh"
#include "kernels/cuda/sparse/sparse_parts.h"

#include <bit>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr Index kMostBlocks = 1 << 20;

/// The arrays of a transposition, `limit` elements each.
struct SortArrays {
  Column* key;
  Column* sorted_key;
  std::uint32_t* payload;         // example, or with values the number of the entry
  std::uint32_t* sorted_payload;  // the result's `example` when there are no values
  std::uint32_t* rank;            // units that begin up to here
  std::int32_t* example_of;       // of every entry, with values
};

__global__ void write_keys(CsrView x, Index limit, SortArrays arrays) {
  const Index count = entries_of(x);
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < limit;
       i += gridDim.x * Index(kThreads)) {
    if (i >= count) {
      arrays.key[i] = TransposedBatch::no_unit;
      arrays.payload[i] = 0;
      continue;
    }
    const RowOffset at = x.row_begin[0] + i;
    const Index row = row_holding(x, at);
    arrays.key[i] = x.column[at];
    arrays.payload[i] = std::uint32_t(x.value ? i : row);
    if (x.value) arrays.example_of[i] = std::int32_t(row);
  }
}

/// rank[i] = whether entry i is the first of its unit.
__global__ void mark_starts(CsrView x, Index limit, SortArrays arrays) {
  const Index count = entries_of(x);
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < limit;
       i += gridDim.x * Index(kThreads))
    arrays.rank[i] =
        i < count && (i == 0 || arrays.sorted_key[i] != arrays.sorted_key[i - 1]) ? 1 : 0;
}

/// Where a transposed batch is written to.
struct Result {
  Column* unit;
  RowOffset* begin;
  std::int32_t* example;
  float* value;
  Index touched;  // the host's limit
};

__global__ void write_units(CsrView x, Index limit, SortArrays arrays, Result result) {
  const Index count = entries_of(x);
  const Index units = limit > 0 ? arrays.rank[limit - 1] : 0;
  const Index work = limit > result.touched ? limit : result.touched + 1;
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < work;
       i += gridDim.x * Index(kThreads)) {
    if (i < count) {
      const std::uint32_t rank = arrays.rank[i];
      if (i == 0 || rank != arrays.rank[i - 1]) {
        result.unit[rank - 1] = arrays.sorted_key[i];
        result.begin[rank - 1] = i;
      }
      if (x.value) {
        const std::uint32_t entry = arrays.sorted_payload[i];
        result.example[i] = arrays.example_of[entry];
        result.value[i] = x.value[x.row_begin[0] + entry];
      }
    }
    if (i >= units && i <= result.touched) {
      result.begin[i] = count;
      if (i < result.touched) result.unit[i] = TransposedBatch::no_unit;
    }
  }
}

template <typename T>
void grow(Buffer<T>& buffer, Index size, Memory& memory) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4, memory);
}

SortArrays arrays_in(TransposedBatch& transposed, Index limit, bool values, Memory& memory) {
  grow(transposed.workspace, 3 * limit, memory);
  auto* at = reinterpret_cast<std::uint32_t*>(transposed.workspace.data());
  SortArrays arrays;
  arrays.key = at;
  arrays.sorted_key = at + limit;
  arrays.payload = at + 2 * limit;
  arrays.rank = at + 3 * limit;
  arrays.example_of = reinterpret_cast<std::int32_t*>(at + 4 * limit);
  arrays.sorted_payload =
      values ? at + 5 * limit : reinterpret_cast<std::uint32_t*>(transposed.example.data());
  return arrays;
}

/// Calls CUB's sort and scan with memory of the workspace, or to learn how much they need.
struct SortCalls {
  const Stream& stream;
  const SortArrays& arrays;
  std::uint32_t count;
  int bits;

  std::size_t sort(void* temporary, std::size_t bytes) const {
    check(cub::DeviceRadixSort::SortPairs(temporary, bytes, arrays.key, arrays.sorted_key,
                                          arrays.payload, arrays.sorted_payload, count, 0, bits,
                                          stream.stream),
          "cub::DeviceRadixSort::SortPairs");
    return bytes;
  }
  std::size_t sum_ranks(void* temporary, std::size_t bytes) const {
    check(cub::DeviceScan::InclusiveSum(temporary, bytes, arrays.rank, arrays.rank, count,
                                        stream.stream),
          "cub::DeviceScan::InclusiveSum");
    return bytes;
  }
};

void sort_entries(const Stream& stream, SparseWorkspace& workspace, CsrView x, Index limit,
                  const SortArrays& arrays) {
  // The filling has all bits set and comes last in the input: it needs no bit of its own.
  const int bits = int(std::bit_width(std::uint64_t(std::max<Index>(x.cols - 1, 1))));
  const SortCalls calls{stream, arrays, std::uint32_t(limit), bits};
  const unsigned blocks = blocks_for(limit, kThreads, kMostBlocks);
  // Workspace for both at once: in a graph, the sort's must not be given away before it has run.
  const std::size_t bytes = std::max(calls.sort(nullptr, 0), calls.sum_ranks(nullptr, 0));
  std::byte* storage = workspace.sort.reserve(Index(bytes));
  write_keys<<<blocks, kThreads, 0, stream.stream>>>(x, limit, arrays);
  check_launch("write_keys");
  calls.sort(storage, bytes);
  mark_starts<<<blocks, kThreads, 0, stream.stream>>>(x, limit, arrays);
  check_launch("mark_starts");
  calls.sum_ranks(storage, bytes);
}

}  // namespace

void transpose_batch(const Stream& stream, SparseWorkspace& workspace, CsrView x,
                     TransposedBatch& transposed) {
  const Index limit = x.entry_limit;
  const Index touched = std::min(limit, x.cols);
  const bool values = x.value != nullptr;
  transposed.has_values = values;
  transposed.cols = x.cols;
  transposed.touched = touched;
  grow(transposed.unit, touched, stream.memory);
  grow(transposed.begin, touched + 1, stream.memory);
  grow(transposed.example, limit, stream.memory);
  if (values) grow(transposed.value, limit, stream.memory);
  const SortArrays arrays = arrays_in(transposed, limit, values, stream.memory);
  if (limit > 0) sort_entries(stream, workspace, x, limit, arrays);
  const Result result{transposed.unit.data(), transposed.begin.data(), transposed.example.data(),
                      transposed.value.data(), touched};
  const unsigned blocks = blocks_for(std::max(limit, touched + 1), kThreads, kMostBlocks);
  write_units<<<blocks, kThreads, 0, stream.stream>>>(x, limit, arrays, result);
  check_launch("write_units");
  grow(transposed.segments, segment_words(limit), stream.memory);
  list_segments(stream, lists_of(transposed), transposed.segments.data());
}

}  // namespace norn::cuda
