// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/memory_set.h"
#include "src/data/batch_loader.h"
#include "src/data/hold_out.h"
#include "src/engine/data/unit_matcher.h"
#include "src/engine/network/network.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Which data set feeds which layer.
namespace norn {

/// Where data sets are to be found and how they are to be held.
struct DataSources {
  std::vector<std::filesystem::path>
      input_files;  ///< sets of input layers are looked for here first
  std::vector<std::filesystem::path>
      output_files;  ///< sets of output layers are looked for here first
  /// Sets whose contents would take more than this are streamed from their files. The results do
  /// not depend on it.
  std::int64_t memory_bytes = std::int64_t(8) << 30;
  std::string where = {};  ///< names the descriptor in messages
  /// Of the model that the data enter; null: a new one. Read by the constructor only.
  const ModelUnits* units = nullptr;
  Log log = {};  ///< says which features the model does not have
  /// Sets in memory, for layers of both sides. They win over sets of files that have their names.
  std::vector<MemorySet> sets = {};
  /// Sets with features of units: no pair that one is of is meant by "DataSet": "auto".
  std::vector<std::string> features = {};
};

struct ValidationData;

/// Examples pair by position: throws DataError naming the first that has another label in one of
/// the sets than in another. Sets without labels are taken as they stand.
void require_same_examples(std::span<const DatasetInfo* const> sets);

/// The data sets of a network's input and output layers, opened, checked against each other and
/// bound by name.
class DataBinding {
 public:
  enum class Layers { inputs_only, inputs_and_outputs };

  /// Throws DataError when a set is missing (naming the sets that there are), when sets have
  /// different numbers of examples (naming both) or labels of examples that differ (naming the
  /// first), and UsageError when a layer that needs a data set names none.
  DataBinding(const NetworkDescriptor& network, const DataSources& sources, Layers layers);

  /// For make_graph and Network.
  std::vector<DatasetShape> shapes() const;
  Index examples() const { return examples_; }
  /// Copies the contents of sets to a GPU's memory, once and for all: their batches name rows from
  /// then on. Those that `network` augments stay, and so do their targets of the same name. No
  /// BatchLoader may be reading them.
  void move_to(Memory& memory, const NetworkDescriptor& network);
  /// What training does to its batches before they are bound: images of Input layers with Augment
  /// are moved and mirrored. Empty: nothing.
  BatchChange augmentation(const Graph& graph) const;
  /// Takes out a part to validate with, and leaves the rest to train on. `layer`: the output layer
  /// whose targets are to be found. Before move_to(); of the two parts only one at a time may be
  /// read. Throws UsageError when there is nothing that could be held back.
  ValidationData hold_out(const NetworkDescriptor& network, const HoldOutRule& rule, int layer);
  /// By layer, the labels of its units: those of the model where it has some, else those of the
  /// data.
  const std::vector<LabelTable>& unit_labels() const { return unit_labels_; }
  /// For other data that are to have the same units.
  ModelUnits units(bool trust_index) const;
  /// Bytes of main memory that the contents take; 0 when they are streamed.
  std::int64_t held_bytes() const { return held_bytes_; }
  /// What a BatchLoader reads, in its order; for `network`, of images that only layers by example
  /// look at, the rank's own.
  std::vector<Dataset*> sets() const;
  std::vector<BatchSource> sources() const;
  std::vector<BatchSource> sources_for(const Network& network) const;
  /// The data set of a layer that has one.
  Dataset& set_of(int layer) const;
  /// The layers' view of a loaded batch. `layers` is the number of layers of the network.
  BoundBatch bind(const LoadedBatch& batch) const;
  /// Example labels of the first input set that has them; empty when none has.
  std::vector<std::string> example_labels() const;

 private:
  struct BoundSet {
    int layer = 0;
    std::shared_ptr<Dataset> set;
  };
  DataBinding() = default;
  void warn_of_other_indexes(const NetworkDescriptor& network, const Log& log) const;
  std::vector<BoundSet> bound_;
  std::size_t layers_ = 0;
  std::vector<LabelTable> unit_labels_;  // by layer
  Index examples_ = 0;
  std::int64_t held_bytes_ = 0;
};

/// What a network is validated with.
struct ValidationData {
  std::unique_ptr<DataBinding> data;           ///< null: nothing
  std::vector<std::unique_ptr<Dataset>> seen;  ///< more sets of units that nobody looks for
  /// Whether what is to be found are the targets without what was seen, or all targets.
  bool unseen_only = false;
};

}  // namespace norn
