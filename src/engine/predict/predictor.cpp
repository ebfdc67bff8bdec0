// SPDX-License-Identifier: Apache-2.0
// The best K outputs of every example: lanes gather their own lists, which are merged over lanes
// and ranks. The result does not depend on who saw which block, because a better score or a lower
// unit wins wherever two lists meet.
#include "src/engine/predict/predictor.h"

#include "norn/base/error.h"
#include "src/step/upload.h"

#include <algorithm>

namespace norn {
namespace {

// A rank's lists as bytes: counts [B], scores [B x K], units [B x K].
std::vector<std::byte> pack(const Memory& memory, TopK& best) {
  const auto counts = std::size_t(best.count.bytes());
  const auto scores = std::size_t(best.score.bytes());
  const auto units = std::size_t(best.unit.bytes());
  std::vector<std::byte> bytes(counts + scores + units);
  memory.read(best.count.data(), bytes.data(), counts);
  memory.read(best.score.view().data, bytes.data() + counts, scores);
  memory.read(best.unit.view().data, bytes.data() + counts + scores, units);
  return bytes;
}

void unpack(Memory& memory, const std::vector<std::byte>& bytes, TopK& best) {
  const auto counts = std::size_t(best.count.bytes());
  const auto scores = std::size_t(best.score.bytes());
  const auto units = std::size_t(best.unit.bytes());
  require(bytes.size() == counts + scores + units, "Predictor: ranks differ in batch or K");
  memory.write(best.count.data(), bytes.data(), counts);
  memory.write(best.score.view().data, bytes.data() + counts, scores);
  memory.write(best.unit.view().data, bytes.data() + counts + scores, units);
}

// A model whose scores defy the search is not searched any more after so many batches.
constexpr int kMostAttempts = 4;

// Of rows in main memory.
bool has_entries(const CsrView& rows) {
  return rows.rows > 0 && rows.row_begin[rows.rows] > rows.row_begin[0];
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
  const Index longer = std::min(searched_units(k_), units_);
  if (network.context().communicator.any(!network.finds_best(layer_, units_, longer))) return;
  found_k_ = longer;
  gave_up_ = Buffer<std::int64_t>(1, network.context().compute.memory);
}

// Enough for the last score to lead those that were left out by more than rounding.
Index Predictor::searched_units(Index k) {
  return k + std::max<Index>(16, k / 8);
}

const TopK& Predictor::predict(const BoundBatch& batch, const ScoreFilter& filter, FixedSum* cost) {
  require(filter.excluded.rows == 0 || filter.excluded.rows == batch.examples,
          "Predictor: the excluded units must be none or one list an example");
  const bool scales = has_entries(filter.factors);
  require(filter.factors.rows == 0 || (filter.factors.rows == batch.examples &&
                                       (!scales || filter.factors.value != nullptr)),
          "Predictor: the factors must be none or one list with values an example");
  require(filter.allowed.empty() || filter.allowed.size >= units_,
          "Predictor: the allowed units end before the layer does");
  ScoreFilter given = filter;
  if (!scales) given.factors = {};  // nobody is listed: no score changes
  const ScoreFilter where = on_device(given);
  wrote_scores_ = !find_best(batch, where);
  if (!wrote_scores_) {
    if (cost) *cost = network_.cost(batch);
    return host_best_;
  }
  merge_blocks(batch, where, cost);
  merge_ranks(lanes_[0], k_, batch.examples);
  if (!network_.context().compute.memory.is_host()) return read_best(batch.examples);
  return lanes_[0];
}

// The search inside the product: false where there is none, or it is not certain.
bool Predictor::find_best(const BoundBatch& batch, const ScoreFilter& where) {
  if (found_k_ == 0 || where.factors.rows > 0 || times_given_up_ == kMostAttempts) return false;
  SelectKernels& select = *network_.context().compute.kernels.select;
  select.begin(batch.examples, found_k_, found_);
  select.begin(batch.examples, k_, lanes_[0]);
  const Candidates candidates{where.excluded, where.allowed};
  const Network::BestSearch search{units_, candidates, found_, gave_up_};
  network_.find_best(batch, layer_, search);
  merge_ranks(found_, found_k_, batch.examples);
  network_.score_best(layer_, search, lanes_[0]);
  std::int64_t word = 1;
  gave_up_.read(&word, 1);
  const bool gave_up = network_.context().communicator.any(word != 0);
  times_given_up_ = gave_up ? times_given_up_ + 1 : 0;
  if (!gave_up) read_best(batch.examples);
  return !gave_up;
}

// Scores are written block by block and merged into the lists.
void Predictor::merge_blocks(const BoundBatch& batch, const ScoreFilter& where, FixedSum* cost) {
  const Compute& compute = network_.context().compute;
  SelectKernels& select = *compute.kernels.select;
  for (TopK& lane : lanes_) select.begin(batch.examples, k_, lane);
  const Candidates candidates{where.excluded, where.allowed};
  const Network::BlockVisitor visit = [&](Range units, MatrixView<const float> y, int lane) {
    const Index count = std::min(units.end, units_) - units.begin;
    if (count <= 0) return;
    y = y.columns(0, count);
    MatrixView<float> scaled;
    if (where.factors.rows > 0) {
      Buffer<float>& workspace = scaled_[std::size_t(lane)];
      if (workspace.size() < y.size()) workspace = Buffer<float>(y.size(), compute.memory);
      scaled = {workspace.data(), y.rows, y.cols, y.cols};
      compute.kernels.pointwise->copy(y, scaled);
      select.multiply(where.factors, units.begin, scaled);
      y = scaled;
    }
    select.merge(y, units.begin, candidates, lanes_[std::size_t(lane)]);
  };
  if (cost)
    *cost = network_.predict_with_cost(batch, layer_, visit);
  else
    network_.predict(batch, layer_, visit);
  for (std::size_t lane = 1; lane < lanes_.size(); ++lane) select.merge(lanes_[lane], lanes_[0]);
}

// What the filter says, where the kernels can read it.
ScoreFilter Predictor::on_device(const ScoreFilter& filter) {
  const Context& context = network_.context();
  if (context.compute.memory.is_host()) return filter;
  ScoreFilter device = filter;
  const auto copy = [&](CsrView& rows, RowsCopy& to) {
    if (rows.rows == 0) return;
    const Index entries = Index(rows.row_begin[rows.rows]);
    rows.row_begin = upload(context, rows.row_begin, rows.rows + 1, to.row_begin);
    rows.column = upload(context, rows.column, entries, to.column);
    if (rows.value) rows.value = upload(context, rows.value, entries, to.value);
    rows.entry_limit = entries;
  };
  copy(device.excluded, excluded_);
  copy(device.factors, factors_);
  if (!filter.allowed.empty())
    device.allowed.data = upload(context, filter.allowed.data, filter.allowed.size, allowed_);
  return device;
}

const TopK& Predictor::read_best(Index examples) {
  TopK& best = lanes_[0];
  if (host_best_.k != k_ || host_best_.count.size() != examples) {
    host_best_.score = Matrix<float>(examples, k_);
    host_best_.unit = Matrix<Index>(examples, k_);
    host_best_.count = Buffer<Index>(examples);
    host_best_.k = k_;
  }
  Memory& memory = network_.context().compute.memory;
  memory.read(best.score.view().data, host_best_.score.view().data,
              std::size_t(best.score.bytes()));
  memory.read(best.unit.view().data, host_best_.unit.view().data, std::size_t(best.unit.bytes()));
  memory.read(best.count.data(), host_best_.count.data(), std::size_t(best.count.bytes()));
  return host_best_;
}

// The lists of all ranks become one, the same on each.
void Predictor::merge_ranks(TopK& list, Index k, Index examples) {
  const Context& context = network_.context();
  if (context.communicator.size() == 1) return;
  context.collectives->wait_for_all(*context.compute.kernels.queue);
  Memory& memory = context.compute.memory;
  SelectKernels& select = *context.compute.kernels.select;
  const auto all = context.communicator.gather_to_all(pack(memory, list));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (int(rank) == context.communicator.rank()) continue;
    select.begin(examples, k, other_);
    unpack(memory, all[rank], other_);
    select.merge(other_, list);
  }
}

}  // namespace norn
