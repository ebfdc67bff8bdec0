// SPDX-License-Identifier: Apache-2.0
// Reading a network descriptor from JSON, by the table of keys.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph_parts.h"
#include "src/nn/key_check.h"
#include "src/nn/key_reader.h"
#include "src/nn/naming.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

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
  /// `recipe`: what the text changes; null: nothing.
  NetworkDescriptor read(const NetworkDescriptor* recipe = nullptr);

 private:
  void read_layers(const Json::Value& layers) override;
  void read_layer(const Json::Value& layer, std::size_t index, std::size_t count);
  void begin_layer(const std::string& name, LayerKind by_position, TextPlace at,
                   const std::string& path);
  void add_layers_of_recipe();
  void check_layer(const Place& place);
  void note_idle_keys(TextPlace at, const Place& place) const;
  void note_idle_parameters(TextPlace at, const Place& place) const;
  void note_idle_objects() const;
  void check_names();
  void check_sources();

  const NetworkDescriptor* recipe_ = nullptr;
  bool has_all_layers_ = true;  ///< false when an entry is no layer, or its name cannot be
};

void Reader::read_layers(const Json::Value& layers) {
  if (layers.isObject()) return read_layer(layers, 0, 1);
  if (layers.empty() && !recipe_)
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
  const std::vector<Key>& keys = keys::layer_keys();
  Place place{fmt::format("layer {}: ", index), &draft_.layer, true,
              fmt::format("Layers[{}].", index)};
  const std::vector<Member> members = members_of(layer, keys, place);
  std::string name;
  for (const Member& member : members)
    if (member.key && member.key->name == "Name" && member.value->isString())
      name = member.value->asString();
  const TextPlace begin = text_.place_of(layer);
  begin_layer(name, by_position, begin, place.path);
  draft_.layer.places[""] = begin;
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
  if (LayerDescriptor& d = draft_.layer; !rules_of(d.type).has_activation &&
                                         !d.places.contains("Activation") &&
                                         is_layer_key("Activation", d.kind, d.type))
    d.activation = Activation(Linear{});
  draft_.finish_layer();
  check_layer(place);
  note_idle_keys(begin, place);
  note_idle_parameters(begin, place);
  draft_.network.layers.push_back(draft_.layer);
}

// With a recipe a layer begins as the recipe's of that name.
void Reader::begin_layer(const std::string& name, LayerKind by_position, TextPlace at,
                         const std::string& path) {
  draft_.begin_layer(by_position);
  if (!recipe_) return;
  if (const LayerDescriptor* layer = recipe_->find(name)) {
    draft_.layer = *layer;
    return;
  }
  std::vector<std::string> names;
  for (const LayerDescriptor& layer : recipe_->layers) names.push_back(layer.name);
  const std::string last = names.back();
  names.pop_back();
  text_.error(
      at, path + "Name",
      fmt::format("layer {}: is none of the recipe's layers {} and {}; name one of them, or "
                  "edit what `print_recipe` writes",
                  keys::shown(name), join(names), last));
}

// Those that the text does not mention, and all in the recipe's order.
void Reader::add_layers_of_recipe() {
  std::vector<LayerDescriptor>& layers = draft_.network.layers;
  std::vector<LayerDescriptor> given = std::move(layers);
  layers.clear();
  for (const LayerDescriptor& of_recipe : recipe_->layers) {
    const auto is_it = [&](const LayerDescriptor& layer) { return layer.name == of_recipe.name; };
    const auto last = std::stable_partition(given.begin(), given.end(), is_it);
    if (last == given.begin()) layers.push_back(of_recipe);
    layers.insert(layers.end(), given.begin(), last);
    given.erase(given.begin(), last);
  }
  layers.insert(layers.end(), given.begin(), given.end());
}

// What concerns several keys of a layer.
void Reader::check_layer(const Place& place) {
  const LayerDescriptor& d = draft_.layer;
  const std::string key = place.path + "N";
  const auto given = d.places.find("N");
  const TextPlace at = given != d.places.end() ? given->second : d.places.at("");
  if (d.auto_size && place.kind_known) {
    if (!rules_of(d.kind).has_data)
      text_.error(
          at, key,
          fmt::format("{}N \"auto\" belongs to Input and Output layers; give {} a number of "
                      "units",
                      place.prefix, rules_of(d.kind).phrase));
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
  const LayerTypeRules& type = rules_of(d.type);
  const std::string where = fmt::format("on a {} layer", type.name);
  if (!type.has_window && d.kernel_dimensions > 0) idle("Kernel", where);
  if (!type.has_activation) {
    if (d.dropout > 0.0f) idle("pDropout", where);
    if (d.weight_norm > 0.0f) idle("WeightNorm", where);
    if (d.delta_norm > 0.0f) idle("DeltaNorm", where);
    if (d.batch_normalization) idle("BatchNormalization", where);
  }
  for (int axis = d.kernel_dimensions; axis < 3; ++axis)
    if (type.has_window && d.stride[std::size_t(axis)] > 1)
      idle(fmt::format("KernelStride {}", d.stride[std::size_t(axis)]),
           fmt::format("along axis {}, where Kernel gives no window", "xyz"[axis]));
}

// Parameters of another activation than the layer's.
void Reader::note_idle_parameters(TextPlace at, const Place& place) const {
  const Activation* f = std::get_if<Activation>(&draft_.layer.activation);
  for (const SharedParameter& parameter : parameters_of<Activation>()) {
    const std::string name(parameter.key->name);
    if (draft_.layer_activation.contains(name) && !(f && parameter_of(*f, name)))
      text_.note(at, fmt::format("{}{} has no effect with its Activation", place.prefix, name));
  }
}

// Values that another loss or update rule would have used.
void Reader::note_idle_objects() const {
  std::string noted;
  for (const SharedParameter& parameter : parameters_of<Loss>()) {
    const ParameterKey& key = *parameter.key;
    if (key.object == noted || !draft_.loss.contains(key.name) ||
        parameter_of(draft_.network.loss, key.name))
      continue;
    noted = key.object;
    text_.note({}, fmt::format("{} has no effect with ErrorFunction {}", key.object,
                               name_of(draft_.network.loss)));
  }
  for (const SharedParameter& parameter : parameters_of<UpdateRule>())
    if (draft_.rule.contains(parameter.key->name) &&
        !parameter_of(draft_.network.training.optimizer, parameter.key->name))
      text_.note({}, fmt::format("Training: {} has no effect with Optimizer {}",
                                 parameter.key->name, name_of(draft_.network.training.optimizer)));
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
  std::unordered_map<std::string_view, std::size_t> first;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto [found, is_new] = first.emplace(layers[i].name, i);
    const std::size_t j = found->second;
    if (!is_new)
      text_.error(layers[i].places.at(""), fmt::format("Layers[{}].Name", i),
                  fmt::format("layer {}: Name is that of layer {}, too (line {}); names of layers "
                              "must differ",
                              keys::shown(layers[i].name), j, layers[j].places.at("").line));
  }
}

// Names that no layer has, beside the errors that keep the network from being built.
void Reader::check_sources() {
  if (!has_all_layers_) return;
  for (const Problem& problem : graph_parts::unknown_names(draft_.network, text_.source()))
    text_.error({problem.line, problem.column}, problem.key, problem.message);
}

NetworkDescriptor Reader::read(const NetworkDescriptor* recipe) {
  const Json::Value& root = text_.root();
  if (!root.isObject()) {
    text_.error({1, 1}, {},
                fmt::format("{} is not a network; expected a JSON object", keys::shown(root)));
    text_.throw_errors();
  }
  Key network;
  network.members = keys::network_keys();
  recipe_ = recipe;
  if (recipe_) {
    draft_.network = *recipe_;
    draft_.network.layers.clear();
    for (Key& key : network.members) key.required = false;
  }
  read_members(root, network, {});
  if (recipe_) add_layers_of_recipe();
  draft_.finish_network();
  note_idle_objects();
  check_names();
  if (!text_.errors().empty()) check_sources();
  text_.throw_errors();
  return draft_.network;
}

// The recipe that a text names: any, where its name is none, so that what the text does not say is
// not missed as well. What is wrong with the key is said when it is read.
std::optional<RecipeKind> recipe_of(JsonText& json, bool has_data) {
  const Json::Value& root = json.root();
  if (!root.isObject()) return {};
  for (const std::string& spelling : root.getMemberNames()) {
    if (!equal_ignoring_case(spelling, "Recipe")) continue;
    if (!has_data) {
      json.error(json.place_of_key(root[spelling]), "Recipe",
                 "Recipe needs the data that it is for: give them together, or what `print_recipe` "
                 "writes");
      json.throw_errors();
    }
    const Json::Value& value = root[spelling];
    if (value.isString() && equal_ignoring_case(value.asString(), kAutomaticRecipe)) {
      json.error(json.place_of_key(value), "Recipe",
                 "auto trains several networks to choose one, and a descriptor is of one network; "
                 "give `recipe` auto without a descriptor");
      json.throw_errors();
    }
    const auto named = value.isString() ? recipe_named(value.asString()) : std::nullopt;
    return named.value_or(RecipeKind::sigmoid);
  }
  return {};
}

// Of a text that names a recipe.
struct RecipeText {
  std::string dataset;                // of the outputs
  std::vector<std::string> features;  // data sets with features of units
  RecipeWishes wishes;
};

RecipeText recipe_text(const std::string& text, const std::string& source, RecipeKind kind) {
  constexpr Index kNotSaid = -1;
  NetworkDescriptor blank = make_recipe(kind, {});
  blank.training.batch = blank.training.epochs = kNotSaid;
  JsonText json(text, source, {});
  const NetworkDescriptor said = Reader(json).read(&blank);
  RecipeText found{said.find("Output")->dataset, {}, {}};
  for (const LayerDescriptor& layer : said.layers)
    if (!layer.features.empty()) found.features.push_back(layer.features);
  RecipeWishes& wishes = found.wishes;
  if (said.training.batch != kNotSaid) wishes.batch = said.training.batch;
  if (said.training.epochs != kNotSaid) wishes.epochs = said.training.epochs;
  const LayerDescriptor* hidden = said.find("Hidden");
  if (hidden && hidden->places.contains("N")) wishes.hidden = hidden->units();
  return found;
}

}  // namespace

NetworkDescriptor parse_network_json(const std::string& text, const std::string& source,
                                     const std::function<void(const std::string&)>& note,
                                     const RecipeSource* data) {
  JsonText json(text, source, note);
  const std::optional<RecipeKind> kind = recipe_of(json, data != nullptr);
  if (!kind) return Reader(json).read();
  // What the text itself says decides what follows from the data: it is read twice.
  const RecipeText said = recipe_text(text, source, *kind);
  RecipeWishes wishes = said.wishes;
  if (data->wishes.batch) wishes.batch = data->wishes.batch;
  if (data->wishes.epochs) wishes.epochs = data->wishes.epochs;
  const RecipeFacts facts = data->facts(said.dataset, said.features);
  const NetworkDescriptor recipe = make_recipe(*kind, facts, wishes);
  return Reader(json).read(&recipe);
}

NetworkDescriptor read_network_json(const std::filesystem::path& file,
                                    const std::function<void(const std::string&)>& note,
                                    const RecipeSource* data) {
  const std::optional<std::string> text = read_text_file(file);
  if (!text)
    throw UsageError(
        fmt::format("{}: cannot be read; expected a network descriptor in JSON", file.string()));
  return parse_network_json(*text, file.string(), note, data);
}

}  // namespace norn
