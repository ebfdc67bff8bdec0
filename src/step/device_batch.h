// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/nn/connection.h"
#include "src/step/context.h"

#include <array>

/// A gathered batch where the kernels can read it.
namespace norn {

/// One data set's part of a batch.
struct BatchView {
  Index examples = 0;
  Index first = 0;  ///< as HostBatch has it
  Index width = 0;
  bool is_sparse = true;
  CsrView sparse;
  MatrixView<const float> dense;
  VectorView<const float> weight;   ///< [examples] or empty
  VectorView<const Index> example;  ///< [examples] numbers in the data set
};

/// Copies batches to the device during its work on earlier ones: two copies are kept, so that one
/// can be filled while the other is read. On the CPU batches stay where they are. Of a data set
/// that stands on the device only the rows' numbers are copied; the rows follow there.
class DeviceBatch {
 public:
  /// Not within WorkQueue::run. Throws CommunicationError where the device waits for a rank that
  /// is gone or late.
  void load(const Context& context, const HostBatch& batch);
  /// To be called in the WorkQueue::prepare() that follows; the view is valid for the next run.
  BatchView view(const Compute& compute);

 private:
  struct Copy {
    Buffer<Index> row;
    Buffer<RowOffset> row_begin;
    Buffer<Column> column;
    Buffer<float> value;
    Buffer<float> dense;
    Buffer<float> weight;
    Buffer<Index> example;
    CsrBuffer gathered;
    Matrix<float> gathered_dense;
  };
  void upload_contents(const Context& context, const HostBatch& batch, Copy& copy);

  std::array<Copy, 2> copies_;
  std::size_t turn_ = 0;
  BatchView view_;
  // What view() still has to gather.
  const StoredRows* stored_ = nullptr;
  VectorView<const Index> row_;
  Index entries_ = 0;
  Copy* copy_ = nullptr;
};

}  // namespace norn
