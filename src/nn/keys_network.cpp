// SPDX-License-Identifier: Apache-2.0
// The table of keys: the network level.
#include "src/nn/key_builders.h"
#include "src/nn/recipe.h"

namespace norn::keys {
namespace {

// The version that DSSTNE's last release wrote.
constexpr float kVersion = 0.9f;

Key version_key() {
  Key key;
  key.name = "Version";
  key.type = ValueType::number;
  key.help =
      "Version of the descriptor format, at least 0.7. Versions since then mean the same here.";
  key.limits = at_least(0.6999);
  key.always_written = true;
  key.set = [](Draft&, const Json::Value&) {};
  key.get = [](const Draft&) { return json_of(kVersion); };
  return key;
}

Key schema_key() {
  Key key;
  key.name = "$schema";
  key.help = "For editors: where network.schema.json lies. Not read.";
  key.set = [](Draft&, const Json::Value&) {};
  return key;
}

// The reader takes what it says before all other keys.
Key recipe_key() {
  Key key;
  key.name = "Recipe";
  key.type = ValueType::word;
  key.help =
      "What this descriptor does not say itself follows from the data by this recipe "
      "(docs/user/recipes.md); entries of Layers then are changes to the recipe's layers Input, "
      "Hidden "
      "and Output. For the trainer alone; models hold what came of it. Norn's own.";
  for (const std::string& name : recipe_names()) key.words.push_back({name, {}, {}, {}, true});
  key.set = [](Draft&, const Json::Value&) {};
  return key;
}

Key weights_data_key() {
  Key key;
  key.name = "WeightsData";
  key.aliases = {{"WeightData", "is read as WeightsData"}};
  key.help = "Accepted for DSSTNE's sake, without effect: initial weights come from a model file.";
  key.has_effect = false;
  key.set = [](Draft&, const Json::Value&) {};
  return key;
}

Key loss_key() {
  Key key = variant_key<Loss>(
      "ErrorFunction", [](auto& d) -> auto& { return d.network.loss; },
      "Loss of all Output layers, summed over them.");
  key.always_written = true;
  remark_on_alias(key, "SMCE", "is read as ScaledMarginalCrossEntropy");
  remark_on_alias(key, "DSMCE", "is read as DataScaledMarginalCrossEntropy");
  return key;
}

Key layers_key() {
  Key key;
  key.name = "Layers";
  key.type = ValueType::layers;
  key.help =
      "The layers, sources before the layers that they feed by custom, in any order by right. With "
      "a Recipe none need be said.";
  key.required = true;
  return key;
}

// What layers take that do not say themselves; the descriptor keeps it with each layer.
std::vector<Key> activation_defaults() {
  std::vector<Key> keys;
  for (const SharedParameter& parameter : parameters_of<Activation>()) {
    Key key = parameter_key(
        *parameter.key, [](Draft & d) -> auto& { return d.activation; },
        [](const Draft&, const std::string&) { return std::optional<float>(); });
    key.help.pop_back();  // the full stop
    key.help += ", for layers that give none.";
    keys.push_back(by_default(std::move(key), parameter.default_text()));
  }
  return keys;
}

std::vector<Key> make_network_keys() {
  std::vector<Key> keys;
  keys.push_back(schema_key());
  keys.push_back(version_key());
  keys.push_back(recipe_key());
  keys.push_back(text_key(
      "Name", [](auto& d) -> auto& { return d.network.name; }, "Name of the network."));
  keys.push_back(enum_key<NetworkKind>(
      "Kind",
      {{"FeedForward", NetworkKind::feed_forward}, {"AutoEncoder", NetworkKind::auto_encoder}},
      [](auto& d) -> auto& { return d.network.kind; },
      "Kept with the model; both kinds are trained alike."));
  keys.push_back(loss_key());
  keys.push_back(enum_key<TargetWeight>(
      "TargetWeight", {{"InverseCount", TargetWeight::inverse_count}, {"One", TargetWeight::one}},
      [](auto& d) -> auto& { return d.network.target_weight; },
      "What a stored target counts for under SoftMax: 1 / number of the example's targets "
      "(DSSTNE's), or 1 (the multinomial likelihood). Norn's own."));
  keys.push_back(always(boolean_key(
      "ShuffleIndices", [](auto& d) -> auto& { return d.network.shuffle; },
      "Whether every epoch visits the examples in a new random order.")));
  for (Key& key : network_objects()) keys.push_back(std::move(key));
  for (Key& key : activation_defaults()) keys.push_back(std::move(key));
  keys.push_back(number_key(
      "Decay", [](auto& d) -> auto& { return d.network.decay; }, at_least(0),
      "The rate of a step is Alpha / (1 + Decay * steps before it)."));
  keys.push_back(weights_data_key());
  keys.push_back(training_key());
  keys.push_back(layers_key());
  return keys;
}

}  // namespace

const std::vector<Key>& network_keys() {
  static const std::vector<Key> keys = make_network_keys();
  return keys;
}

}  // namespace norn::keys
