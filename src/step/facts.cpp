// SPDX-License-Identifier: Apache-2.0
// What is decided of a step, from sizes alone.
#include "src/step/facts.h"

#include "kernels/window_pieces.h"
#include "src/step/block_group.h"
#include "src/step/costs.h"

#include <algorithm>
#include <numeric>

namespace norn {
namespace {

// Pre-activations of an output layer are kept between the passes of SoftMax when they are at most
// this large: a function of width and batch alone. Larger ones are computed again, and so are those
// that never leave the kernel that makes them.
constexpr Index kKeptElements = Index(1) << 24;

}  // namespace

StepFacts::StepFacts(const Graph& graph, StepSettings settings)
    : graph_(graph), settings_(std::move(settings)) {
  const std::size_t count = graph.network.layers.size();
  settings_.sparse_input.resize(count, false);
  settings_.entries.resize(count, 0.0);
  find_participants();
  sort_edges();
  layouts_ = choose_layouts(graph, takes_part_, settings_.sparse_input, settings_.by_example);
  const Index examples = block_examples(settings_.purpose, settings_.batch);
  sharding_ = choose_sharding(graph, takes_part_, examples, device().block_rule, layouts_);
  partitions_ = Numbered<BlockPartition>(count);
  shares_ = Numbered<std::vector<Range>>(count);
  for (int layer : order_) {
    partitions_[layer] =
        by_example(layer)
            ? BlockPartition::make(channels(layer), examples, device().block_rule.of_hidden())
            : partition_of(this->layer(layer), examples, device().block_rule);
    for (int r = 0; r < ranks(); ++r)
      shares_[layer].push_back(partitions_[layer].units_of(r, ranks()));
  }
  fuses_.resize(count, false);
  for (int layer : order_) fuses_[std::size_t(layer)] = decide_fusing(layer);
  lay_out_outcome();
}

void StepFacts::lay_out_outcome() {
  outcome_ = OutcomeLayout(layers());
  for (int layer : order_) {
    if (sums_over_sources(layer)) outcome_.add_source_sum(layer);
    if (is_output(layer)) outcome_.add_costs(layer, own_blocks(layer).count());
    if (is_factored(layer)) outcome_.add_length(layer);
  }
}

void StepFacts::find_participants() {
  const auto& layers = graph_.network.layers;
  takes_part_.assign(layers.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < layers.size(); ++i)
    any = (takes_part_[i] = layers[i].kind == LayerKind::output) || any;
  if (!any) takes_part_.assign(layers.size(), true);
  for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
    if (!takes_part(*it)) continue;
    for (int edge : sources(*it)) takes_part_[std::size_t(this->edge(edge).source)] = true;
  }
  for (int layer : graph_.order)
    if (takes_part(layer)) order_.push_back(layer);
}

void StepFacts::sort_edges() {
  matrices_.resize(layers());
  unit_edges_.resize(layers());
  for (int layer : order_)
    for (int edge : sources(layer)) {
      if (has_weights(edge)) matrices_[layer].push_back(edge);
      if (this->edge(edge).by_unit()) unit_edges_[layer].push_back(edge);
    }
}

// The room of a factored layer does it all: no state beside its weights is theirs.
const UpdateRule& StepFacts::rule(int edge) const {
  static const UpdateRule none = Sgd{};
  return is_factored(this->edge(edge).destination) ? none : graph_.network.training.optimizer;
}

// From there on factors of the source's width are less work.
bool StepFacts::is_wide_batch(int layer) const {
  const Index width = this->layer(edge(matrices(layer)[0]).source).units() + 1;
  return curvature_every(width, batch()) == 1;
}

Index StepFacts::shown_at_once(int layer) const {
  constexpr Index kElements = Index(1) << 23;
  return std::clamp<Index>(kElements / batch(), 1, partition(layer).block_width());
}

// Folding takes 2 N D^2 operations, the rest of a step some 18 B D^2: an eighth of that.
Index StepFacts::fold_every(int layer) const {
  constexpr Index kMost = 96;
  if (const auto& every = this->layer(layer).factored.fold_every) return *every;
  return std::clamp<Index>(8 * partition(layer).width() / (9 * batch()), 1, kMost);
}

int StepFacts::users(int edge) const {
  int count = 0;
  for (int e = 0; e < edges(); ++e) count += owner(e) == edge && edge_takes_part(e);
  return count;
}

// A sparse source reads whole rows of its weights, so a matrix that one uses is stored by source
// unit.
bool StepFacts::stored_by_destination(int owner_edge) const {
  for (int e = 0; e < edges(); ++e)
    if (owner(e) == owner_edge && is_sparse_source(e))
      return e != owner_edge && edge(e).transposed;  // as all of them: make_graph() has checked it
  return true;
}

WeightShape StepFacts::weight_shape(int owner_edge) const {
  const Edge& edge = this->edge(owner_edge);
  WeightShape shape;
  const EdgeMatrix matrix = matrix_between(layer(edge.destination), layer(edge.source));
  shape.sources = matrix.inputs;
  shape.destinations = matrix.outputs;
  shape.by_source = by_source(owner_edge);
  shape.mine = mine(shape.by_source ? edge.source : edge.destination);
  shape.by_destination = !shape.by_source && stored_by_destination(owner_edge);
  shape.by_example = by_example(edge.destination);
  if (shape.by_example) shape.owned = mine(edge.destination);
  shape.replicated = shape.by_example || users(owner_edge) > 1;
  return shape;
}

// Rows of factored layers and of sparse sources are floats, and filters are cast where they are
// used. CPUs have no products that read halves.
WeightStorage StepFacts::weight_storage(int owner_edge) const {
  using enum WeightStorage;
  const int layer = edge(owner_edge).destination;
  if (!device().precision.casts_operands() || !device().fuses || by_example(layer) ||
      is_factored(layer) || is_sparse_source(owner_edge))
    return floats;
  for (int e = 0; e < edges(); ++e)
    if (owner(e) == owner_edge && is_sparse_source(e))
      return stored_by_destination(owner_edge) ? floats_and_bf16 : floats;
  return halves;
}

bool StepFacts::begins_with_bias(int edge) const {
  return !is_sparse_source(edge) && !by_source(edge) &&
         stored_by_destination(owner(edge)) !=
             (this->edge(edge).shared_with >= 0 && this->edge(edge).transposed);
}

bool StepFacts::sums_over_sources(int layer) const {
  return std::ranges::any_of(matrices(layer), [this](int edge) { return by_source(edge); });
}

SumShape StepFacts::source_sum(int layer) const {
  SumShape shape{batch(), this->layer(layer).units()};
  for (int edge : matrices(layer))
    if (by_source(edge)) shape.partial_sums += partition(this->edge(edge).source).blocks();
  shape.is_reduced = ranks() > 1;
  return shape;
}

bool StepFacts::wants_delta(int layer) const {
  return training() && is_hidden(layer) &&
         std::ranges::any_of(graph_.destinations[std::size_t(layer)],
                             [this](int edge) { return edge_takes_part(edge); });
}

Index StepFacts::delta_partial_sums(int layer) const {
  Index partial_sums = 0;
  for (int edge : graph_.destinations[std::size_t(layer)])
    if (edge_takes_part(edge)) {
      const int destination = this->edge(edge).destination;
      const bool to_examples = by_example(destination);
      if (to_examples && by_example(layer)) continue;
      if (this->edge(edge).from_all())
        partial_sums += partition(destination).blocks();
      else if (by_source(edge) || to_examples || this->edge(edge).by_unit() ||
               is_factored(destination))
        partial_sums += 1;
      else
        partial_sums += has_weights(edge) ? partition(destination).blocks() : comparisons(edge);
    }
  return partial_sums;
}

Index StepFacts::comparisons(int edge) const {
  const int destination = this->edge(edge).destination;
  const bool compares = is_comparison(layer(destination).function);
  return compares && sources(destination)[0] == edge ? layer(destination).units() : 1;
}

Index StepFacts::partial_sums_of_rank(int layer, int rank) const {
  Index partial_sums = 0;
  for (int edge : graph_.destinations[std::size_t(layer)])
    if (edge_takes_part(edge) && has_weights(edge))
      partial_sums += partition(this->edge(edge).destination).blocks_of(rank, ranks()).count();
  return partial_sums;
}

std::vector<Index> StepFacts::partial_sums_by_rank(int layer) const {
  std::vector<Index> partial_sums;
  for (int r = 0; r < ranks(); ++r) partial_sums.push_back(partial_sums_of_rank(layer, r));
  return partial_sums;
}

bool StepFacts::exchanges_partial_sums(int layer) const {
  const std::vector<Index> partial_sums = partial_sums_by_rank(layer);
  return settings_.exchanges &&
         std::accumulate(partial_sums.begin(), partial_sums.end(), Index(0)) <=
             PartialSums::kMost &&
         !feeds_units(layer) && !by_example(layer) && !feeds_by_example(layer) &&
         !feeds_factored(layer);
}

bool StepFacts::feeds_factored(int layer) const {
  return std::ranges::any_of(graph_.destinations[std::size_t(layer)], [this](int edge) {
    return is_factored(this->edge(edge).destination);
  });
}

Window StepFacts::window(int edge) const {
  const int source = this->edge(edge).source;
  Window window = window_of(layer(this->edge(edge).destination), layer(source));
  if (is_input(source) || !by_example(source) || places(source) == 1) return window;
  window.order = UnitOrder::channels_last;
  if (has_window(layer(this->edge(edge).destination))) return window;
  window.channels = channels(source);
  window.in = window.out = {places(source), 1, 1};
  return window;
}

bool StepFacts::multiplies_windows(int edge) const {
  const int layer = this->edge(edge).destination;
  return has_window_products() && is_convolution(layer) && has_weights(edge) &&
         window_pieces::can_read(window(edge), channels(layer));
}
bool StepFacts::reads_windows(int edge) const {
  return device().precision.casts_operands() && multiplies_windows(edge);
}

bool StepFacts::gives_bf16_rows(int layer) const {
  if (rows_in_bf16(layer)) return true;
  const LayerDescriptor& descriptor = this->layer(layer);
  return by_example(layer) && rules_of(descriptor.type).has_activation &&
         !std::holds_alternative<SoftMax>(descriptor.activation) &&
         std::ranges::any_of(graph_.destinations[std::size_t(layer)],
                             [this](int edge) { return reads_windows(edge); });
}

bool StepFacts::gives_bf16_delta(int layer) const {
  if (delta_in_bf16(layer)) return true;
  return is_convolution(layer) && training() &&
         std::ranges::any_of(matrices(layer), [this](int edge) { return reads_windows(edge); });
}

// But for dropout.
bool StepFacts::is_function_of_product(int layer) const {
  const LayerDescriptor& descriptor = this->layer(layer);
  const auto* f = std::get_if<Activation>(&descriptor.activation);
  return by_example(layer) && is_convolution(layer) && sources(layer).size() == 1 &&
         matrices(layer).size() == 1 && !descriptor.batch_normalization && f &&
         slope_from(*f) == SlopeFrom::y;
}

bool StepFacts::activates_alone(int layer) const {
  return is_function_of_product(layer) && !(training() && this->layer(layer).dropout > 0.0f);
}

bool StepFacts::gets_whole_delta(int layer) const {
  if (!activates_alone(layer) || !wants_delta(layer) || sums_delta(layer)) return false;
  const std::vector<int> edges = edges_from(layer);
  if (edges.size() != 1) return false;
  const int destination = edge(edges[0]).destination;
  const LayerDescriptor& descriptor = this->layer(destination);
  const bool pools = descriptor.type == LayerType::pooling && !is_comparison(descriptor.function);
  return by_example(destination) &&
         (pools || (is_convolution(destination) && has_weights(edges[0])));
}

namespace {

// Of the functions that kernels of windows apply.
bool slope_follows_sign(const LayerDescriptor& layer) {
  return std::visit([](const auto& f) { return f.slope_follows_sign; },
                    std::get<Activation>(layer.activation));
}

}  // namespace

bool StepFacts::activates_in_product(int layer) const {
  return activates_alone(layer) && multiplies_windows(sources(layer)[0]) &&
         slope_follows_sign(this->layer(layer));
}

bool StepFacts::slopes_in_product(int layer) const {
  if (!gets_whole_delta(layer) || !has_window_products() || !slope_follows_sign(this->layer(layer)))
    return false;
  const int only = edges_from(layer)[0], destination = edge(only).destination;
  return !is_convolution(destination) ||
         window_pieces::can_give_back(window(only), channels(destination));
}

std::vector<int> StepFacts::edges_from(int layer) const {
  std::vector<int> edges = graph_.destinations[std::size_t(layer)];
  std::erase_if(edges, [this](int edge) { return !edge_takes_part(edge); });
  return edges;
}

// Windows or channels of one source's places, of the own examples.
bool StepFacts::pools(int layer) const {
  const LayerDescriptor& descriptor = this->layer(layer);
  return by_example(layer) && descriptor.type == LayerType::pooling &&
         !is_comparison(descriptor.function) && sources(layer).size() == 1;
}

// Of rows that the copy engine reads and writes.
bool StepFacts::has_bf16_shape(int layer) const {
  const LayerDescriptor& descriptor = this->layer(layer);
  const auto activates = [&] {
    return is_function_of_product(layer) && slope_follows_sign(descriptor) &&
           (activates_alone(layer) ||
            is_flat_after_dropout(std::get<Activation>(descriptor.activation)));
  };
  return device().computes_in_bf16 && is_hidden(layer) && by_example(layer) &&
         window_pieces::fills_tiles(channels(layer)) && (pools(layer) || activates());
}

bool StepFacts::rows_in_bf16(int layer) const {
  const std::vector<int> edges = edges_from(layer);
  if (!has_bf16_shape(layer) || edges.empty()) return false;
  // Of several destinations each gives its part, and then the slope is read in floats.
  if (training() && wants_delta(layer) && !pools(layer) && !takes_bf16_delta(layer)) return false;
  return std::ranges::all_of(edges, [this](int edge) {
    const int destination = this->edge(edge).destination;
    return !by_example(destination) || reads_windows(edge) || pools(destination);
  });
}

// What a convolution gives to a source, as a product of its delta's windows or gathered.
bool StepFacts::gives_bf16_delta_by(int edge) const {
  const int destination = this->edge(edge).destination;
  return is_convolution(destination) && by_example(destination) && has_weights(edge) &&
         window_pieces::can_give_back(window(edge), channels(destination));
}

// From one convolution, which knows what dropout did, or a pooling.
bool StepFacts::takes_bf16_delta(int layer) const {
  if (!training() || !has_bf16_shape(layer) || !wants_delta(layer) || sums_delta(layer))
    return false;
  const std::vector<int> edges = edges_from(layer);
  const bool drops = !pools(layer) && !activates_alone(layer);
  return edges.size() == 1 &&
         ((!drops && pools(edge(edges[0]).destination)) || gives_bf16_delta_by(edges[0]));
}

bool StepFacts::delta_in_bf16(int layer) const {
  return takes_bf16_delta(layer) && (pools(layer) || gives_bf16_rows(layer));
}

bool StepFacts::feeds(int layer, Layout layout) const {
  return std::ranges::any_of(graph_.destinations[std::size_t(layer)], [&](int edge) {
    return edge_takes_part(edge) && this->layout(this->edge(edge).destination).layout == layout;
  });
}

// Backward, layers that stand later in order() come first.
bool StepFacts::sends_first(int edge) const {
  int first = -1;
  const auto place = [this](int number) {
    return std::ranges::find(order_, this->edge(number).destination);
  };
  for (int other : graph_.destinations[std::size_t(this->edge(edge).source)]) {
    if (!edge_takes_part(other) || !by_example(this->edge(other).destination)) continue;
    if (first < 0 || place(other) > place(first)) first = other;
  }
  return edge == first;
}

std::vector<Range> StepFacts::example_shares(Index examples) const {
  std::vector<Range> shares;
  for (int r = 0; r < ranks(); ++r)
    shares.push_back(ExamplePartition::make(examples).examples_of(r, ranks()));
  return shares;
}

std::vector<Index> StepFacts::filled_runs(Index examples) const {
  const ExamplePartition cut = ExamplePartition::make(examples);
  std::vector<Index> filled;
  for (int r = 0; r < ranks(); ++r) {
    const Range runs = ExamplePartition::runs_of(r, ranks());
    Index& count = filled.emplace_back(0);
    for (Index run = runs.begin; run < runs.end; ++run) count += cut.examples(run).count() > 0;
  }
  return filled;
}

bool StepFacts::feeds_units(int layer) const {
  return std::ranges::any_of(graph_.destinations[std::size_t(layer)], [this](int edge) {
    return edge_takes_part(edge) && !has_weights(edge);
  });
}

bool StepFacts::gives_floats(int layer) const {
  return std::ranges::any_of(graph_.destinations[std::size_t(layer)], [this](int edge) {
    const int destination = this->edge(edge).destination;
    return is_comparison(this->layer(destination).function) || by_example(destination) ||
           this->edge(edge).from_all();
  });
}

bool StepFacts::decide_fusing(int layer) const {
  const DeviceTraits& device = this->device();
  const std::vector<int>& edges = sources(layer);
  if (!training() || !is_output(layer) || !device.fuses || edges.size() != 1 ||
      !has_weights(edges[0]))
    return false;
  const bool from_targets = CostKernels::coupling_from_targets(softmax_cost(graph_.network));
  return device.precision.rounds() && begins_with_bias(edges[0]) &&
         this->layer(layer).delta_norm == 0.0f &&
         (!is_softmax(layer) || (sparse_input(layer) && from_targets));
}

bool StepFacts::keeps_z(int layer) const {
  return is_output(layer) && is_softmax(layer) && !may_fuse_delta(layer) &&
         partition(layer).width() * batch() <= kKeptElements;
}

// A GPU's hidden layers take all their blocks at once.
Index StepFacts::units_at_once(int layer) const {
  if (is_output(layer) && may_fuse_delta(layer))
    return norn::units_at_once(partition(layer), batch());
  return on_gpu() && !is_output(layer) ? units(layer) : partition(layer).block_width();
}

UnitLayer::Settings StepFacts::layer_settings(int layer) const {
  UnitLayer::Settings settings;
  settings.descriptor = &this->layer(layer);
  settings.number = layer;
  settings.partition = partition(layer);
  settings.mine = mine(layer);
  settings.batch = batch();
  settings.trainable = training();
  settings.partial_sums = delta_partial_sums(layer);
  settings.is_gathered = gathers(layer);
  settings.gives_floats = gives_floats(layer);
  const bool is_given_rows = feeds_by_example(layer) && !by_example(layer);
  settings.reduces_delta = feeds_units(layer) || is_given_rows ||
                           (ranks() > 1 && gathers(layer) && !exchanges_partial_sums(layer));
  settings.by_example = by_example(layer);
  if (settings.by_example) {
    settings.owned = mine(layer);
    settings.mine = {0, channels(layer)};
    settings.places = places(layer);
    settings.rows = example_capacity();
    settings.gathers_rows = gathers_rows(layer);
    settings.takes_delta_aside = takes_delta_aside(layer);
    settings.gives_bf16_rows = gives_bf16_rows(layer);
    settings.gives_bf16_delta = gives_bf16_delta(layer);
    settings.rows_in_bf16 = rows_in_bf16(layer);
    settings.delta_in_bf16 = delta_in_bf16(layer);
  }
  settings.sparseness = sparseness_of(graph_.network, this->layer(layer));
  return settings;
}

}  // namespace norn
