// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "norn/data/text_reader.h"
#include "norn/engine/data_binding.h"
#include "tools/common/console.h"
#include "tools/prediction/sparse_rows.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Where the predictor's requests come from: text or data sets, batch by batch.
namespace norn::tools {

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
  /// False after the last request. What the batch points to is valid until the next call.
  virtual bool next(RequestBatch& batch) = 0;
  /// One warning on everything that was left out.
  virtual void report(Console& console) const = 0;
};

/// Whether features of requests have values. Automatic: those of LibSVM text, as importer takes
/// them.
enum class RequestValues { automatic, yes, no };

/// What numbers of LibSVM text say: units, or labels of units.
enum class TextNumbers { units, labels };

/// The unit that a number of LibSVM text names. `index` is looked at for labels alone.
std::optional<Index> unit_of(Column number, TextNumbers numbers, const LabelIndex& index);

struct TextRequestSettings {
  std::filesystem::path file;
  TextFormat format = TextFormat::automatic;
  HeaderLine header = HeaderLine::automatic;
  Index skip_malformed = 0;
  RequestValues values = RequestValues::automatic;
  const LabelIndex* features = nullptr;      ///< of the input layer; null: the text has numbers
  const LabelIndex* seen_units = nullptr;    ///< labels of the output units, to tell the seen ones
  TextNumbers numbers = TextNumbers::units;  ///< for `features`
  TextNumbers seen_numbers = TextNumbers::units;  ///< for `seen_units`
  std::size_t layers = 0;                         ///< of the network
  int input_layer = 0;
  Index input_units = 0;
  Index batch = 1;
};
std::unique_ptr<RequestSource> make_text_requests(const TextRequestSettings& settings);

struct DatasetRequestSettings {
  const NetworkDescriptor* network = nullptr;
  std::vector<std::filesystem::path> files;
  std::int64_t memory_bytes = 0;
  bool tell_seen = false;
  Index output_units = 0;  ///< inputs of that width hold units that are seen
  int output_layer = 0;
  const ModelUnits* units = nullptr;
  Log log = {};
  Index batch = 1;
};
/// Labels are those in the file, or the examples' numbers.
class DatasetRequests final : public RequestSource {
 public:
  explicit DatasetRequests(const DatasetRequestSettings& settings);
  bool next(RequestBatch& batch) override;
  void report(Console&) const override {}
  std::vector<DatasetShape> shapes() const { return data_.shapes(); }
  Index examples() const { return data_.examples(); }

 private:
  void gather_seen(RequestBatch& batch) const;
  bool may_hold_seen(std::size_t layer) const;
  DatasetRequestSettings settings_;
  DataBinding data_;
  std::vector<std::string> labels_;
  BatchLoader loader_;
};

}  // namespace norn::tools
