// SPDX-License-Identifier: Apache-2.0
// The best K outputs of every example: lanes gather their own lists, which are merged over lanes
// and ranks. The result does not depend on who saw which block, because a better score or a lower
// unit wins wherever two lists meet.
#include "norn/engine/predictor.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace norn {
namespace {

// A rank's lists as bytes: counts [B], scores [B x K], units [B x K].
std::vector<std::byte> pack(const TopK& best) {
  const auto counts = std::size_t(best.count.bytes());
  const auto scores = std::size_t(best.score.bytes());
  const auto units = std::size_t(best.unit.bytes());
  std::vector<std::byte> bytes(counts + scores + units);
  std::memcpy(bytes.data(), best.count.data(), counts);
  std::memcpy(bytes.data() + counts, best.score.view().data, scores);
  std::memcpy(bytes.data() + counts + scores, best.unit.view().data, units);
  return bytes;
}

void unpack(const std::vector<std::byte>& bytes, TopK& best) {
  const auto counts = std::size_t(best.count.bytes());
  const auto scores = std::size_t(best.score.bytes());
  const auto units = std::size_t(best.unit.bytes());
  require(bytes.size() == counts + scores + units, "Predictor: ranks differ in batch or K");
  std::memcpy(best.count.data(), bytes.data(), counts);
  std::memcpy(best.score.view().data, bytes.data() + counts, scores);
  std::memcpy(best.unit.view().data, bytes.data() + counts + scores, units);
}

// z(r, c) *= factor for the units of the block that row r lists; y is left as it was.
void scale(MatrixView<const float> y, const CsrView& factors, Range units, Buffer<float>& scratch,
           MatrixView<float>& scaled) {
  if (scratch.size() < y.size()) scratch = Buffer<float>(y.size());
  scaled = {scratch.data(), y.rows, y.cols, y.cols};
  for (Index r = 0; r < y.rows; ++r) {
    std::copy_n(y.row(r), y.cols, scaled.row(r));
    const Column* first = factors.column + factors.row_begin[r];
    const Column* last = factors.column + factors.row_begin[r + 1];
    for (const Column* at = std::lower_bound(first, last, Column(units.begin));
         at != last && Index(*at) < units.end; ++at)
      scaled(r, Index(*at) - units.begin) *= factors.value[at - factors.column];
  }
}

}  // namespace

Predictor::Predictor(Network& network, int output_layer, Index k, Index units)
    : network_(network), layer_(output_layer), k_(k), units_(units) {
  require(k >= 1, "Predictor: K must be at least 1");
  const Index width = network.descriptor().layers.at(std::size_t(output_layer)).units();
  require(units >= 0 && units <= width, "Predictor: more candidates than the layer has units");
  if (units_ == 0) units_ = width;
  k_ = std::min(k_, units_);
  const auto lanes = std::size_t(network.context().compute.executor.lanes());
  lanes_.resize(lanes);
  scaled_.resize(lanes);
}

const TopK& Predictor::predict(const BoundBatch& batch, const ScoreFilter& filter) {
  require(filter.excluded.rows == 0 || filter.excluded.rows == batch.examples,
          "Predictor: the excluded units must be none or one list an example");
  require(filter.factors.rows == 0 ||
              (filter.factors.rows == batch.examples && filter.factors.value != nullptr),
          "Predictor: the factors must be none or one list with values an example");
  require(filter.allowed.empty() || filter.allowed.size >= units_,
          "Predictor: the allowed units end before the layer does");
  SelectKernels& select = *network_.context().compute.kernels.select;
  for (TopK& lane : lanes_) select.begin(batch.examples, k_, lane);
  const Candidates candidates{filter.excluded, filter.allowed};
  network_.predict(batch, layer_, [&](Range units, MatrixView<const float> y, int lane) {
    const Index count = std::min(units.end, units_) - units.begin;
    if (count <= 0) return;
    y = y.columns(0, count);
    MatrixView<float> scaled;
    if (filter.factors.rows > 0) {
      scale(y, filter.factors, {units.begin, units.begin + count}, scaled_[std::size_t(lane)],
            scaled);
      y = scaled;
    }
    select.merge(y, units.begin, candidates, lanes_[std::size_t(lane)]);
  });
  for (std::size_t lane = 1; lane < lanes_.size(); ++lane) select.merge(lanes_[lane], lanes_[0]);
  merge_ranks(batch.examples);
  return lanes_[0];
}

void Predictor::merge_ranks(Index examples) {
  Communicator& communicator = network_.context().communicator;
  if (communicator.size() == 1) return;
  SelectKernels& select = *network_.context().compute.kernels.select;
  const std::vector<std::byte> mine = pack(lanes_[0]);
  const auto all = communicator.gather_to_all(mine);
  TopK other;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (int(rank) == communicator.rank()) continue;
    select.begin(examples, k_, other);
    unpack(all[rank], other);
    select.merge(other, lanes_[0]);
  }
}

}  // namespace norn
