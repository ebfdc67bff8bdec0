// SPDX-License-Identifier: Apache-2.0
// Prediction: outputs block by block, activations of hidden layers.
#include "norn/base/error.h"
#include "src/engine/network/network_parts.h"
#include "src/step/layers/factored.h"

#include <fmt/format.h>

namespace norn {

void Network::Parts::pass(const step::Program& program, const BoundBatch& batch,
                          const BlockVisitor* visit, bool with_targets) {
  step::forget_progress(state);
  state.now = {&batch, batch.examples, Pass::prediction, StepPosition{}, visit};
  state.load(with_targets);
  compute().kernels.queue->run([&] { step::run(program, state); });
}

void Network::predict(const BoundBatch& batch, int output_layer, const BlockVisitor& visit) {
  const UnitLayer* layer = unit_layer(output_layer);
  require(layer != nullptr && layer->is_output(),
          "Network::predict: the layer is no Output layer of this network");
  parts_->require_planned(batch, "predict");
  parts_->pass(step::compile_outputs(parts_->facts, output_layer), batch, &visit);
  require_sums_in_range();
}

// A sum without the terms that were out of range must not pass for a prediction, on any rank.
void Network::require_sums_in_range() {
  const Buffer<SumFlags>& of_sums = parts_->state.prediction_flags;
  if (of_sums.empty()) return;
  std::vector<SumFlags> flags(std::size_t(of_sums.size()));
  context().collectives->wait_for_all(*context().compute.kernels.queue);
  of_sums.read(flags.data(), of_sums.size());
  std::vector<std::int64_t> out_of_range;
  for (const SumFlags& of_sum : flags) out_of_range.push_back(of_sum.out_of_range);
  context().communicator.all_reduce_sum(out_of_range);
  const StepFacts& facts = parts_->facts;
  for (int layer : order())
    if (facts.sums_over_sources(layer) &&
        out_of_range[std::size_t(facts.outcome().source_sum(layer))] != 0)
      throw DivergenceError(
          fmt::format("layer \"{}\": a pre-activation is not finite or too large; the model has "
                      "diverged, or the inputs are far from what it was trained on",
                      facts.layer(layer).name));
}

MatrixView<const float> Network::activations(const BoundBatch& batch, int hidden_layer) {
  UnitLayer* layer = unit_layer(hidden_layer);
  require(layer != nullptr && !layer->is_output(),
          "Network::activations: the layer is no Hidden layer of this network");
  parts_->require_planned(batch, "activations");
  step::Program program = parts_->to_activations;
  if (!layer->settings().is_gathered) program.push_back(step::GatherRest{hidden_layer});
  parts_->pass(program, batch, nullptr);
  require_sums_in_range();
  if (parts_->facts.by_example(hidden_layer)) return rows_of_all(*layer, batch.examples);
  const MatrixView<float> values = layer->whole(batch.examples);
  if (context().compute.memory.is_host()) return values;
  return in_main_memory(values);
}

MatrixView<const float> Network::rows_of_all(UnitLayer& layer, Index examples) {
  const Range own = parts_->facts.own_examples(examples);
  const Index channels = layer.partition().width();
  const Index units = channels * layer.settings().places;
  Buffer<float>& host = parts_->host_values;
  if (host.size() < examples * units) host = Buffer<float>(examples * units);
  const MatrixView<float> all{host.data(), examples, units, units};
  const Compute& compute = context().compute;
  Matrix<float> mine(own.count(), units, compute.memory);
  compute.kernels.convolution->to_file_order(channels, layer.rows(own.count()), mine.view());
  context().collectives->wait_for_all(*compute.kernels.queue);
  if (!mine.empty())
    compute.memory.read(mine.view().data, all.row(own.begin), std::size_t(mine.bytes()));
  context().communicator.all_gather_rows(all, parts_->facts.example_shares(examples));
  return all;
}

MatrixView<const float> Network::in_main_memory(MatrixView<const float> values) {
  Buffer<float>& host = parts_->host_values;
  context().collectives->wait_for_all(*context().compute.kernels.queue);
  if (host.size() < values.size()) host = Buffer<float>(values.size());
  context().compute.memory.read(values.data, host.data(),
                                std::size_t(values.size()) * sizeof(float));
  return {host.data(), values.rows, values.cols, values.cols};
}

MatrixView<const float> Network::outputs(const BoundBatch& batch, int output_layer) {
  const Compute& compute = context().compute;
  const Index width = descriptor().layers.at(std::size_t(output_layer)).units();
  Matrix<float> all(batch.examples, width, compute.memory);
  predict(batch, output_layer, [&](Range units, MatrixView<const float> y, int) {
    compute.kernels.pointwise->copy(y, all.view().columns(units.begin, units.count()));
  });
  return in_main_memory(all.view());
}

}  // namespace norn
