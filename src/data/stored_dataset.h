// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "netcdf_file.h"
#include "src/data/dataset.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// What sparse and dense data sets have in common: the way from examples to stored rows, and
/// weights.
namespace norn {

class StoredDataset : public Dataset {
 public:
  void gather(std::span<const Index> examples, HostBatch& batch) override;
  void locate(std::span<const Index> examples, HostBatch& batch) override;
  void read_rows(Index first, Index count, HostBatch& batch) override;

 protected:
  StoredDataset(DatasetInfo info, Role role) : Dataset(std::move(info)), role_(role) {}

  /// Reads index and weights of a set that has them.
  void read_index_and_weights(const NetcdfFile& file);
  /// The weights of a set that is not in a file; none: it has no weights.
  void take_weights(std::span<const float> weights);
  /// Fills in the contents of these stored rows.
  virtual void fill(std::span<const Index> rows, HostBatch& batch) = 0;
  /// Entries of these stored rows; 0 for dense ones.
  virtual RowOffset entries_of(std::span<const Index> rows) const = 0;
  /// "stored row 3" for Indexed sets, where several examples may share it, else "example 3".
  std::string row_name(Index row) const;

  Role role_;

 private:
  void check_weights() const;
  /// Fills in everything of the batch but its contents, and rows_.
  void begin_batch(std::span<const Index> examples, HostBatch& batch);
  std::vector<std::uint32_t> index_;  // example -> stored row; empty: the same
  std::vector<float> weight_;         // by example; empty: 1
  std::vector<Index> rows_;           // stored rows of the batch that is being gathered
};

/// Stored rows of a batch in the order of the file, cut into runs that are read in one piece each.
/// Rows near to each other share a run, with the gap between them read in vain, because a read
/// costs far more than some elements.
struct ReadRun {
  Index begin = 0;            ///< first element
  Index end = 0;              ///< one past the last
  std::size_t first_row = 0;  ///< positions in `order` of the rows that lie in it
  std::size_t last_row = 0;
};

struct RowExtent {
  Index begin = 0;
  Index end = 0;
  std::size_t position = 0;  ///< in the batch
};

/// Sorts `rows` by their place in the file and returns the runs to read, none longer than
/// `longest` elements unless a single row is.
std::vector<ReadRun> plan_reads(std::vector<RowExtent>& rows, Index largest_gap, Index longest);

/// Makes a buffer large enough, with room to grow.
template <typename T>
void reserve(Buffer<T>& buffer, Index size) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4);
}

/// Throws DataError: a dense set is not put in another order.
[[noreturn]] void refuse_match(const DatasetInfo& info);

std::unique_ptr<Dataset> open_sparse_dataset(const DatasetInfo& info, Residency residency,
                                             Role role, std::shared_ptr<const UnitMatch> match);
std::unique_ptr<Dataset> open_dense_dataset(const DatasetInfo& info, Residency residency,
                                            Role role);

}  // namespace norn
