// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/dataset.h"
#include "norn/nn/connection.h"

#include <array>

/// A gathered batch where the kernels can read it.
namespace norn {

/// One data set's part of a batch.
struct BatchView {
  Index examples = 0;
  Index width = 0;
  bool is_sparse = true;
  CsrView sparse;
  MatrixView<const float> dense;
  VectorView<const float> weight;   ///< [examples] or empty
  VectorView<const Index> example;  ///< [examples] numbers in the data set
};

/// Copies batches to the device beside its work on earlier ones: two copies are kept, so that one
/// can be filled while the other is read. On the CPU batches stay where they are.
class DeviceBatch {
 public:
  /// Not within WorkQueue::run. The view is valid for the next run.
  BatchView load(const Compute& compute, const HostBatch& batch);

 private:
  struct Copy {
    Buffer<RowOffset> row_begin;
    Buffer<Column> column;
    Buffer<float> value;
    Buffer<float> dense;
    Buffer<float> weight;
    Buffer<Index> example;
  };
  std::array<Copy, 2> copies_;
  std::size_t turn_ = 0;
};

}  // namespace norn
