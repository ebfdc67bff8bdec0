// SPDX-License-Identifier: Apache-2.0
// Transposes a sparse batch by a stable radix sort of its entries by column.

#include "kernels/cpu/sparse_parts.h"
#include "norn/base/error.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr int kLargestDigit = 11;  // bits: the counters of a digit stay in the first-level cache
constexpr Index kRun = 16384;      // entries that a task sorts

template <typename T>
void grow(Buffer<T>& buffer, Index size) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4);
}

/// An entry on its way: the column in the upper half, the example or the entry's number below.
using Key = std::uint64_t;

Column column_of(Key key) {
  return Column(key >> 32);
}

/// Writes the key of every entry; with values, also which example an entry is of.
void write_keys(Executor& executor, CsrView x, Key* key, std::int32_t* example_of) {
  const RowOffset begin = x.row_begin[0];
  executor.for_ranges(x.rows, 16, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r)
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        const RowOffset e = i - begin;
        key[e] = Key(x.column[i]) << 32 | Key(x.value ? e : r);
        if (x.value) example_of[e] = std::int32_t(r);
      }
  });
}

/// One pass of the sort: moves the keys to where their digit belongs, keeping the order of equals.
void scatter_by_digit(Executor& executor, const Key* from, Key* to, Index count, int shift,
                      int bits) {
  const Index digits = Index(1) << bits;
  const Index runs = (count + kRun - 1) / kRun;
  const auto digit_of = [&](Key key) { return Index(key >> shift) & (digits - 1); };
  std::vector<std::uint32_t> place(std::size_t(runs * digits));
  executor.for_ranges(count, kRun, [&](Index first, Index end, int) {
    std::uint32_t* counter = place.data() + first / kRun * digits;
    for (Index i = first; i < end; ++i) ++counter[digit_of(from[i])];
  });
  std::uint32_t total = 0;
  for (Index d = 0; d < digits; ++d)
    for (Index run = 0; run < runs; ++run) {
      std::uint32_t& counter = place[std::size_t(run * digits + d)];
      const std::uint32_t here = counter;
      counter = total;
      total += here;
    }
  executor.for_ranges(count, kRun, [&](Index first, Index end, int) {
    std::uint32_t* next = place.data() + first / kRun * digits;
    for (Index i = first; i < end; ++i) to[next[digit_of(from[i])]++] = from[i];
  });
}

/// Sorts by column; returns where the sorted keys are: in `key` or in `other`.
const Key* sort_keys(Executor& executor, Key* key, Key* other, Index count, Index cols) {
  const int bits = int(std::bit_width(std::uint64_t(std::max<Index>(cols - 1, 1))));
  const int passes = (bits + kLargestDigit - 1) / kLargestDigit;
  const int digit = (bits + passes - 1) / passes;
  for (int pass = 0; pass < passes; ++pass) {
    scatter_by_digit(executor, key, other, count, 32 + pass * digit, digit);
    std::swap(key, other);
  }
  return key;
}

}  // namespace

void transpose_batch(Executor& executor, CsrView x, TransposedBatch& transposed) {
  const Index count = x.entries();
  if (count > Index(std::numeric_limits<std::uint32_t>::max()))
    throw ShapeError(
        fmt::format("sparse transpose: {} entries are more than 2^32; use a smaller batch", count));
  transposed.has_values = x.value != nullptr;
  transposed.cols = x.cols;
  transposed.touched = 0;
  grow(transposed.unit, std::min(count, x.cols));
  grow(transposed.begin, std::min(count, x.cols) + 1);
  grow(transposed.example, count);
  if (x.value) grow(transposed.value, count);
  RowOffset* begin = transposed.begin.data();
  begin[0] = 0;
  if (count == 0) return;

  // Two arrays of keys, then the example of every entry when there are values.
  grow(transposed.workspace, 2 * count + (count + 1) / 2);
  Key* key = transposed.workspace.data();
  auto* example_of = reinterpret_cast<std::int32_t*>(key + 2 * count);
  write_keys(executor, x, key, example_of);
  const Key* sorted = sort_keys(executor, key, key + count, count, x.cols);

  const float* value = x.value ? x.value + x.row_begin[0] : nullptr;
  executor.for_ranges(count, kRun, [&](Index first, Index end, int) {
    for (Index i = first; i < end; ++i) {
      const Index low = Index(std::uint32_t(sorted[i]));
      transposed.example.data()[i] = value ? example_of[low] : std::int32_t(low);
      if (value) transposed.value.data()[i] = value[low];
    }
  });
  Column* unit = transposed.unit.data();
  Index touched = 0;
  for (Index i = 0; i < count; ++i) {
    const Column column = column_of(sorted[i]);
    if (i > 0 && column == unit[touched - 1]) continue;
    unit[touched] = column;
    begin[touched] = i;
    ++touched;
  }
  begin[touched] = count;
  transposed.touched = touched;
}

}  // namespace norn
