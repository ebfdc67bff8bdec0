// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"

#include <cstdint>
#include <vector>

/// The best K outputs of every example.
namespace norn {

/// What is left out of, or changed in, the scores of one batch.
struct ScoreFilter {
  CsrView excluded;  ///< rows [B], columns ascending: never chosen; rows 0: none
  CsrView factors;   ///< rows [B] with values: scores are multiplied by them; rows 0: none
  VectorView<const std::uint8_t> allowed;  ///< [width] 1 where allowed, or empty for all
};

/// Chooses the best K units of one output layer. Exact for every K; ties by lowest unit; the same
/// on any number of ranks. Where the device can, the scores of wide layers are compared inside the
/// product that makes them; they are written, block by block, for batches where that is not certain
/// to find the best, as when many scores are equal.
class Predictor {
 public:
  /// `units`: only units below this are candidates (a model trained on padded data has more); 0:
  /// all. A `k` beyond them is taken as all of them.
  Predictor(Network& network, int output_layer, Index k, Index units = 0);
  /// The best units of every example of the batch, on every rank. Valid until the next call. A list
  /// is shorter than K when there are fewer candidates.
  const TopK& predict(const BoundBatch& batch, const ScoreFilter& filter) {
    return predict(batch, filter, nullptr);
  }
  /// The same, and Network::cost() of the batch, in one pass over the network where scores are
  /// written.
  const TopK& predict_with_cost(const BoundBatch& batch, const ScoreFilter& filter,
                                FixedSum& cost) {
    return predict(batch, filter, &cost);
  }
  /// How many units a search inside the product looks for, so that the best K are certain.
  static Index searched_units(Index k);
  /// Whether the last call wrote its scores.
  bool wrote_scores() const { return wrote_scores_; }

 private:
  /// The rows of a filter on the device.
  struct RowsCopy {
    Buffer<RowOffset> row_begin;
    Buffer<Column> column;
    Buffer<float> value;
  };
  bool find_best(const BoundBatch& batch, const ScoreFilter& where);
  const TopK& predict(const BoundBatch& batch, const ScoreFilter& filter, FixedSum* cost);
  void merge_blocks(const BoundBatch& batch, const ScoreFilter& where, FixedSum* cost);
  ScoreFilter on_device(const ScoreFilter& filter);
  const TopK& read_best(Index examples);
  void merge_ranks(TopK& list, Index k, Index examples);
  Network& network_;
  int layer_;
  Index k_;
  Index units_;
  std::vector<TopK> lanes_;
  std::vector<Buffer<float>> scaled_;  // by lane: scores of a block after the factors
  RowsCopy excluded_;
  RowsCopy factors_;
  Buffer<std::uint8_t> allowed_;
  TopK host_best_;     // of lanes_[0], where that is on a GPU
  TopK other_;         // another rank's lists
  TopK found_;         // longer lists, of a search inside the product
  Index found_k_ = 0;  // their length; 0: there is no such search
  Buffer<std::int64_t> gave_up_;
  int times_given_up_ = 0;
  bool wrote_scores_ = true;
};

}  // namespace norn
