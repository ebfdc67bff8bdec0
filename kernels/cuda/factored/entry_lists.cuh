// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"

/// The stored targets of a batch, as kernels of factored layers see them.
namespace norn::cuda {

/// See TargetLists.
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

inline Lists lists_of(const TargetLists& lists) {
  return {lists.batch.row_begin, lists.batch.column,   lists.batch.value,
          lists.entry.data(),    lists.first_unit,     lists.unit.data(),
          lists.begin.data(),    lists.example.data(), lists.touched};
}

/// The first of `count` ascending numbers that is at least `value`.
__device__ inline Index first_not_below(const Index* numbers, Index count, Index value) {
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

}  // namespace norn::cuda
