// SPDX-License-Identifier: Apache-2.0
// Models of arrays.
#include "norn/run/from_parameters.h"

#include "norn/base/error.h"
#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/engine/model/model_parts.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/naming.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr const char* kWhere = "network";

NetworkDescriptor read_network(const std::string& text, const Log& log) {
  NetworkDescriptor network =
      parse_network_json(text, kWhere, [&](const std::string& note) { log.warning(note); });
  check_network(network, kWhere);
  fill_names_and_sources(network);
  return network;
}

void require_sizes(const NetworkDescriptor& network) {
  OptionFaults faults;
  for (std::size_t i = 0; i < network.layers.size(); ++i)
    if (network.layers[i].auto_size)
      faults.add(problem_of(network, i, "N",
                            "N is \"auto\", and there are no data to take it from; give the number "
                            "of units that the parameters have",
                            kWhere));
  faults.throw_any();
}

std::string extent_of(const std::vector<Index>& extent) {
  return fmt::format("{}", fmt::join(extent, " x "));
}

/// What was given, by name, against what a network needs.
class GivenParameters {
 public:
  GivenParameters(const std::vector<Parameter>& given, OptionFaults& faults)
      : given_(given), faults_(faults) {
    for (Parameter& parameter : given_) {
      if (parameter.stride.empty()) {
        parameter.stride.assign(parameter.extent.size(), 1);
        for (std::size_t d = parameter.extent.size(); d-- > 1;)
          parameter.stride[d - 1] = parameter.stride[d] * parameter.extent[d];
      }
      by_name_[parameter.name].push_back(&parameter);
    }
  }

  /// The next one of that name, if it fits.
  const Parameter* take(const std::string& name, const std::vector<Index>& extent) {
    known_.push_back(name);
    std::vector<const Parameter*>& found = by_name_[name];
    if (found.empty()) {
      fail(name,
           fmt::format("`parameters`: \"{}\" is missing; give it as {}", name, extent_of(extent)));
      return nullptr;
    }
    const Parameter* parameter = found.front();
    found.erase(found.begin());
    if (parameter->extent != extent) {
      fail(name, fmt::format("`parameters`: \"{}\" is {}, but the network needs {}", name,
                             extent_of(parameter->extent), extent_of(extent)));
      return nullptr;
    }
    check_finite(*parameter);
    return parameter;
  }

  /// All have been taken that the network has.
  void end() {
    for (const auto& [name, rest] : by_name_)
      for (std::size_t i = 0; i < rest.size(); ++i)
        fail(name,
             std::ranges::count(known_, name) > 0
                 ? fmt::format("`parameters`: \"{}\" is given more than once; give it once", name)
                 : fmt::format("`parameters`: the network has no \"{}\"{} It has: {}", name,
                               did_you_mean(name, known_, "."), join(known_)));
  }

 private:
  void fail(const std::string& name, const std::string& message) {
    faults_.add({{}, 0, 0, name, message});
  }

  // Names the first value that is not.
  void check_finite(const Parameter& parameter) {
    Index columns = 1;
    for (std::size_t axis = 1; axis < parameter.extent.size(); ++axis)
      columns *= parameter.extent[axis];
    for (Index i = 0; i < parameter.extent[0]; ++i)
      for (Index j = 0; j < columns; ++j)
        if (const float value = parameter.at(i, j); !std::isfinite(value))
          return fail(parameter.name,
                      fmt::format("`parameters`: \"{}\" is {} at element {}; give finite numbers",
                                  parameter.name, value, i * columns + j));
  }

  std::vector<Parameter> given_;
  OptionFaults& faults_;
  std::map<std::string, std::vector<const Parameter*>> by_name_;
  std::vector<std::string> known_;
};

void fill_matrix(Network& network, int edge, const Parameter& given) {
  scatter_rows(network, edge, 0, [&](Index first, MatrixView<float> rows) {
    for (Index r = 0; r < rows.rows; ++r)
      for (Index c = 0; c < rows.cols; ++c) rows(r, c) = given.at(first + r, c);
  });
}

std::vector<float> vector_of(const Parameter& given) {
  std::vector<float> whole(std::size_t(given.extent[0]));
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = given.at(Index(i));
  return whole;
}

// What does not fit is a fault, and left out.
void fill(Network& network, GivenParameters& given) {
  for (const NetworkParameter& parameter : network.parameters()) {
    if (parameter.matrix) {
      const std::vector<Index> extent = array_extent(network.graph(), parameter.edge);
      if (const Parameter* array = given.take(parameter.name, extent))
        fill_matrix(network, parameter.edge, *array);
      continue;
    }
    const Index units = network.unit_layer(parameter.layer)->partition().width();
    if (const Parameter* array = given.take(parameter.name, {units}))
      scatter_units(network, parameter.layer, vector_of(*array), *parameter.vector);
  }
  for (int layer : network.order()) {
    if (!network.weights_features(layer)) continue;
    const LayerDescriptor& input = network.descriptor().layers[std::size_t(layer)];
    if (const Parameter* array = given.take(feature_weights_name(input.name), {input.units()}))
      network.set_feature_weights(layer, vector_of(*array));
  }
  given.end();
}

std::vector<LabelTable> labels_by_layer(const NetworkDescriptor& network,
                                        const std::map<std::string, LabelTable>& given,
                                        OptionFaults& faults) {
  std::vector<LabelTable> labels(network.layers.size());
  std::vector<std::string> names;
  for (const LayerDescriptor& layer : network.layers)
    if (rules_of(layer.kind).has_data) names.push_back(layer.name);
  for (const auto& [name, table] : given) {
    const auto found = std::ranges::find(network.layers, name, &LayerDescriptor::name);
    const auto fail = [&](const std::string& message) {
      faults.add({{}, 0, 0, "unit_labels", message});
    };
    if (found == network.layers.end() || !rules_of(found->kind).has_data)
      fail(
          fmt::format("`unit_labels`: the network has no Input or Output layer \"{}\"{} It has: "
                      "{}",
                      name, did_you_mean(name, names, "."), join(names)));
    else if (table.size() > found->units())
      fail(fmt::format("`unit_labels`: layer \"{}\" has {} units, but {} labels", name,
                       found->units(), table.size()));
    else
      labels[std::size_t(found - network.layers.begin())] = table;
  }
  return labels;
}

}  // namespace

std::string canonical_network(const std::string& network) {
  return to_json(read_network(network, {}));
}

std::unique_ptr<Model> model_from_parameters(const ModelParts& parts, ModelOptions options) {
  if (!options.ranks) options.ranks = make_single_process();
  Communicator& ranks = *options.ranks;
  const NetworkDescriptor descriptor = read_network(parts.network, shared_log(options.log, ranks));
  require_sizes(descriptor);
  HeldNetwork held{options.ranks, make_runtime(options.device, ranks), {}, {}};
  held.network = make_network(descriptor, shapes_without_data(descriptor), kWhere, *held.runtime,
                              held.runtime->context(ranks, options.log), 1);
  OptionFaults faults;
  GivenParameters given(parts.parameters, faults);
  fill(*held.network, given);
  held.network->set_unit_labels(labels_by_layer(descriptor, parts.unit_labels, faults));
  faults.throw_any();
  return ModelAccess::of(std::move(held), std::nullopt, std::move(options));
}

}  // namespace norn::run
