// SPDX-License-Identifier: Apache-2.0
// Training runs on random data, on any number of ranks and threads.
#include "tests/support/training_recipe.h"

#include "src/data/dataset_writer.h"
#include "src/engine/model/model_parts.h"
#include "tests/support/memory_datasets.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

namespace norn::test {
namespace {

std::unique_ptr<Dataset> make_set(const std::string& name, const HostBatch& data) {
  const Index width = data.width;
  if (!data.is_sparse) {
    const MatrixView<const float> x = data.matrix();
    return make_dense_dataset(name, width, {x.data, x.data + x.size()});
  }
  const CsrView x = data.csr();
  const auto entries = x.entries();
  std::vector<float> values;
  if (x.value) values.assign(x.value, x.value + entries);
  return make_sparse_dataset(name, width, {x.row_begin, x.row_begin + x.rows + 1},
                             {x.column, x.column + entries}, std::move(values));
}

}  // namespace

std::vector<DatasetShape> Recipe::shapes() const {
  std::vector<DatasetShape> shapes;
  for (const LayerDescriptor& layer : network.layers)
    if (!layer.dataset.empty())
      shapes.push_back({layer.dataset,
                        layer.dimensions,
                        {layer.extent[0], layer.extent[1], layer.extent[2]},
                        kind_of(layer).sparse});
  return shapes;
}

RecipeData::RecipeData(const Recipe& recipe)
    : recipe_(recipe),
      order_(recipe.examples, recipe.network.training.batch, recipe.network.shuffle,
             recipe.network.training.seed),
      sets_(recipe.network.layers.size()),
      weights_(recipe.network.layers.size()),
      batches_(recipe.network.layers.size()) {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const LayerDescriptor& layer = recipe.network.layers[i];
    if (layer.dataset.empty()) continue;
    HostBatch data =
        random_batch(recipe.kind_of(layer), recipe.examples, layer.units(), recipe.data_seed + i);
    sets_[i] = make_set(layer.dataset, data);
    weights_[i] = std::move(data.weight);
  }
}

BoundBatch RecipeData::batch(std::int64_t step) {
  const std::vector<Index> order = order_.epoch(step / order_.batches());
  const Index first = step % order_.batches() * order_.batch();
  const Index count = std::min(order_.batch(), recipe_.examples - first);
  BoundBatch bound;
  bound.of_layer.assign(sets_.size(), nullptr);
  bound.ignore_absent.assign(sets_.size(), false);
  bound.examples = count;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (!sets_[i]) continue;
    const std::span<const Index> examples(order.data() + first, std::size_t(count));
    sets_[i]->gather(examples, batches_[i]);
    for (std::size_t e = 0; e < examples.size() && !weights_[i].empty(); ++e)
      batches_[i].weight.push_back(weights_[i][std::size_t(examples[e])]);
    bound.of_layer[i] = &batches_[i];
    bound.ignore_absent[i] = recipe_.kind_of(recipe_.network.layers[i]).ignore_absent;
  }
  return bound;
}

StepPosition RecipeData::position(std::int64_t step) const {
  return {step, step / order_.batches(), recipe_.network.training.seed};
}

std::vector<bool> Recipe::layers_by_example() const {
  std::vector<bool> by_layer;
  for (const LayerDescriptor& layer : network.layers)
    by_layer.push_back(std::ranges::find(by_example, layer.name) != by_example.end());
  return by_layer;
}

void write_data(const Recipe& recipe, const std::filesystem::path& path) {
  std::vector<DatasetInfo> infos;
  std::vector<HostBatch> batches;
  for (std::size_t i = 0; i < recipe.network.layers.size(); ++i) {
    const LayerDescriptor& layer = recipe.network.layers[i];
    if (layer.dataset.empty()) continue;
    const DataKind kind = recipe.kind_of(layer);
    batches.push_back(random_batch(kind, recipe.examples, layer.units(), recipe.data_seed + i));
    DatasetInfo info;
    info.name = layer.dataset;
    info.type = kind.sparse && !kind.valued ? ElementType::uint32 : ElementType::float32;
    for (std::size_t axis = 0; axis < 3; ++axis) info.extent[axis] = layer.extent[axis];
    info.dimensions = layer.dimensions;
    info.sparse = kind.sparse;
    info.boolean = kind.sparse && !kind.valued;
    info.weighted = kind.weighted;
    info.sparse_ignore_zero = kind.ignore_absent;
    info.examples = info.unique_examples = recipe.examples;
    info.entries = kind.sparse ? batches.back().csr().entries() : 0;
    infos.push_back(info);
  }
  DatasetWriter writer(path, infos);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const HostBatch& data = batches[i];
    if (infos[i].sparse) {
      const CsrView x = data.csr();
      const auto entries = std::size_t(x.entries());
      std::vector<Index> sizes;
      for (Index r = 0; r < x.rows; ++r) sizes.push_back(x.row_begin[r + 1] - x.row_begin[r]);
      writer.append_rows(int(i), sizes, {x.column, entries},
                         {x.value, x.value ? entries : std::size_t(0)});
    } else {
      writer.append_values(int(i), {data.matrix().data, std::size_t(data.matrix().size())});
    }
    if (infos[i].weighted) writer.append_weights(int(i), data.weight);
  }
  writer.commit();
}

std::vector<float> gather_state(Network& network) {
  std::vector<float> state;
  for (std::size_t e = 0; e < network.graph().edges.size(); ++e) {
    if (!network.weights(int(e))) continue;
    for (int part = 0; part <= network.weights(int(e))->slots(); ++part)
      gather_rows(network, int(e), part, [&](Index, MatrixView<const float> rows) {
        state.insert(state.end(), rows.data, rows.data + rows.size());
      });
  }
  for (int layer : network.order()) {
    UnitLayer* unit = network.unit_layer(layer);
    if (!unit) continue;
    const auto append = [&](const HeldBuffer<float>& mine) {
      const std::vector<float> whole = gather_units(network, layer, mine);
      state.insert(state.end(), whole.begin(), whole.end());
    };
    for (const HeldBuffer<float>* vector : network.unit_vectors(layer)) append(*vector);
  }
  return state;
}

std::vector<double> train_steps(Network& network, RecipeData& data, std::int64_t steps,
                                const AfterStep& after_step) {
  std::vector<double> costs;
  for (std::int64_t step = 0; step < steps; ++step) {
    costs.push_back(network.train_step(data.batch(step), data.position(step)).value());
    if (after_step) after_step(network, step + 1);
  }
  network.catch_up(steps);
  return costs;
}

std::unique_ptr<Network> network_of(const Recipe& recipe, const Context& context) {
  context.compute.kernels.block_rule = recipe.blocks;
  auto network = std::make_unique<Network>(make_graph(recipe.network, recipe.shapes(), recipe.name),
                                           recipe.shapes(), context, recipe.network.training.batch,
                                           Pass::training, nullptr, recipe.layers_by_example());
  network->initialise(recipe.network.training.seed);
  return network;
}

Outcome run(const Recipe& recipe, std::int64_t steps, int ranks, int threads,
            const AfterStep& after_step) {
  Outcome outcome;
  std::size_t outputs = 0;
  for (const LayerDescriptor& layer : recipe.network.layers)
    if (layer.kind == LayerKind::output) outputs += std::size_t(layer.units());
  outcome.output.resize(outputs * std::size_t(recipe.network.training.batch));
  std::mutex mutex;
  const auto body = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(threads);
    const Context context = runtime->context(communicator);
    const std::unique_ptr<Network> held = network_of(recipe, context);
    Network& network = *held;
    RecipeData data(recipe);
    std::vector<double> costs = train_steps(network, data, steps, after_step);
    std::size_t first = 0;  // ranks write outputs of their own units only
    for (int layer : network.order()) {
      const UnitLayer* unit = network.unit_layer(layer);
      if (!unit || !unit->is_output()) continue;
      const auto width = std::size_t(unit->partition().width());
      const BoundBatch batch = data.batch(0);
      const MatrixView<const float> y = network.outputs(batch, layer);
      for (Index b = 0; b < y.rows; ++b)
        std::copy_n(y.row(b) + unit->mine().begin, unit->mine().count(),
                    outcome.output.data() + first + std::size_t(b) * width +
                        std::size_t(unit->mine().begin));
      first += width * std::size_t(recipe.network.training.batch);
    }
    std::vector<float> state = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) {
      outcome.state = std::move(state);
      outcome.costs = std::move(costs);
    }
  };
  if (ranks == 1)
    body(*make_single_process());
  else
    run_thread_group(ranks, body);
  return outcome;
}

testing::AssertionResult same_bits(const Outcome& a, const Outcome& b) {
  const auto compare = [](const char* what, const auto& x, const auto& y) -> std::string {
    if (x.size() != y.size()) return fmt::format("{}: {} and {} numbers", what, x.size(), y.size());
    std::size_t different = 0;
    std::size_t first = 0;
    for (std::size_t i = x.size(); i-- > 0;)
      if (std::memcmp(&x[i], &y[i], sizeof(x[i])) != 0) {
        ++different;
        first = i;
      }
    if (different == 0) return {};
    return fmt::format("{}: {} of {} differ, the first at {}: {} and {}", what, different, x.size(),
                       first, x[first], y[first]);
  };
  for (const std::string& difference :
       {compare("costs", a.costs, b.costs), compare("state", a.state, b.state),
        compare("output", a.output, b.output)})
    if (!difference.empty()) return testing::AssertionFailure() << difference;
  for (float v : a.state)
    if (!std::isfinite(v)) return testing::AssertionFailure() << "the run diverged";
  return testing::AssertionSuccess();
}

}  // namespace norn::test
