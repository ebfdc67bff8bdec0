// SPDX-License-Identifier: Apache-2.0
// Reading a network descriptor from JSON, by the table of keys.
#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/base/text_file.h"
#include "norn/nn/descriptor_json.h"
#include "src/nn/graph_parts.h"
#include "src/nn/key_check.h"
#include "src/nn/key_reader.h"
#include "src/nn/naming.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

using keys::Draft;
using keys::Key;
using keys::Member;
using keys::Place;

class Reader final : public keys::KeyReader {
 public:
  using KeyReader::KeyReader;
  NetworkDescriptor read();

 private:
  void read_layers(const Json::Value& layers) override;
  void read_layer(const Json::Value& layer, std::size_t index, std::size_t count);
  void check_layer(const Place& place);
  void note_idle_keys(TextPlace at, const Place& place) const;
  void note_idle_parameters(TextPlace at, const Place& place) const;
  void note_idle_objects() const;
  void check_names();
  void check_sources();

  bool has_all_layers_ = true;  ///< false when an entry is no layer, or its name cannot be
};

void Reader::read_layers(const Json::Value& layers) {
  if (layers.isObject()) return read_layer(layers, 0, 1);
  if (layers.empty())
    text_.error(text_.place_of_key(layers), "Layers",
                "Layers is empty; a network needs at least one layer");
  for (Json::ArrayIndex i = 0; i < layers.size(); ++i) {
    if (layers[i].isObject()) {
      read_layer(layers[i], i, layers.size());
    } else {
      has_all_layers_ = false;
      text_.error(
          text_.place_of(layers[i]), fmt::format("Layers[{}]", i),
          fmt::format("Layers: entry {} is {}; expected an object", i, keys::shown(layers[i])));
    }
  }
}

void Reader::read_layer(const Json::Value& layer, std::size_t index, std::size_t count) {
  const LayerKind by_position = index == 0           ? LayerKind::input
                                : index + 1 == count ? LayerKind::output
                                                     : LayerKind::hidden;
  draft_.begin_layer(by_position);
  const std::vector<Key>& keys = keys::layer_keys();
  Place place{fmt::format("layer {}: ", index), &draft_.layer, true,
              fmt::format("Layers[{}].", index)};
  const std::vector<Member> members = members_of(layer, keys, place);
  const TextPlace begin = text_.place_of(layer);
  draft_.layer.places[""] = begin;
  std::string name;
  for (const Member& member : members)
    if (member.key && member.key->name == "Name" && member.value->isString())
      name = member.value->asString();
  const auto name_place = [&] {
    const std::string shown = name.empty() ? default_layer_name(draft_.layer.kind, index) : name;
    place.prefix = fmt::format("layer {}: ", keys::shown(shown));
  };
  name_place();
  for (const Member& member : members) {
    if (!member.key) {
      report_unknown(member, keys, place);
      continue;
    }
    const bool right = read_member(member, place);
    if (member.key->name == "Kind") place.kind_known = right;
    if (member.key->name == "Name" && !right) has_all_layers_ = false;
    draft_.layer.places[member.key->name] = text_.place_of_key(*member.value);
    name_place();
  }
  draft_.finish_layer();
  check_layer(place);
  note_idle_keys(begin, place);
  note_idle_parameters(begin, place);
  draft_.network.layers.push_back(draft_.layer);
}

// What concerns several keys of a layer.
void Reader::check_layer(const Place& place) {
  const LayerDescriptor& d = draft_.layer;
  const std::string key = place.path + "N";
  const auto given = d.places.find("N");
  const TextPlace at = given != d.places.end() ? given->second : d.places.at("");
  if (d.auto_size && place.kind_known) {
    if (d.kind == LayerKind::hidden || d.kind == LayerKind::target)
      text_.error(
          at, key,
          fmt::format("{}N \"auto\" belongs to Input and Output layers; give {} a number of "
                      "units",
                      place.prefix, keys::kind_phrase(d.kind)));
    else if (d.dataset.empty())
      text_.error(at, key,
                  fmt::format("{}N \"auto\" needs a DataSet to take the width from; name one, "
                              "or give a number of units",
                              place.prefix));
  }
  if (const std::string fault = extent_fault(d); !fault.empty())
    text_.error(at, key, place.prefix + fault);
}

void Reader::note_idle_keys(TextPlace at, const Place& place) const {
  const LayerDescriptor& d = draft_.layer;
  const auto idle = [&](const std::string& key, const std::string& where) {
    text_.note(at, fmt::format("{}{} has no effect {}", place.prefix, key, where));
  };
  if (d.type == LayerType::fully_connected && d.kernel_dimensions > 0)
    idle("Kernel", "on a FullyConnected layer");
  if (d.type == LayerType::pooling && d.dropout > 0.0f) idle("pDropout", "on a Pooling layer");
  for (int axis = d.kernel_dimensions; axis < 3; ++axis)
    if (d.type != LayerType::fully_connected && d.stride[std::size_t(axis)] > 1)
      idle(fmt::format("KernelStride {}", d.stride[std::size_t(axis)]),
           fmt::format("along axis {}, where Kernel gives no window", "xyz"[axis]));
}

// Parameters of another activation than the layer's.
void Reader::note_idle_parameters(TextPlace at, const Place& place) const {
  const auto note = [&](const char* key) {
    text_.note(at, fmt::format("{}{} has no effect with its Activation", place.prefix, key));
  };
  const keys::ActivationParameters& given = draft_.layer_activation;
  const auto visit = [&](const auto& f) {
    if (given.relu_slope && !requires { f.relu_slope; }) note("RELUSlope");
    if (given.elu_alpha && !requires { f.alpha; }) note("ELUAlpha");
    if (given.selu_lambda && !requires { f.lambda; }) note("SELULambda");
  };
  if (const Activation* activation = std::get_if<Activation>(&draft_.layer.activation))
    std::visit(visit, *activation);
  else
    visit(SoftMax{});
}

// Values that another loss or update rule would have used.
void Reader::note_idle_objects() const {
  const keys::MarginParameters& margin = draft_.margin;
  const bool margins =
      margin.one_target || margin.zero_target || margin.one_scale || margin.zero_scale;
  std::visit(
      [&](const auto& loss) {
        if (margins && !requires { loss.one_target; })
          text_.note({},
                     fmt::format("ScaledMarginalCrossEntropy has no effect with ErrorFunction {}",
                                 loss.name));
      },
      draft_.network.loss);
  std::visit(
      [&](const auto& rule) {
        if (draft_.mu && !requires { rule.mu; })
          text_.note({}, fmt::format("Training: Mu has no effect with Optimizer {}", rule.name));
        if (draft_.mu1 && !requires { rule.mu1; })
          text_.note({}, fmt::format("Training: Mu1 has no effect with Optimizer {}", rule.name));
      },
      draft_.network.training.optimizer);
  const auto& layers = draft_.network.layers;
  const bool denoised = std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer.kind == LayerKind::input && layer.sparse;
  });
  if (draft_.network.denoising > 0.0f && !denoised)
    text_.note({}, "Denoising has no effect: no Input layer says \"Sparse\": true");
}

void Reader::check_names() {
  std::vector<LayerDescriptor>& layers = draft_.network.layers;
  fill_names_and_sources(draft_.network);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (layers[i].name != layers[j].name) continue;
      text_.error(layers[i].places.at(""), fmt::format("Layers[{}].Name", i),
                  fmt::format("layer {}: Name is that of layer {}, too (line {}); names of layers "
                              "must differ",
                              keys::shown(layers[i].name), j, layers[j].places.at("").line));
      break;
    }
}

// Names that no layer has, beside the errors that keep the network from being built.
void Reader::check_sources() {
  if (!has_all_layers_) return;
  for (const Problem& problem : graph_parts::unknown_names(draft_.network, text_.source()))
    text_.error({problem.line, problem.column}, problem.key, problem.message);
}

NetworkDescriptor Reader::read() {
  const Json::Value& root = text_.root();
  if (!root.isObject()) {
    text_.error({1, 1}, {},
                fmt::format("{} is not a network; expected a JSON object", keys::shown(root)));
    text_.throw_errors();
  }
  Key network;
  network.members = keys::network_keys();
  read_members(root, network, {});
  draft_.finish_network();
  note_idle_objects();
  check_names();
  if (!text_.errors().empty()) check_sources();
  text_.throw_errors();
  return draft_.network;
}

}  // namespace

NetworkDescriptor parse_network_json(const std::string& text, const std::string& source,
                                     const std::function<void(const std::string&)>& note) {
  JsonText json(text, source, note);
  return Reader(json).read();
}

NetworkDescriptor read_network_json(const std::filesystem::path& file,
                                    const std::function<void(const std::string&)>& note) {
  const std::optional<std::string> text = read_text_file(file);
  if (!text)
    throw UsageError(
        fmt::format("{}: cannot be read; expected a network descriptor in JSON", file.string()));
  return parse_network_json(*text, file.string(), note);
}

}  // namespace norn
