// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"
#include "src/tensor/tensor.h"

#include <functional>
#include <span>
#include <string>
#include <variant>

/// Arrays of any shape that layers leave behind for the next step, as files hold them, whatever the
/// ranks: whole, or with a row for each unit.
namespace norn {

/// This rank's part of one. Rows of an array by unit are those of its own units; what is whole has
/// the same bits on all ranks.
struct SavedArray {
  const Tensor* tensor = nullptr;
  std::byte* data = nullptr;  ///< in `memory`
  Memory* memory = nullptr;
};

/// Elements as they are stored.
using ConstValues = std::variant<std::span<const float>, std::span<const double>>;
using Values = std::variant<std::span<float>, std::span<double>>;

/// Elements of the whole array, of a layer whose units the ranks share out so.
Index whole_size(const SavedArray& array, std::span<const Range> shares);

/// Goes through the whole array in runs of bounded size, on every rank, row by row.
void gather_array(Communicator& communicator, std::span<const Range> shares,
                  const SavedArray& array,
                  const std::function<void(Index first, ConstValues values)>& take);
/// The same the other way round: `give` fills the elements (it is called on rank 0 only).
void scatter_array(Communicator& communicator, std::span<const Range> shares,
                   const SavedArray& array,
                   const std::function<void(Index first, Values values)>& give);

}  // namespace norn
