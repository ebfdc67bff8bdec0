// SPDX-License-Identifier: Apache-2.0
// Rows of SoftMax output layers.
#include "src/step/ops/softmax_rows.h"

#include "src/step/block_group.h"
#include "src/step/costs.h"
#include "src/step/ops/output.h"

#include <cmath>

namespace norn::step {
namespace {

// The largest pre-activation of every row, of all ranks: each gives its own, and takes the largest.
void reduce_maxima(State& state, OutputRoom& output, VectorView<float> maximum) {
  Collectives& collectives = state.collectives();
  const Index ranks = collectives.size();
  if (ranks == 1) return;
  const MatrixView<float> all{output.rank_maximum.view().data, ranks, maximum.size,
                              state.facts.batch()};
  std::vector<Range> rows;
  for (Index r = 0; r < ranks; ++r) rows.push_back({r, r + 1});
  state.kernels().pointwise->copy({maximum.data, 1, maximum.size, maximum.size},
                                  all.row_range(collectives.rank(), 1));
  collectives.all_gather_rows(all, rows);
  state.kernels().cost->softmax_maximum(all, maximum);
}

// Maximum and sum of every row of each own block, where the product that makes them is one kernel
// with it: false where it is not.
bool fused_statistics(State& state, int layer, MatrixView<float> maxima, MatrixView<float> sums) {
  const BlockPartition& partition = state.facts.partition(layer);
  const Range blocks = state.facts.own_blocks(layer);
  const TargetView target = target_view(state, layer);
  const Index most = blocks_of_statistics(partition, state.facts.batch());
  for (Index b = 0; b < blocks.count(); b += most) {
    const Index count = std::min(most, blocks.count() - b);
    const Range units{partition.units(blocks.begin + b).begin,
                      partition.units(blocks.begin + b + count - 1).end};
    OutputBlock block = output_block(state, layer, target, units);
    if (count > 1) block.block_width = partition.block_width();
    if (!state.kernels().fused->softmax_statistics(block, maxima.row_range(b, count),
                                                   sums.row_range(b, count)))
      return false;
  }
  return true;
}

}  // namespace

void ReduceSoftMaxRows::find_statistics(State& state, MatrixView<float> maxima,
                                        MatrixView<float> sums) const {
  if (fuses && fused_statistics(state, layer, maxima, sums)) return;
  for_own_blocks(state, layer, [&](Index b, Range units, int lane) {
    const MatrixView<float> z = block_z(state, layer, units, lane);
    pre_activation(state, layer, units, z, "softmax rows");
    state.kernels().cost->softmax_statistics(z, {maxima.row(b), maxima.cols},
                                             {sums.row(b), sums.cols});
  });
}

void ReduceSoftMaxRows::run(State& state) const {
  OutputRoom& output = state.room<OutputRoom>(layer);
  CostKernels& kernels = *state.kernels().cost;
  const Index blocks = state.facts.own_blocks(layer).count();
  const Index examples = state.examples();
  const Index batch = state.facts.batch();
  state.stage("softmax rows");
  const MatrixView<float> maxima{output.block_maximum.view().data, blocks, examples, batch};
  const MatrixView<float> sums{output.block_sum.view().data, blocks, examples, batch};
  find_statistics(state, maxima, sums);
  if (!state.is_alone()) state.stage("sum SoftMax rows");
  const VectorView<float> maximum = output.maximum.view().range(0, examples);
  kernels.softmax_maximum(maxima, maximum);
  reduce_maxima(state, output, maximum);
  output.total.fill_zero();
  kernels.softmax_total(maxima, sums, maximum, output.total.view().range(0, examples),
                        out_of_range(state, layer));
  state.collectives().all_reduce_sum({output.total.data(), std::size_t(examples)});
  if (has_targets) find_coupling(state);
}

void ReduceSoftMaxRows::find_coupling(State& state) const {
  OutputRoom& output = state.room<OutputRoom>(layer);
  CostKernels& kernels = *state.kernels().cost;
  const TargetView target = target_view(state, layer);
  const SoftMaxCost cost = softmax_cost(state.network());
  const SoftMaxRows rows = output.rows(state.examples());
  const VectorView<std::int64_t> coupling = output.coupling.view().range(0, state.examples());
  std::int64_t* flag = out_of_range(state, layer);
  output.coupling.fill_zero();
  if (CostKernels::coupling_from_targets(cost)) {
    kernels.softmax_coupling(cost, target, coupling, flag);
    if (fuses) state.kernels().fused->softmax_rows(cost, target, rows);
    return;
  }
  state.stage("softmax rows");
  for_own_blocks(state, layer, [&](Index, Range units, int lane) {
    const MatrixView<float> z = block_z(state, layer, units, lane);
    if (output.kept_z.empty()) pre_activation(state, layer, units, z, "softmax rows");
    kernels.softmax_coupling(cost, target, units.begin, z, rows, coupling, flag);
  });
  if (!state.is_alone()) state.stage("sum SoftMax rows");
  state.collectives().all_reduce_sum({coupling.data, std::size_t(coupling.size)});
}

void ReduceSoftMaxRows::work(const StepFacts& facts, WorkList& list) const {
  if (fuses) {
    const Index at_once = blocks_of_statistics(facts.partition(layer), facts.batch());
    list.loss_product("softmax rows", layer, std::ceil(list.calls_for(layer) / double(at_once)));
    return;
  }
  list.pre_activations("softmax rows", layer);
  list.pass("softmax rows", 2.0 * list.rows_of(layer) * kFloat, list.calls_for(layer));
}

void ReduceSoftMaxRows::traffic(const StepFacts& facts, TrafficList& list) const {
  const double rows = double(facts.batch());
  const double maxima = double(facts.ranks()) * rows * kFloat;
  const bool once = CostKernels::coupling_from_targets(softmax_cost(facts.graph().network));
  list.add({"sum SoftMax rows", CollectivePlan::Kind::all_gather, maxima, maxima});
  list.all_reduce("sum SoftMax rows", rows * kWord, once ? 1 : 2);
}

void ReduceSoftMaxRows::tensors(TensorUses& uses) const {
  uses.reads_sources(layer);
  uses.writes_all(uses.tensors.room<OutputRoom>(layer));
  uses.updates_flags();
  for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z);
}

}  // namespace norn::step
