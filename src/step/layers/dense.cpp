// SPDX-License-Identifier: Apache-2.0
// The arrays of input and output layers.
#include "src/step/layers/dense.h"

#include "src/step/block_group.h"

namespace norn::step {

InputRoom::InputRoom(const StepFacts& facts, int layer) {
  const LayerDescriptor& descriptor = facts.layer(layer);
  if (weights_features(descriptor.input_weighting))
    feature_weights = {"weights of features", Purpose::working, descriptor.units(), 1,
                       Layout::whole};
}

OutputRoom::OutputRoom(const StepFacts& facts, int layer) {
  using enum Purpose;
  const Index batch = facts.batch();
  if (facts.may_fuse_delta(layer)) {
    target_runs.emplace(facts.mine(layer), facts.partition(layer).block_width(), batch);
    if (facts.sparse_input(layer)) {
      target_places.declared = {"places of stored targets", working,
                                target_runs->planned_numbers()};
      target_places.declared.element = element_name<int>();
    }
  }
  if (facts.is_softmax(layer)) {
    const char* rows = "sums of SoftMax rows";
    const Index blocks = facts.own_blocks(layer).count();
    block_maximum = {rows, working, blocks, batch};
    block_sum = {rows, working, blocks, batch};
    if (facts.ranks() > 1) rank_maximum = {rows, working, facts.ranks(), batch, Layout::whole};
    maximum = {rows, working, batch, 1, Layout::whole};
    total = {rows, working, batch, 1, Layout::whole};
    coupling = {rows, working, batch, 1, Layout::whole};
  }
  if (facts.keeps_z(layer))
    kept_z = {"pre-activations", working,
              kept_columns(facts.partition(layer), facts.own_blocks(layer).count(),
                           facts.units(layer), facts.training()),
              batch};
}

}  // namespace norn::step
