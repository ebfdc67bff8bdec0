// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <memory>

/// Data sets whose contents stand in a GPU's memory.
namespace norn {

/// A set with a copy of its contents on a device: its batches name rows and weights only, and the
/// rows are gathered where they are used.
class DeviceDataset final : public Dataset {
 public:
  /// Copies all stored rows. Throws DeviceError when there is no room.
  DeviceDataset(std::shared_ptr<Dataset> set, Memory& memory);

  void gather(std::span<const Index> examples, HostBatch& batch) override;
  void locate(std::span<const Index> examples, HostBatch& batch) override {
    set_->locate(examples, batch);
  }
  void read_rows(Index first, Index count, HostBatch& batch) override {
    set_->read_rows(first, count, batch);
  }
  RowOffset row_entries() const override { return set_->row_entries(); }

 private:
  void copy_sparse(Memory& memory);
  void copy_dense(Memory& memory);

  std::shared_ptr<Dataset> set_;
  Buffer<RowOffset> row_begin_;
  Buffer<Column> column_;
  Buffer<float> value_;  // of sparse entries, or of dense rows
  StoredRows stored_;
};

}  // namespace norn
