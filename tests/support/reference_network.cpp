// SPDX-License-Identifier: Apache-2.0
// Forward passes in float64: one loop per formula.
#include "tests/support/reference_network.h"

#include "tests/support/reference_maths.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace norn::reference {
namespace {

Rows zeros(std::size_t rows, Index cols) {
  return Rows(rows, Row(std::size_t(cols), 0.0));
}

void softmax(Rows& z) {
  for (Row& row : z) {
    const double top = *std::max_element(row.begin(), row.end());
    double total = 0.0;
    for (double& v : row) total += v = std::exp(v - top);
    for (double& v : row) v /= total;
  }
}

}  // namespace

Network::Network(NetworkDescriptor network, Index batch, Pass pass, StepPosition position)
    : network_(std::move(network)), batch_(batch), pass_(pass), position_(position) {
  find_links();
  resolve_sharing();
  std::vector<int> mark(network_.layers.size(), 0);
  for (std::size_t i = 0; i < network_.layers.size(); ++i) order_layer(int(i), mark);
  for (int number : order_) {
    LayerDescriptor& layer = network_.layers[std::size_t(number)];
    if (layer.kind != LayerKind::input && layer.type != LayerType::fully_connected)
      infer_size(layer, sources_of(number));
  }
}

std::vector<const LayerDescriptor*> Network::sources_of(int number) const {
  std::vector<const LayerDescriptor*> sources;
  for (const std::string& source : network_.layers[std::size_t(number)].sources)
    sources.push_back(&network_.layers[std::size_t(layer(source))]);
  return sources;
}

std::vector<const Row*> Network::outputs_of_sources(int number, const Activity& activity,
                                                    std::size_t example) const {
  std::vector<const Row*> rows;
  for (const std::string& source : network_.layers[std::size_t(number)].sources)
    rows.push_back(&activity.output[std::size_t(layer(source))].at(example));
  return rows;
}

void Network::pool_layer(int number, Activity& activity) const {
  const auto at = std::size_t(number);
  const LayerDescriptor& descriptor = network_.layers[at];
  const std::vector<const LayerDescriptor*> sources = sources_of(number);
  Rows& y = activity.output[at];
  for (std::size_t b = 0; b < activity.output[std::size_t(layer(sources[0]->name))].size(); ++b)
    y.push_back(pool(descriptor, network_.lrn, sources, outputs_of_sources(number, activity, b)));
  activity.z[at] = activity.argument[at] = activity.activity[at] = y;
}

int Network::layer(const std::string& name) const {
  for (std::size_t i = 0; i < network_.layers.size(); ++i)
    if (network_.layers[i].name == name) return int(i);
  throw std::logic_error("no layer " + name);
}

void Network::find_links() {
  for (std::size_t i = 0; i < network_.layers.size(); ++i)
    for (const std::string& source : network_.layers[i].sources) {
      Link link;
      link.source = layer(source);
      link.destination = int(i);
      link.owner = int(links_.size());
      links_.push_back(link);
    }
}

void Network::resolve_sharing() {
  for (const LayerDescriptor& destination : network_.layers)
    for (const SharedWeights& shared : destination.shared_weights) {
      int user = -1;
      int owner = -1;
      for (std::size_t l = 0; l < links_.size(); ++l) {
        if (links_[l].source == layer(shared.input_layer) &&
            links_[l].destination == layer(destination.name))
          user = int(l);
        if (links_[l].source == layer(shared.source_input_layer) &&
            links_[l].destination == layer(shared.source_output_layer))
          owner = int(l);
      }
      links_.at(std::size_t(user)).owner = owner;
      links_[std::size_t(user)].transposed = shared.transposed;
      links_.at(std::size_t(owner)).users += 1;
    }
}

void Network::order_layer(int number, std::vector<int>& mark) {
  int& state = mark[std::size_t(number)];
  if (state == 2) return;
  if (state == 1) throw std::logic_error("the network has a cycle");
  state = 1;
  const LayerDescriptor& descriptor = network_.layers[std::size_t(number)];
  for (const std::string& source : descriptor.sources) order_layer(layer(source), mark);
  for (const std::string& skip : descriptor.skips) order_layer(layer(skip), mark);
  if (!descriptor.features.empty()) order_layer(layer(descriptor.feature_layer()), mark);
  mark[std::size_t(number)] = 2;
  order_.push_back(number);
}

// A batch as the first layers see it: features weighted, normalised, weighted, corrupted.
Rows Network::input(int number, const BoundBatch& batch) const {
  const LayerDescriptor& descriptor = network_.layers[std::size_t(number)];
  const HostBatch& data = *batch.of_layer[std::size_t(number)];
  Rows x = zeros(std::size_t(data.examples), descriptor.units());
  const Philox random =
      Philox::stream(position_.seed, RandomPurpose::denoising, std::uint32_t(number));
  const double p = descriptor.sparse && data.is_sparse && pass_ == Pass::training
                       ? double(network_.denoising)
                       : 0.0;
  for (Index b = 0; b < data.examples; ++b) {
    Row& row = x[std::size_t(b)];
    std::vector<std::pair<std::size_t, double>> entries;
    if (data.is_sparse) {
      const CsrView csr = data.csr();
      for (RowOffset i = csr.row_begin[b]; i < csr.row_begin[b + 1]; ++i)
        entries.emplace_back(csr.column[i], csr.value ? double(csr.value[i]) : 1.0);
    } else {
      const MatrixView<const float> dense = data.matrix();
      for (Index c = 0; c < dense.cols; ++c)
        entries.emplace_back(std::size_t(c), double(dense(b, c)));
    }
    const auto at = std::size_t(number);
    if (at < feature_weight_.size() && !feature_weight_[at].empty())
      for (auto& entry : entries) entry.second *= double(feature_weight_[at][entry.first]);
    double squares = 0.0;
    for (const auto& entry : entries) squares += entry.second * entry.second;
    const bool divide = descriptor.normalize == InputNormalization::l2 && squares > 0.0;
    const double weight = data.weight.empty() ? 1.0 : double(data.weight[std::size_t(b)]);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::uint64_t place = data.example.empty()
                                      ? 0
                                      : std::uint64_t(data.example[std::size_t(b)]) ^
                                            (std::uint64_t(position_.epoch) << 40);
      const bool left_out = p > 0.0 && double(random.uniform(place, i)) < p;
      const double norm = divide ? std::sqrt(squares) : 1.0;
      row[entries[i].first] += left_out ? 0.0 : entries[i].second * weight / norm / (1.0 - p);
    }
  }
  return x;
}

Rows Network::pre_activation(int number, const Parameters& parameters,
                             const Activity& activity) const {
  const auto at = std::size_t(number);
  const std::size_t units = std::size_t(network_.layers[at].units());
  std::size_t examples = 0;
  for (const Rows& rows : activity.output) examples = std::max(examples, rows.size());
  const std::size_t places = units_of_a_channel(network_.layers[at]);
  Rows z = zeros(examples, Index(units));
  for (Row& row : z)
    for (std::size_t j = 0; j < units; ++j) row[j] = parameters.of("bias")[at][j / places];
  for (const Link& link : links_) {
    if (link.destination != number) continue;
    const Row& w = parameters.weight[std::size_t(link.owner)];
    const Rows& x = activity.output[std::size_t(link.source)];
    if (network_.layers[at].type == LayerType::convolutional) {
      const LayerDescriptor& source = network_.layers[std::size_t(link.source)];
      for (std::size_t b = 0; b < examples; ++b)
        convolve(network_.layers[at], source, w, x[b], z[b]);
      continue;
    }
    for (std::size_t b = 0; b < examples; ++b)
      for (std::size_t i = 0; i < x[b].size(); ++i) {
        if (x[b][i] == 0.0) continue;
        for (std::size_t j = 0; j < units; ++j)
          z[b][j] += x[b][i] * (link.transposed ? w[j * x[b].size() + i] : w[i * units + j]);
      }
  }
  for (const std::string& skip : network_.layers[at].skips)
    for (std::size_t b = 0; b < examples; ++b)
      for (std::size_t j = 0; j < units; ++j)
        z[b][j] += activity.output[std::size_t(layer(skip))][b][j];
  if (network_.layers[at].features.empty()) return z;
  const FeatureTable& table = *network_.layers[at].feature_table;
  const Rows& of_features =
      activity.output[std::size_t(layer(network_.layers[at].feature_layer()))];
  for (std::size_t j = 0; j < units; ++j)
    for (RowOffset i = table.before(Index(j)); i < table.before(Index(j) + 1); ++i)
      for (std::size_t b = 0; b < examples; ++b)
        z[b][j] += (table.value.empty() ? 1.0 : double(table.value[std::size_t(i)])) *
                   of_features[b][table.column[std::size_t(i)]];
  return z;
}

void Network::normalise(int number, const Parameters& parameters, Activity& activity,
                        Rows& z) const {
  const auto at = std::size_t(number);
  const std::size_t places = units_of_a_channel(network_.layers[at]);
  const double count = double(z.size() * places);
  Row& mean = activity.batch_mean[at];
  Row& variance = activity.batch_variance[at];
  mean.assign(z.front().size() / places, 0.0);
  variance = mean;
  const auto for_each_value = [&](std::size_t j, const auto& body) {
    for (Row& row : z)
      for (std::size_t p = 0; p < places; ++p) body(row[j * places + p]);
  };
  for (std::size_t j = 0; j < mean.size(); ++j) {
    for_each_value(j, [&](double x) { mean[j] += x / count; });
    for_each_value(j, [&](double x) { variance[j] += (x - mean[j]) * (x - mean[j]) / count; });
    const bool own = pass_ == Pass::training;
    const double m = own ? mean[j] : parameters.of("runningMeanBN")[at][j];
    const double v = own ? variance[j] : parameters.of("runningVarianceBN")[at][j];
    const double scale = parameters.of("scaleBN")[at][j], bias = parameters.of("biasBN")[at][j];
    for_each_value(j, [&](double& x) { x = scale * (x - m) / std::sqrt(v + 1e-5) + bias; });
  }
}

// Inverted dropout, and alpha dropout for SELU, with the engine's random numbers.
void Network::drop(int number, Rows& y) const {
  const LayerDescriptor& descriptor = network_.layers[std::size_t(number)];
  const double p = double(descriptor.dropout);
  if (p == 0.0 || pass_ == Pass::prediction) return;
  const Philox random =
      Philox::stream(position_.seed, RandomPurpose::dropout, std::uint32_t(number));
  double a = 1.0 / (1.0 - p);
  double b = 0.0;
  double left_out = 0.0;
  const auto* pointwise = std::get_if<Activation>(&descriptor.activation);
  const bool hidden = descriptor.kind == LayerKind::hidden;
  if (const auto* selu = hidden && pointwise ? std::get_if<Selu>(pointwise) : nullptr) {
    left_out = -double(selu->lambda) * double(selu->alpha);
    a = 1.0 / std::sqrt((1.0 - p) * (1.0 + p * left_out * left_out));
    b = -a * p * left_out;
  }
  for (std::size_t e = 0; e < y.size(); ++e)
    for (std::size_t j = 0; j < y[e].size(); ++j) {
      const std::uint64_t row = std::uint64_t(position_.step) * std::uint64_t(batch_) + e;
      const bool dropped = double(random.uniform(row, j)) < p;
      y[e][j] = a * (dropped ? left_out : y[e][j]) + b;
    }
}

Activity Network::forward(const Parameters& parameters, const BoundBatch& batch, int offset_layer,
                          const Rows& offset) const {
  const std::size_t layers = network_.layers.size();
  Activity activity;
  activity.z.resize(layers);
  activity.argument.resize(layers);
  activity.activity.resize(layers);
  activity.output.resize(layers);
  activity.batch_mean.resize(layers);
  activity.batch_variance.resize(layers);
  for (int number : order_) {
    const auto at = std::size_t(number);
    const LayerDescriptor& descriptor = network_.layers[at];
    if (descriptor.kind == LayerKind::input) {
      activity.output[at] = input(number, batch);
      if (!batch.of_layer[at]->is_sparse) drop(number, activity.output[at]);
      continue;
    }
    if (descriptor.type == LayerType::pooling) {
      pool_layer(number, activity);
      continue;
    }
    if (parameters.of("bias")[at].empty()) continue;  // it leads to no output
    Rows z = pre_activation(number, parameters, activity);
    if (number == offset_layer)
      for (std::size_t b = 0; b < z.size(); ++b)
        for (std::size_t j = 0; j < z[b].size(); ++j) z[b][j] += offset[b][j];
    activity.z[at] = z;
    if (descriptor.batch_normalization) normalise(number, parameters, activity, z);
    activity.argument[at] = z;
    if (const auto* f = std::get_if<Activation>(&descriptor.activation))
      for (Row& row : z)
        for (double& v : row) v = activation_value(*f, v);
    else
      softmax(z);
    activity.activity[at] = z;
    drop(number, z);
    activity.output[at] = std::move(z);
  }
  return activity;
}

double Network::cost(const Activity& activity, const BoundBatch& batch) const {
  double sum = 0.0;
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const LayerDescriptor& layer = network_.layers[i];
    if (layer.kind != LayerKind::output) continue;
    for (Index b = 0; b < batch.examples; ++b)
      sum += output_cost(network_, layer, activity.activity[i][std::size_t(b)],
                         target_row(layer, *batch.of_layer[i], b, batch.ignore_absent[i]));
  }
  return sum;
}

// B * beta * sum over units of the divergence of rho from p; its slope by one activation is
// beta * (-p / rho + (1 - p) / (1 - rho)).
double Network::penalty(const Activity& activity) const {
  double sum = 0.0;
  if (network_.sparseness.beta <= 0.0f) return sum;
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const LayerDescriptor& descriptor = network_.layers[i];
    if (!descriptor.sparse || descriptor.kind != LayerKind::hidden) continue;
    const SparsenessPenalty rule = descriptor.sparseness.value_or(network_.sparseness);
    const double p = double(rule.p);
    const double count = double(activity.activity[i].size());
    for (std::size_t j = 0; j < std::size_t(descriptor.units()); ++j) {
      double rho = 0.0;
      for (const Row& row : activity.activity[i]) rho += row[j] / count;
      if (rho <= 1e-6 || rho >= 1.0 - 1e-6)
        throw std::logic_error("a mean activation is outside the penalty's range");
      sum += count * double(rule.beta) *
             (p * std::log(p / rho) + (1.0 - p) * std::log((1.0 - p) / (1.0 - rho)));
    }
  }
  return sum;
}

double Network::objective(const Activity& activity, const BoundBatch& batch) const {
  return cost(activity, batch) + penalty(activity);
}

Rows Network::deltas(const Parameters& parameters, const BoundBatch& batch, int number) const {
  constexpr double kStep = 1e-6;
  const Index units = network_.layers[std::size_t(number)].units();
  Rows offset = zeros(std::size_t(batch.examples), units);
  Rows result = offset;
  for (std::size_t b = 0; b < offset.size(); ++b)
    for (std::size_t j = 0; j < offset[b].size(); ++j) {
      offset[b][j] = kStep;
      const double above = objective(forward(parameters, batch, number, offset), batch);
      offset[b][j] = -kStep;
      const double below = objective(forward(parameters, batch, number, offset), batch);
      offset[b][j] = 0.0;
      result[b][j] = (above - below) / (2.0 * kStep);
    }
  return result;
}

Rows Network::delta_factors(const BoundBatch& batch, int number) const {
  const auto at = std::size_t(number);
  const LayerDescriptor& descriptor = network_.layers[at];
  Rows factors = zeros(std::size_t(batch.examples), descriptor.units());
  for (Index b = 0; b < batch.examples; ++b) {
    const TargetRow target =
        target_row(descriptor, *batch.of_layer[at], b, batch.ignore_absent[at]);
    for (std::size_t j = 0; j < target.unit.size(); ++j) {
      double& factor = factors[std::size_t(b)][j];
      const bool stored = target.unit[j].stored;
      factor = target.sparse && target.ignore_absent && !stored ? 0.0 : 1.0;
      if (target.sparse) factor *= double(stored ? network_.boost_one : network_.boost_zero);
    }
  }
  return factors;
}

bool Network::follows_parameters(int number) const {
  const LayerDescriptor& descriptor = network_.layers[std::size_t(number)];
  if (descriptor.kind == LayerKind::input) return false;
  return descriptor.type != LayerType::pooling ||
         std::ranges::any_of(descriptor.sources, [&](const std::string& source) {
           return follows_parameters(layer(source));
         });
}

double Network::distance_to_kinks(const Activity& activity, const BoundBatch& batch) const {
  double nearest = 1e9;
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const LayerDescriptor& descriptor = network_.layers[i];
    const auto* f = std::get_if<Activation>(&descriptor.activation);
    if (descriptor.kind == LayerKind::input) continue;
    // What a maximum chooses among may stand nearer together than a z to 0.
    if (descriptor.type == LayerType::pooling && follows_parameters(int(i)))
      for (std::size_t b = 0; b < activity.output[i].size(); ++b)
        nearest =
            std::min(nearest, 20.0 * distance_to_ties(descriptor, sources_of(int(i)),
                                                      outputs_of_sources(int(i), activity, b)));
    if (f && bends_at_zero(*f))
      for (const Row& row : activity.argument[i])
        for (double z : row) nearest = std::min(nearest, std::abs(z));
    if (descriptor.kind != LayerKind::output) continue;
    for (Index b = 0; b < batch.examples; ++b)
      nearest = std::min(
          nearest, loss_kink_distance(
                       network_.loss, activity.activity[i][std::size_t(b)],
                       target_row(descriptor, *batch.of_layer[i], b, batch.ignore_absent[i])));
  }
  return nearest;
}

}  // namespace norn::reference
