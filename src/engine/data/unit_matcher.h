// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/memory_set.h"
#include "src/data/dataset.h"
#include "src/nn/descriptor.h"

#include <filesystem>
#include <memory>
#include <vector>

/// How data sets of any index of features enter a model.
namespace norn {

/// What the units of a model are, for data that enter it.
struct ModelUnits {
  std::vector<LabelTable> labels = {};  ///< by layer, as far as they are known
  /// By layer: labels of the features of data sets that have none themselves.
  std::vector<LabelTable> index_files = {};
  /// Unit u of the data is taken for unit u of the model, whatever labels say.
  bool trust_index = false;
  /// By layer, how many units data are expected to have; none, or 0: as many as the layer.
  std::vector<Index> widths = {};
};

/// Opens data sets as layers see them: features are matched with units by their labels, and what
/// the model does not have is left out and counted.
class UnitMatcher {
 public:
  /// `units` null: there is no model yet, and data sets are opened as they are. What it points to
  /// must outlive the matcher.
  UnitMatcher(const NetworkDescriptor& network, const ModelUnits* units)
      : network_(network), units_(units) {}

  /// Throws DataError where it cannot be told whether units mean the same: only one side has labels
  /// and the widths differ, or only checksums are there and differ; and for a set of which the
  /// model has no feature at all.
  std::unique_ptr<Dataset> open(const DatasetInfo& info, Residency residency, Role role, int layer);
  std::unique_ptr<Dataset> open(const MemorySet& set, Role role, int layer);
  /// Whether a set may be one of the layer's units: it is not wider, or shares labels.
  bool may_fit(const DatasetInfo& info, int layer);
  /// One warning for each file with features that the model does not have.
  void report(const Log& log) const;

 private:
  /// Sets of a file that have the same labels are matched once.
  struct Matched {
    std::filesystem::path file;  ///< empty: in memory
    std::string where;           ///< the file, or the set in memory
    LabelTable features;
    Index width = 0;
    std::shared_ptr<const UnitMatch> match;
    RowOffset entries = 0;  ///< of all sets that were opened
    RowOffset left_out = 0;
  };
  LabelTable labels_of(const DatasetInfo& info, int layer) const;
  LabelTable units_of(int layer) const;
  Index width_of(int layer) const;
  /// Null: units mean the same already.
  Matched* match(const DatasetInfo& info, int layer);
  /// match(), and whatever `opened` makes of it counted. Throws DataError when nothing matches.
  template <typename Opened>
  std::unique_ptr<Dataset> open_matched(const DatasetInfo& info, int layer, const Opened& opened);
  [[noreturn]] void refuse(const DatasetInfo& info, int layer) const;

  const NetworkDescriptor& network_;
  const ModelUnits* units_;
  std::vector<std::unique_ptr<Matched>> matched_;
};

}  // namespace norn
