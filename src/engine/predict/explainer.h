// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/explanation.h"
#include "src/engine/network/network.h"

#include <span>
#include <vector>

/// Why units have their scores: examples again, each without one of its entries.
namespace norn {

/// Throws UsageError where no input has entries that could be left out.
void require_entries(const NetworkDescriptor& network, const std::vector<DatasetShape>& shapes);

/// Scores of units of one output layer, with and without each entry of an example's sparse inputs.
/// The network runs on the changed examples, so an effect is exact, with InputWeighting,
/// normalisation and values as they are; what else an example has stays. A prediction does not
/// depend on its batch, threads or ranks, and so no effect does.
class Explainer {
 public:
  /// Scores that are gathered at once, but of one example and its units: no result depends on it.
  static constexpr Index kMostScores = Index(1) << 22;
  /// `most`: effects that are kept of each unit, at least 1.
  Explainer(Network& network, int output_layer, Index most, Index most_scores = kMostScores);
  /// `units` [examples x any number]: those of each example whose scores are explained, -1 for
  /// none. `batch` has all of its examples' inputs, and not a rank's part of them. Every rank calls
  /// it, and has the same. Of equal sizes the effect of the lower input and unit comes first.
  std::vector<Explanation> explain(const BoundBatch& batch, std::span<const Index> units);

 private:
  struct Entry {
    int input;
    Column unit;
  };
  /// An example without one of its entries, or whole.
  struct Row {
    Index example;
    Index entry;  // of the example; -1: it is whole
  };
  /// What explain() is at.
  struct Question {
    const BoundBatch& batch;
    std::span<const Index> units;
    Index asked;  // of each example
    std::vector<Explanation> answers;
    std::span<const Index> of(Index example) const {
      return units.subspan(std::size_t(example * asked), std::size_t(asked));
    }
  };
  void find_entries(const BoundBatch& batch);
  Index entries(Index example) const;
  const Entry& entry(Row row) const;
  void answer(Question& question, std::span<const Row> rows, std::span<const Index> units);
  void keep_largest(std::vector<EntryEffect>& effects) const;
  BoundBatch changed(const BoundBatch& batch, std::span<const Row> rows);
  void leave_out(const HostBatch& from, std::span<const Row> rows, int input, HostBatch& to) const;
  MatrixView<const float> scores(const BoundBatch& batch, std::span<const Index> units);

  Network& network_;
  int layer_;
  Index most_;
  Index most_scores_;
  std::vector<int> inputs_;       // layers
  std::vector<int> first_input_;  // by input, the first that reads the same data set
  std::vector<Entry> entries_;    // of all examples of a batch
  std::vector<Index> entry_begin_;
  std::vector<HostBatch> changed_;  // by input
  Buffer<float> gathered_;          // [B x units] on the device
  Buffer<float> host_;              // the same, where that is a GPU
};

}  // namespace norn
