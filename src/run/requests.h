// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"
#include "src/engine/data/sparse_rows.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Examples that predictions are asked for, batch by batch.
namespace norn::run {

/// Examples that are asked for together.
struct RequestBatch {
  std::vector<std::string> labels;
  BoundBatch bound;
  SparseRows seen;  ///< output units that the requests hold themselves; rows 0: not asked for
  Index examples() const { return Index(labels.size()); }
};

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// What will answer, before the first batch: batches are as large as its, and a rank reads what
  /// its part of it looks at.
  virtual void begin(const Network& network) = 0;
  /// False after the last request. What the batch points to is valid until the next call.
  virtual bool next(RequestBatch& batch) = 0;
  /// One warning on everything that was left out.
  virtual void report(const Log& log) const = 0;
};

struct DatasetRequestSettings {
  const NetworkDescriptor* network = nullptr;
  std::vector<std::filesystem::path> files;
  std::vector<MemorySet> sets;
  std::int64_t memory_bytes = 0;
  bool tell_seen = false;
  int output_layer = 0;  ///< inputs as wide as it hold units that are seen
  bool whole = false;    ///< every rank reads all of an example, also what it does not look at
  const ModelUnits* units = nullptr;
  Log log = {};
};
/// Labels are those in the file, or the examples' numbers.
class DatasetRequests final : public RequestSource {
 public:
  explicit DatasetRequests(const DatasetRequestSettings& settings);
  void begin(const Network& network) override;
  bool next(RequestBatch& batch) override;
  void report(const Log&) const override {}
  std::vector<DatasetShape> shapes() const { return data_.shapes(); }
  Index examples() const { return data_.examples(); }

 private:
  void gather_seen(RequestBatch& batch) const;
  bool may_hold_seen(std::size_t layer) const;
  DatasetRequestSettings settings_;
  DataBinding data_;
  std::vector<std::string> labels_;
  std::optional<BatchLoader> loader_;  // from begin() on
};

/// Calls answer(batch) for all requests and returns how many examples there were. The communicator
/// says which batch it is at. Every rank calls it.
Index for_requests(RequestSource& requests, Communicator& communicator,
                   const std::function<void(const RequestBatch& batch)>& answer);

}  // namespace norn::run
