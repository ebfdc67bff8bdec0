// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_table.h"
#include "src/tensor/buffer.h"

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Data sets: what a network reads and what it is asked for. NetCDF layout: docs/user/formats.md.
namespace norn {

/// Element types, in the numbers of the file format (`dataType`).
enum class ElementType : std::uint32_t {
  uint32 = 0,
  int32 = 1,
  int64 = 2,
  uint64 = 3,
  float32 = 4,
  float64 = 5,
  rgb8 = 6,
  rgb16 = 7,
  uint8 = 8,
  int8 = 9
};

/// What a data set is, without its contents.
struct DatasetInfo {
  std::string name;  ///< bound to a layer's "DataSet"
  std::filesystem::path file;
  int number = 0;  ///< suffix of its items in the file
  ElementType type = ElementType::uint32;
  std::uint32_t kind = 0;                   ///< 0 numeric, 1 image, 2 audio
  int dimensions = 1;                       ///< 1..3
  std::array<Index, 3> extent = {1, 1, 1};  ///< width, height, length
  bool sparse = false;
  bool boolean = false;
  bool sparse_ignore_zero = false;
  bool indexed = false;
  bool weighted = false;
  Index examples = 0;
  Index unique_examples = 0;  ///< rows stored
  RowOffset entries = 0;      ///< stored sparse entries
  Index empty_rows = 0;       ///< stored rows without entries; known once the set is open
  int label_set = -1;         ///< set of the file that holds this set's example labels; -1: none
  Index label_bytes = 0;      ///< length of all labels stored with this set
  bool own_units = false;     ///< its units are no other set's, though that may be as wide
  LabelTable unit_labels;     ///< of its units, where they are known: of the first ones
  /// Entries that were left out because a model does not have their features; known once the set
  /// is open.
  RowOffset left_out = 0;

  Index width() const { return extent[0] * extent[1] * extent[2]; }
  /// Batches are CSR: the set is sparse, or dense class labels (one entry a row).
  bool gives_sparse_batches() const { return sparse || boolean; }
  /// Whether unit u of both means the same thing, as far as can be told: entries of one may then be
  /// hidden from, or left out of, the other.
  bool shares_units_with(const DatasetInfo& other) const;
  double density() const;
};

/// `file: data set "name"`, without a file of a set in memory: how messages about a set begin.
std::string place(const DatasetInfo& info);

/// A data set's stored rows as batches hold them, in a device's memory: one of the two, by the kind
/// of the set.
struct StoredRows {
  CsrView sparse;
  MatrixView<const float> dense;
};

/// The examples of one step, or a part of them, in host memory: indexing, element type and order
/// are resolved.
struct HostBatch {
  Index examples = 0;
  Index first = 0;  ///< which example of the step the first one is: a part may be here
  Index width = 0;
  bool is_sparse = true;
  CsrBuffer sparse;            ///< columns ascend within a row
  Matrix<float> dense;         ///< capacity may exceed `examples` rows
  std::vector<float> weight;   ///< [examples], or empty when the set is not weighted
  std::vector<Index> example;  ///< their numbers in the data set
  /// Set: the contents are not here, but rows `row` of these, with `entries` entries in all.
  const StoredRows* stored = nullptr;
  std::vector<Index> row;
  RowOffset entries = 0;
  CsrView csr() const { return sparse.view(); }
  MatrixView<const float> matrix() const { return dense.first_rows(examples); }
};

/// Where a data set's contents are kept.
enum class Residency {
  memory,  ///< read whole when opened
  stream   ///< read batch by batch from the file
};

/// What a data set is opened for. Bytes are scaled differently (an unsigned byte x of a dense input
/// is x / 256 - 0.5, of a target x / 256), and a target may name a column only once in a row.
enum class Role { input, target };

/// One data set of a NetCDF file. Its contents are checked when they are read: column numbers in
/// range, values finite, offsets in order; a violation throws DataError naming file, set, example
/// and value.
class Dataset {
 public:
  virtual ~Dataset() = default;
  const DatasetInfo& info() const { return info_; }
  /// Fills `batch` with these examples, in this order. Only one thread at a time may call it.
  virtual void gather(std::span<const Index> examples, HostBatch& batch) = 0;
  /// Fills in everything but the contents, for those who hold them elsewhere: `row` and `entries`
  /// tell which they are.
  virtual void locate(std::span<const Index> examples, HostBatch& batch) = 0;
  /// Fills in the contents of stored rows [first, first + count), as gather() would, and nothing
  /// else.
  virtual void read_rows(Index first, Index count, HostBatch& batch) = 0;
  /// Entries of all stored rows together; those that two rows share count twice.
  virtual RowOffset row_entries() const = 0;

 protected:
  explicit Dataset(DatasetInfo info) : info_(std::move(info)) {}
  DatasetInfo info_;
};

/// The data sets that a file holds. Throws DataError for files that are missing, not NetCDF or not
/// data sets.
std::vector<DatasetInfo> list_datasets(const std::filesystem::path& file);

/// Opens a data set. With Residency::stream only its offsets, weights and index are read now, and
/// the file stays open. With a match the set enters a model with units of another order: it is what
/// the importer would have made of the same rows with the model's index of features. Throws
/// DataError for a dense set with a match.
std::unique_ptr<Dataset> open_dataset(const DatasetInfo& info, Residency residency, Role role,
                                      std::shared_ptr<const UnitMatch> match = nullptr);

/// The labels of a data set's examples, as the importer stored them; empty when there are none.
std::vector<std::string> read_example_labels(const DatasetInfo& info);

}  // namespace norn
