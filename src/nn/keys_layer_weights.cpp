// SPDX-License-Identifier: Apache-2.0
// The table of keys: how a layer's weights start, are shared and are held in check.
#include "src/nn/key_builders.h"

namespace norn::keys {
namespace {

Key weight_init_key() {
  Key scheme = variant_key<Initializer>(
      "Scheme", [](auto& d) -> auto& { return d.layer.init.scheme; },
      "Distribution of the initial weights.");
  Key scale = number_key(
      "Scale", [](auto& d) -> auto& { return d.layer_scale; }, {},
      "Scale of the distribution. SELU has none.");
  scale.default_text = "1";
  scale.get = [](const Draft& d) {
    const float value = std::visit([](const auto& s) { return s.scale; }, d.layer.init.scheme);
    return value == Xavier{}.scale ? Json::Value() : json_of(value);
  };
  Key bias = number_key(
      "Bias", [](auto& d) -> auto& { return d.layer.init.bias; }, {},
      "Initial bias of every unit.");
  return for_kinds(object_key("WeightInit", {scheme, scale, bias},
                              "Initial weights of all connections into the layer."),
                   kComputed);
}

Key sparseness_key() {
  Key p = number_key(
      "p", [](auto& d) -> auto& { return d.layer_sparseness_p; }, from_to(0, 1),
      "Mean activation that is aimed at.");
  Key beta = number_key(
      "beta", [](auto& d) -> auto& { return d.layer_sparseness_beta; }, at_least(0),
      "Weight of the penalty; 0 turns it off.");
  p.default_text = beta.default_text = "the network's";
  p.get = [](const Draft& d) {
    return d.layer.sparseness ? json_of(d.layer.sparseness->p) : Json::Value();
  };
  beta.get = [](const Draft& d) {
    return d.layer.sparseness ? json_of(d.layer.sparseness->beta) : Json::Value();
  };
  Key key = object_key("SparsenessPenalty", {p, beta},
                       "Overrides the network's values, where the network has a penalty and the "
                       "layer says \"Sparse\": true.");
  key.kinds = kHidden;
  key.boolean_note = "as a boolean: true is read as \"Sparse\": true, false as {\"beta\": 0}";
  key.set = [](Draft& d, const Json::Value& v) {
    if (v.asBool()) d.layer.sparse = true;
    if (!v.asBool()) d.layer_sparseness_beta = 0.0f;
  };
  return key;
}

Key shared_weights_key() {
  std::vector<Key> members;
  members.push_back(text_key(
      "InputLayer", [](auto& d) -> auto& { return d.shared.input_layer; },
      "The source of this layer whose weights are shared."));
  members.push_back(text_key(
      "SourceInputLayer", [](auto& d) -> auto& { return d.shared.source_input_layer; },
      "Source of the connection whose weights are used."));
  members.push_back(text_key(
      "SourceOutputLayer", [](auto& d) -> auto& { return d.shared.source_output_layer; },
      "Destination of the connection whose weights are used."));
  for (Key& member : members) member.required = true;
  members.push_back(
      with_aliases(boolean_key(
                       "Transposed", [](auto& d) -> auto& { return d.shared.transposed; },
                       "Whether the weights are used the other way round."),
                   {{"Transpose", "is read as Transposed"}}));
  Key key = object_key("SharedWeights", std::move(members),
                       "Connections into this layer that use the weights of another connection; "
                       "biases are never shared.");
  key.type = ValueType::objects;
  key.kinds = kComputed;
  key.begin_entry = [](Draft& d) { d.shared = {}; };
  key.end_entry = [](Draft& d) { d.layer.shared_weights.push_back(d.shared); };
  key.get = [](const Draft& d) {
    Json::Value array(d.layer.shared_weights.empty() ? Json::nullValue : Json::arrayValue);
    for (const SharedWeights& shared : d.layer.shared_weights) {
      Json::Value entry;
      entry["InputLayer"] = shared.input_layer;
      entry["SourceInputLayer"] = shared.source_input_layer;
      entry["SourceOutputLayer"] = shared.source_output_layer;
      if (shared.transposed) entry["Transposed"] = true;
      array.append(entry);
    }
    return array;
  };
  return key;
}

}  // namespace

std::vector<Key> layer_weight_keys() {
  std::vector<Key> keys;
  keys.push_back(weight_init_key());
  keys.push_back(
      for_kinds(number_key(
                    "WeightNorm", [](auto& d) -> auto& { return d.layer.weight_norm; }, at_least(0),
                    "Upper bound of the Euclidean norm of each unit's incoming weights, from all "
                    "sources together; "
                    "0: none."),
                kComputed));
  keys.push_back(
      for_kinds(number_key(
                    "DeltaNorm", [](auto& d) -> auto& { return d.layer.delta_norm; }, at_least(0),
                    "Upper bound of the Euclidean norm of each example's deltas; 0: none."),
                kComputed));
  keys.push_back(shared_weights_key());
  keys.push_back(for_kinds(
      boolean_key(
          "BatchNormalization", [](auto& d) -> auto& { return d.layer.batch_normalization; },
          "Whether pre-activations are normalised over the batch."),
      kHidden));
  keys.push_back(sparseness_key());
  return keys;
}

}  // namespace norn::keys
