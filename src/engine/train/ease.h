// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/engine/network/network.h"

#include <string>
#include <vector>

/// EASE, the linear autoencoder of items whose weights have a closed form (Steck, "Embarrassingly
/// Shallow Autoencoders for Sparse Data", WWW 2019). X [users x items] are the data: P = (X'X +
/// lambda I)^-1, and weight i -> j is -P_ij / P_jj, 0 on the diagonal.
namespace norn {

/// Throws UsageError, naming `where`, for a network that is not sparse inputs with weights to as
/// many linear outputs, and for a Lambda that is not above 0.
void require_ease(const NetworkDescriptor& network, const std::string& where);

/// What the computation takes of main memory beside the data and the network.
struct EaseMemory {
  std::int64_t gram_bytes = 0;     ///< [items x items] in float64
  std::int64_t entries_bytes = 0;  ///< of X by users and by items
};
EaseMemory ease_memory(Index items, RowOffset entries);
/// The most items of which Gram matrix, network and entries take no more than that.
Index most_ease_items(std::int64_t bytes, RowOffset entries, bool network_in_main_memory);

/// X by users and by items, without weights of examples.
class EaseData {
 public:
  /// Reads all examples. Throws DataError where an example's target is not what its input has, and
  /// where examples have weights.
  EaseData(Dataset& input, Dataset& target, Index items);
  /// X'X + lambda I: the lower triangle of `gram`. The same bits on any number of lanes.
  void gram(Executor& executor, double lambda, MatrixView<double> gram) const;
  Index items() const { return items_; }

 private:
  void add(const CsrView& rows);
  void transpose();
  Index items_ = 0;
  // Of users, then of items.
  std::vector<RowOffset> user_begin_ = {0}, item_begin_;
  std::vector<Column> item_, user_;
  std::vector<float> value_, by_item_;  // empty where all are 1
};

/// P [items x items], on the device where that inverts matrices of this size, else in main memory,
/// on `lanes`, which make the Gram matrix, too. Throws UsageError where lambda is too small for the
/// inverse in float64.
Matrix<double> ease_inverse(const EaseData& data, double lambda, Executor& lanes,
                            const Compute& compute);

/// Multiplications with additions a second of such an inverse of so many items, by one of no more
/// than 1024, or 4096 on a device: measures for a small part of a second.
double measure_ease_rate(Index items, Executor& lanes, const Compute& compute);

/// The weights of an edge between as many units, from P, which rank 0 has; the rows are multiplied
/// by `factors` [items], or by 1 where there are none. All ranks call it together.
void set_ease_weights(const Matrix<double>& inverse, const std::vector<double>& factors,
                      Executor& executor, Network& network, int edge);

}  // namespace norn
