// SPDX-License-Identifier: Apache-2.0
// Blocks of output layers whose product, cost and delta are one kernel, several at a time.
#include "src/step/block_group.h"
#include "src/step/ops/output.h"

#include <optional>

namespace norn::step {
namespace {

// The deltas of some blocks, and the gradient of their biases: nothing where the device says no.
std::optional<DenseOperand> fused_delta(State& state, int layer, const TargetView& target,
                                        Range units, double* cost) {
  UnitLayer& unit = *state.units[layer];
  Workspace& workspace = state.workspace[0];
  const Index examples = state.examples();
  const Index width = units.count();
  const Index most = units_at_once(unit.partition(), state.facts.batch());
  OutputBlock block = output_block(state, layer, target, units);
  if (auto& runs = state.room<OutputRoom>(layer).target_runs; runs && target.is_sparse)
    block.target_runs = runs->find(state.compute(), units);
  if (workspace.transposed.empty()) {
    block.delta = {nullptr, examples, width, width};
    block.bf16_delta = {workspace.delta.view().data, examples, width, bf16_stride(most)};
  } else {
    const Index depth = round_up_to_eight(examples);
    block.delta = {workspace.z.view().data, examples, width, round_up_to_eight(most)};
    block.transposed_delta = {workspace.transposed.view().data, width, depth, depth};
  }
  block.cost = cost;
  if (width > unit.partition().block_width()) block.block_width = unit.partition().block_width();
  block.bias_gradient = unit.bias_gradient(units);
  block.bias_scale = state.gradient_scale();
  if (!state.kernels().fused->output_delta(block)) return std::nullopt;
  DenseOperand delta(MatrixView<const float>(block.delta), block.bf16_delta);
  delta.transposed = block.transposed_delta;
  if (block.bf16_delta.data) delta.zero_cols = round_up_to_eight(width) - width;
  return delta;
}

}  // namespace

// Returns how many of the first blocks it took.
Index OutputBlocks::run_fused(State& state, const TargetView& target) const {
  const BlockPartition& partition = state.facts.partition(layer);
  const Range blocks = state.facts.own_blocks(layer);
  const Index most = blocks_at_once(partition, state.facts.batch());
  double* costs = state.outcome().costs(layer).data();
  for (Index b = 0; b < blocks.count(); b += most) {
    const Index last = std::min(b + most, blocks.count()) - 1;
    const Range units{partition.units(blocks.begin + b).begin,
                      partition.units(blocks.begin + last).end};
    state.stage("output forward");
    const auto delta = fused_delta(state, layer, target, units, costs + b);
    if (!delta) return b;
    run_backward(state, layer, edges, units, *delta, 0, last + 1 == blocks.count());
  }
  return blocks.count();
}

}  // namespace norn::step
