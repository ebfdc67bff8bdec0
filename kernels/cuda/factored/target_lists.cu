// SPDX-License-Identifier: Apache-2.0
// The stored targets of a batch by unit, by a stable radix sort. The host knows only a limit of the
// entries: what fills them up sorts last, as do those of other ranks' units.
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/sparse/batch_rows.cuh"

#include <bit>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr Index kMostBlocks = 1 << 16;

/// The arrays of a list, `limit` elements each.
struct SortArrays {
  std::uint32_t* key;  // units from the rank's first one on; their number for what is left out
  std::uint32_t* sorted_key;
  std::uint32_t* place;  // of an entry in the batch
  std::uint32_t* sorted_place;
  std::uint32_t* rank;        // units that begin up to here
  std::uint32_t* example_of;  // of every entry
};

__global__ void write_keys(CsrView x, Range units, Index limit, SortArrays arrays) {
  const Index count = entries_of(x);
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < limit;
       i += gridDim.x * Index(kThreads)) {
    arrays.key[i] = std::uint32_t(units.end - units.begin);
    arrays.place[i] = std::uint32_t(i);
    if (i >= count) continue;
    const RowOffset at = x.row_begin[0] + i;
    const Index unit = Index(x.column[at]);
    if (unit >= units.begin && unit < units.end) arrays.key[i] = std::uint32_t(unit - units.begin);
    arrays.example_of[i] = std::uint32_t(row_holding(x, at));
  }
}

/// rank[i] = whether entry i is the first of its unit.
__global__ void mark_starts(std::uint32_t units, Index limit, SortArrays arrays) {
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < limit;
       i += gridDim.x * Index(kThreads)) {
    const std::uint32_t key = arrays.sorted_key[i];
    arrays.rank[i] = key < units && (i == 0 || key != arrays.sorted_key[i - 1]) ? 1 : 0;
  }
}

struct Result {
  Index* unit;
  Index* begin;
  std::int32_t* example;
  Index* entry;
  Index touched;  // the host's limit
};

/// Entries of own units: those before the first key that is none.
__device__ Index own_entries(std::uint32_t units, Index limit, const SortArrays& arrays) {
  Index low = 0, high = limit;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (arrays.sorted_key[middle] < units)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

__global__ void write_lists(std::uint32_t units, Index limit, SortArrays arrays, Result result) {
  const Index touched = limit > 0 ? arrays.rank[limit - 1] : 0;
  const Index work = limit > result.touched ? limit : result.touched + 1;
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; i < work;
       i += gridDim.x * Index(kThreads)) {
    if (i < limit) {
      const bool is_own = arrays.sorted_key[i] < units;
      const std::uint32_t place = arrays.sorted_place[i];
      result.entry[place] = is_own ? i : -1;
      if (is_own) result.example[i] = std::int32_t(arrays.example_of[place]);
      const std::uint32_t rank = arrays.rank[i];
      if (is_own && (i == 0 || rank != arrays.rank[i - 1])) {
        result.unit[rank - 1] = arrays.sorted_key[i];
        result.begin[rank - 1] = i;
      }
    }
    if (i >= touched && i <= result.touched) {
      result.begin[i] = own_entries(units, limit, arrays);
      if (i < result.touched) result.unit[i] = Index(1) << 62;
    }
  }
}

template <typename T>
void grow(Buffer<T>& buffer, Index size, Memory& memory) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4, memory);
}

/// Calls CUB's sort and scan with memory of the workspace, or to learn how much they need.
struct SortCalls {
  cudaStream_t stream;
  const SortArrays& arrays;
  std::uint32_t count;
  int bits;

  std::size_t sort(void* temporary, std::size_t bytes) const {
    check(
        cub::DeviceRadixSort::SortPairs(temporary, bytes, arrays.key, arrays.sorted_key,
                                        arrays.place, arrays.sorted_place, count, 0, bits, stream),
        "cub::DeviceRadixSort::SortPairs");
    return bytes;
  }
  std::size_t sum_ranks(void* temporary, std::size_t bytes) const {
    check(cub::DeviceScan::InclusiveSum(temporary, bytes, arrays.rank, arrays.rank, count, stream),
          "cub::DeviceScan::InclusiveSum");
    return bytes;
  }
};

}  // namespace

void list_entries(const Stream& stream, Workspace<std::byte>& sort, CsrView targets, Range units,
                  TargetLists& lists) {
  const Index limit = targets.entry_limit, touched = std::min(limit, units.count());
  lists.examples = targets.rows;
  lists.touched = touched;
  lists.entries = limit;
  lists.batch = targets;
  lists.first_unit = units.begin;
  grow(lists.unit, touched, stream.memory);
  grow(lists.begin, touched + 1, stream.memory);
  grow(lists.example, limit, stream.memory);
  grow(lists.entry, limit, stream.memory);
  grow(lists.workspace, 6 * limit, stream.memory);
  std::uint32_t* at = lists.workspace.data();
  const SortArrays arrays{
      at, at + limit, at + 2 * limit, at + 3 * limit, at + 4 * limit, at + 5 * limit};
  const auto own = std::uint32_t(units.count());
  const unsigned blocks = blocks_for(std::max(limit, touched + 1), kThreads, kMostBlocks);
  if (limit > 0) {
    const SortCalls calls{stream.stream, arrays, std::uint32_t(limit),
                          std::max(1, int(std::bit_width(own)))};
    const std::size_t bytes = std::max(calls.sort(nullptr, 0), calls.sum_ranks(nullptr, 0));
    std::byte* storage = sort.reserve(Index(bytes));
    write_keys<<<blocks, kThreads, 0, stream.stream>>>(targets, units, limit, arrays);
    check_launch("write_keys");
    calls.sort(storage, bytes);
    mark_starts<<<blocks, kThreads, 0, stream.stream>>>(own, limit, arrays);
    check_launch("mark_starts");
    calls.sum_ranks(storage, bytes);
  }
  write_lists<<<blocks, kThreads, 0, stream.stream>>>(
      own, limit, arrays,
      {lists.unit.data(), lists.begin.data(), lists.example.data(), lists.entry.data(), touched});
  check_launch("write_lists");
}

}  // namespace norn::cuda
