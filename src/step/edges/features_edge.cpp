// SPDX-License-Identifier: Apache-2.0
#include "src/step/edges/features_edge.h"

#include "src/nn/feature_table.h"
#include "src/step/state.h"

namespace norn::step {
namespace {

const FeatureTable& table_of(const StepFacts& facts, const UnitEdge& edge) {
  const auto& table = facts.layer(edge.edge.destination).feature_table;
  require(table != nullptr, "Network: a layer without its features; make_graph() refuses it");
  return *table;
}

/// The entries of one block by feature.
struct ByFeature {
  std::vector<RowOffset> begin;
  std::vector<Column> unit;
  std::vector<float> value;

  void add_block(const FeatureTable& table, Range units) {
    const auto features = std::size_t(table.features);
    const RowOffset first = table.before(units.begin), end = table.before(units.end);
    std::vector<RowOffset> next(features + 1, 0);
    for (RowOffset i = first; i < end; ++i) next[table.column[std::size_t(i)] + 1] += 1;
    next[0] = RowOffset(unit.size());
    for (std::size_t f = 0; f < features; ++f) next[f + 1] += next[f];
    begin.insert(begin.end(), next.begin(), next.end());
    unit.resize(std::size_t(next[features]));
    if (!table.value.empty()) value.resize(unit.size());
    for (Index u = units.begin; u < units.end; ++u)
      for (RowOffset i = table.before(u); i < table.before(u + 1); ++i) {
        const auto to = std::size_t(next[table.column[std::size_t(i)]]++);
        unit[to] = Column(u - units.begin);
        if (!value.empty()) value[to] = table.value[std::size_t(i)];
      }
  }
};

}  // namespace

double FeaturesEdge::flops(const StepFacts& facts, int edge) {
  const int layer = facts.edge(edge).destination;
  const FeatureTable& table = *facts.layer(layer).feature_table;
  const Range mine = facts.mine(layer);
  return 2.0 * double(table.before(mine.end) - table.before(mine.begin));
}

FeaturesEdge::FeaturesEdge(const StepFacts& facts, const UnitEdge& edge) {
  constexpr auto kParameter = Purpose::parameter;
  const int layer = edge.edge.destination;
  const FeatureTable& table = table_of(facts, edge);
  const Range mine = facts.mine(layer);
  const char* use = "features of units";
  entries_ = table.before(mine.end) - table.before(mine.begin);
  const Index values = table.value.empty() ? 0 : entries_;
  row_begin = {use, kParameter, mine.count() + 1};
  column = {use, kParameter, entries_};
  value = {use, kParameter, values};
  if (!facts.training()) return;
  feature_begin = {use, kParameter, facts.own_blocks(layer).count() * (table.features + 1)};
  unit = {use, kParameter, entries_};
  unit_value = {use, kParameter, values};
}

void FeaturesEdge::fill(const StepFacts& facts, const UnitEdge& edge) {
  const int layer = edge.edge.destination;
  const FeatureTable& table = table_of(facts, edge);
  const Range mine = facts.mine(layer);
  const auto first = std::size_t(table.before(mine.begin));
  std::vector<RowOffset> begin;
  for (Index u = mine.begin; u <= mine.end; ++u)
    begin.push_back(table.before(u) - RowOffset(first));
  row_begin.write(begin.data(), row_begin.size());
  column.write(table.column.data() + first, column.size());
  value.write(table.value.data() + (table.value.empty() ? 0 : first), value.size());
  if (!facts.training()) return;
  ByFeature by_feature;
  const Range blocks = facts.own_blocks(layer);
  for (Index b = blocks.begin; b < blocks.end; ++b)
    by_feature.add_block(table, facts.partition(layer).units(b));
  feature_begin.write(by_feature.begin.data(), feature_begin.size());
  unit.write(by_feature.unit.data(), unit.size());
  unit_value.write(by_feature.value.data(), unit_value.size());
}

void FeaturesEdge::forward(State& state, const UnitEdge& edge, Range units,
                           MatrixView<const float> x, MatrixView<float> z) {
  const Index first = units.begin - state.facts.mine(edge.edge.destination).begin;
  const CsrView rows{row_begin.data() + first,
                     column.data(),
                     value.empty() ? nullptr : value.data(),
                     units.count(),
                     x.cols,
                     entries_};
  state.kernels().sparse->multiply_by_rows(x, rows, Existing::add, z);
}

void FeaturesEdge::backward(State& state, const UnitEdge& edge, Range units,
                            MatrixView<const float> x, MatrixView<const float> delta, int lane) {
  const int layer = edge.edge.destination;
  const Index width = state.facts.partition(layer).block_width();
  const Index block = units.begin / width - state.facts.own_blocks(layer).begin;
  require(units.begin % width == 0 && units.count() <= width,
          "FeaturesEdge: deltas come block by block");
  UnitLayer& source = *state.units[edge.edge.source];
  const CsrView rows{feature_begin.data() + block * (x.cols + 1),
                     unit.data(),
                     unit_value.empty() ? nullptr : unit_value.data(),
                     x.cols,
                     units.count(),
                     entries_};
  state.stage(kBackwardStage);
  MatrixView<float> dx = source.delta_sum.next_slot(state.compute());
  if (dx.data == nullptr)
    dx = {state.workspace[std::size_t(lane)].dx.view().data, delta.rows, x.cols, x.cols};
  state.kernels().sparse->multiply_by_rows(delta, rows, Existing::overwrite, dx);
  state.stage("fixed point");
  source.delta_sum.add(state.compute(), 0, dx);
}

}  // namespace norn::step
