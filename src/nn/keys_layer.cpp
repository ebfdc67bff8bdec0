// SPDX-License-Identifier: Apache-2.0
// The table of keys: the layer level.
#include "src/nn/key_builders.h"

namespace norn::keys {
namespace {

template <typename Array>
Json::Value json_of_extents(const Array& extents, int count) {
  if (count == 1) return json_of(extents[0]);
  Json::Value array(Json::arrayValue);
  for (int i = 0; i < count; ++i) array.append(json_of(extents[std::size_t(i)]));
  return array;
}

template <typename Array>
int set_extents(Array& extents, const Json::Value& value) {
  extents.fill(1);
  if (!value.isArray()) {
    extents[0] = value.asInt64();
    return 1;
  }
  for (Json::ArrayIndex i = 0; i < value.size(); ++i) extents[i] = value[i].asInt64();
  return int(value.size());
}

std::vector<std::string> names_from(const Json::Value& value) {
  if (value.isString()) return {value.asString()};
  std::vector<std::string> names;
  for (const Json::Value& name : value) names.push_back(name.asString());
  return names;
}

template <typename Access>
Key names_key(std::string name, Access access, std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = ValueType::names;
  key.help = std::move(help);
  key.set = [access](Draft& d, const Json::Value& v) { access(d) = names_from(v); };
  key.get = [access](const Draft& d) {
    const std::vector<std::string>& names = access(d);
    if (names.empty()) return Json::Value();
    if (names.size() == 1) return Json::Value(names[0]);
    Json::Value array(Json::arrayValue);
    for (const std::string& each : names) array.append(each);
    return array;
  };
  return key;
}

// Of kLayerKinds or kLayerTypes.
template <typename E, typename Rules>
std::vector<EnumWord<E>> words_in(const Rules& rules) {
  std::vector<EnumWord<E>> words;
  for (std::size_t i = 0; i < rules.size(); ++i) words.push_back({rules[i].name, E(i)});
  return words;
}

Key kind_key() {
  Key key = enum_key<LayerKind>(
      "Kind", words_in<LayerKind>(kLayerKinds), [](auto& d) -> auto& { return d.layer.kind; },
      "What the layer is for. Target is read, but cannot be run.");
  key.always_written = true;
  key.default_text = "by position: Input for the first layer, Output for the last, else Hidden";
  key.words.push_back(
      {"Pooling", {}, {}, "is read as \"Kind\": \"Hidden\", \"Type\": \"Pooling\"", false});
  key.set = [set = key.set](Draft& d, const Json::Value& v) {
    if (v.asString() != "Pooling") return set(d, v);
    d.layer.kind = LayerKind::hidden;
    d.layer.type = LayerType::pooling;
  };
  return key;
}

Key size_key() {
  Key key;
  key.name = "N";
  key.type = ValueType::size;
  key.limits = from_to(1, kMostUnits);
  key.always_written = true;
  key.help =
      "Units, in all or along x, y, z and w. \"auto\" (Input and Output layers): as wide as the "
      "data "
      "set. On a Convolutional layer: channels; on a Pooling layer: computed.";
  key.set = [](Draft& d, const Json::Value& v) {
    d.layer.auto_size = v.isString();
    if (!v.isString()) d.layer.dimensions = set_extents(d.layer.extent, v);
  };
  key.get = [](const Draft& d) {
    if (d.layer.auto_size) return Json::Value("auto");
    const bool computed = rules_of(d.layer.type).computes_size && d.layer.kind != LayerKind::input;
    if (computed && d.layer.dimensions == 1 && d.layer.extent[0] == 1) return Json::Value();
    return json_of_extents(d.layer.extent, d.layer.dimensions);
  };
  key.default_text = "1";
  return key;
}

Key function_key() {
  Key key = enum_key<PoolingFunction>(
      "Function",
      {{"Max", PoolingFunction::max},
       {"Average", PoolingFunction::average},
       {"LRN", PoolingFunction::lrn},
       {"Maxout", PoolingFunction::maxout},
       {"DotProduct", PoolingFunction::dot_product},
       {"Cosine", PoolingFunction::cosine}},
      [](auto& d) -> auto& { return d.layer.function; },
      "What a Pooling layer computes; it must say.");
  for (Word& word : key.words)
    if (word.name == "LRN") word.aliases.push_back({"LocalResponseNormalization", {}});
  for (const char* never : {"Stochastic", "LocalContrastNormalization", "GlobalTemporal"})
    key.words.push_back({never, {}, "was never implemented, not in DSSTNE either", {}, false});
  key.kinds = kComputed;
  key.types = bit(LayerType::pooling);
  return key;
}

Json::Value activation_word(const Draft& d) {
  const Activation* f = std::get_if<Activation>(&d.layer.activation);
  if (!rules_of(d.layer.type).has_activation && f && std::holds_alternative<Linear>(*f)) return {};
  const std::string_view word = f ? name_of(*f) : SoftMax::name;
  return {word.data(), word.data() + word.size()};
}

Key activation_key() {
  Key key;
  key.name = "Activation";
  key.type = ValueType::word;
  key.kinds = kComputed;
  key.always_written = true;
  key.help = "Output function of the layer's units. Pooling layers have none: Linear.";
  key.words = words_of<Activation>();
  key.words.push_back({std::string(SoftMax::name), {}, {}, {}, true});
  remark_on_alias(key, "PRelu", "is read as LRelu: its slope is RELUSlope and is not learned");
  remark_on_alias(key, "ParametricRectifiedLinear",
                  "is read as LRelu: its slope is RELUSlope and is not learned");
  for (const char* word : {"ReluMax", "LinearMax"})
    key.words.push_back(
        {word,
         {},
         "is not available: DSSTNE computed Linear for it; write \"Linear\" for the "
         "same results, or \"Relu\"",
         {},
         false});
  key.words.push_back(
      {"MaxOut",
       {},
       "is not an activation; write \"Type\": \"Pooling\", \"Function\": \"Maxout\"",
       {},
       false});
  key.set = [](Draft& d, const Json::Value& v) {
    const std::optional<Activation> found = find_named<Activation>(v.asString());
    d.layer.activation = found ? LayerActivation(*found) : LayerActivation(SoftMax{});
  };
  key.get = activation_word;
  return key;
}

Key input_weighting_key() {
  Key scheme = variant_key<InputWeighting>(
      "Scheme", [](auto& d) -> auto& { return d.layer.input_weighting; },
      "InverseDocumentFrequency: ln((1 + n) / (1 + count)) + 1, for a feature that count of n "
      "examples have; InversePopularity: n / max(1, count).");
  scheme.required = true;
  scheme.words.erase(scheme.words.begin());  // None is a layer without the key
  scheme.get = [get = scheme.get](const Draft& d) {
    return weights_features(d.layer.input_weighting) ? get(d) : Json::Value();
  };
  Key exponent = number_key(
      "Exponent", [](auto& d) -> auto& { return d.layer_exponent; }, above(0),
      "Power to which the scheme's number is raised.");
  exponent.default_text = "1; of InversePopularity 0.5";
  exponent.get = [](const Draft& d) {
    return std::visit(
        [](const auto& weighting) {
          if constexpr (requires { weighting.exponent; }) {
            const bool usual =
                weighting.exponent == std::remove_cvref_t<decltype(weighting)>{}.exponent;
            return usual ? Json::Value() : json_of(weighting.exponent);
          } else {
            return Json::Value();
          }
        },
        d.layer.input_weighting);
  };
  return for_kinds(
      object_key("InputWeighting", {scheme, exponent},
                 "Sparse data: entries are multiplied by a weight of their feature, before "
                 "Normalize: the rarer in the training data, the larger. Norn's own."),
      kInput);
}

Key augment_key() {
  return for_kinds(
      object_key("Augment",
                 {integer_key(
                      "Crop", [](auto& d) -> auto& { return d.layer.augment.crop; },
                      from_to(0, kMostUnits),
                      "Units of border along x and y on each side, stored zeros, out of which a "
                      "part of the image's size is cropped at random; below the image's size."),
                  boolean_key(
                      "Flip", [](auto& d) -> auto& { return d.layer.augment.flip; },
                      "Every image is mirrored along x with probability 1/2.")},
                 "Dense data: in training, and only there, every image of an epoch is moved and "
                 "mirrored at random, all its channels alike, before Normalize. Norn's own."),
      kInput);
}

Key entry_weights_key() {
  using enum EntryWeightScheme;
  std::vector<EnumWord<EntryWeightScheme>> words;
  for (const EntryWeightScheme scheme : {value, linear, log})
    words.push_back({name_of(scheme), scheme});
  Key scheme = enum_key<EntryWeightScheme>(
      "Scheme", words, [](auto& d) -> auto& { return d.layer.entry_weights.scheme; },
      "The weight of an entry of value v. Value: v; Linear: 1 + Alpha v; Log: 1 + Alpha ln(1 + v / "
      "Epsilon).");
  scheme.required = true;
  Key alpha = number_key(
      "Alpha", [](auto& d) -> auto& { return d.layer.entry_weights.alpha; }, at_least(0),
      "Linear and Log: how much values count.");
  Key epsilon = number_key(
      "Epsilon", [](auto& d) -> auto& { return d.layer.entry_weights.epsilon; }, above(0),
      "Log: the value from which on more counts less.");
  return for_kinds(
      object_key(
          "EntryWeights", {scheme, alpha, epsilon},
          "Sparse data: values of the data set are no targets, but say what the cost and the "
          "delta of each entry are multiplied by; every entry is a one, and entries that are "
          "absent count 1. Data without values have 1. Norn's own."),
      kOutput);
}

Key factored_key() {
  Key rule = enum_key<FactoredRule>(
      "Rule", {{"Newton", FactoredRule::newton}, {"SGD", FactoredRule::sgd}},
      [](auto& d) -> auto& { return d.layer.factored.rule; },
      "SGD: the layer's step of gradient descent. Newton: that times the inverse of the mean "
      "covariance of its source's activations.");
  rule.required = true;
  Key damping = number_key(
      "Damping", [](auto& d) -> auto& { return d.layer.factored.damping; }, above(0),
      "Newton: what is added to the diagonal of the covariance, in means of that diagonal; more in "
      "the first steps.");
  return for_kinds(
      object_key(
          "Factored",
          {rule,
           by_default(number_key(
                          "Rate", [](auto& d) -> auto& { return d.layer.factored.rate; }, above(0),
                          "Learning rate of the layer, which the schedule changes as the "
                          "network's. Of Newton the share of the way to the least squares of "
                          "the batches so far, for units without a stored target."),
                      "Newton: 0.02; SGD: the network's"),
           damping,
           by_default(
               integer_key(
                   "FoldEvery", [](auto& d) -> auto& { return d.layer.factored.fold_every; },
                   from_to(1, 65535), "Steps after which the product is folded into one matrix."),
               "as many as make that cost an eighth of the rest of a step, at most 96")},
          "Linear layers of networks with ErrorFunction L2: in training the weights are a "
          "product of two matrices, so that a step costs what the stored targets do, and "
          "not all units. The same function, and ordinary models. Norn's own."),
      kOutput);
}

Key features_key() {
  return for_kinds(
      text_key(
          "Features", [](auto& d) -> auto& { return d.layer.features; },
          "Data set of the features of this layer's units, a row a unit. Units score by them, too: "
          "what is learnt of features is the layer `<Name> features`, Linear, which is added where "
          "there is none. Norn's own."),
      kOutput);
}

std::vector<Key> activation_keys() {
  std::vector<Key> keys;
  keys.push_back(activation_key());
  for (const SharedParameter& parameter : parameters_of<Activation>())
    keys.push_back(for_kinds(
        by_default(parameter_key(
                       *parameter.key, [](Draft & d) -> auto& { return d.layer_activation; },
                       [](const Draft& d, const std::string& name) -> std::optional<float> {
                         const Activation* f = std::get_if<Activation>(&d.layer.activation);
                         return f ? changed_parameter(*f, name) : std::nullopt;
                       }),
                   "the network's"),
        kComputed));
  return keys;
}

std::vector<Key> refused_keys() {
  return {
      refused_key("KernelPadding", "is computed from Kernel and KernelStride; remove it"),
      refused_key("L1Penalty",
                  "was never implemented, not in DSSTNE either; L1 regularisation is Lambda1 of "
                  "\"Training\""),
      refused_key("Recurrent", "was never implemented, not in DSSTNE either; remove it"),
      refused_key("Target",
                  "was never implemented, not in DSSTNE either; an Output layer's "
                  "targets are its DataSet"),
      refused_key("ErrorFunction", "is a key of the network, not of a layer; move it there")};
}

std::vector<Key> make_layer_keys() {
  std::vector<Key> keys;
  keys.push_back(
      by_default(always(text_key(
                     "Name", [](auto& d) -> auto& { return d.layer.name; },
                     "Name of the layer; case matters. Names of a network differ.")),
                 "`Input<i>`, `Hidden<i>`, `Output<i>` or `Target<i>`, i = position from 0"));
  keys.push_back(kind_key());
  keys.push_back(enum_key<LayerType>(
      "Type", words_in<LayerType>(kLayerTypes), [](auto& d) -> auto& { return d.layer.type; },
      "How the layer is connected to its sources. An Input layer that feeds convolutions is "
      "Convolutional. Ranks share out the units of FullyConnected layers, and the examples of "
      "Convolutional layers and of Pooling layers with windows."));
  keys.push_back(size_key());
  keys.push_back(for_kinds(text_key(
                               "DataSet", [](auto& d) -> auto& { return d.layer.dataset; },
                               "Data set that gives the inputs or the targets; case matters."),
                           kInput | kOutput));
  keys.push_back(boolean_key(
      "Sparse", [](auto& d) -> auto& { return d.layer.sparse; },
      "Input: takes part in Denoising (whether inputs are sparse is the data's own word). Hidden: "
      "takes part in SparsenessPenalty."));
  keys.push_back(for_kinds(
      enum_key<InputNormalization>(
          "Normalize", {{"None", InputNormalization::none}, {"L2", InputNormalization::l2}},
          [](auto& d) -> auto& { return d.layer.normalize; },
          "L2: every example's inputs are divided by their Euclidean norm. Norn's own."),
      kInput));
  keys.push_back(input_weighting_key());
  keys.push_back(augment_key());
  keys.push_back(
      always(for_kinds(by_default(names_key(
                                      "Source", [](auto& d) -> auto& { return d.layer.sources; },
                                      "Layers that feed this one, any number of them."),
                                  "the previous layer"),
                       kFed)));
  keys.push_back(for_kinds(names_key(
                               "Skip", [](auto& d) -> auto& { return d.layer.skips; },
                               "Layers whose activations are added before this layer's activation; "
                               "they are as wide as this one."),
                           kComputed));
  keys.push_back(number_key(
      "pDropout", [](auto& d) -> auto& { return d.layer.dropout; }, from_to_below(0, 1),
      "Probability that a unit is dropped in training; kept ones are scaled by 1 / (1 - "
      "pDropout)."));
  for (Key& key : activation_keys()) keys.push_back(std::move(key));
  for (Key& key : layer_weight_keys()) keys.push_back(std::move(key));
  keys.push_back(entry_weights_key());
  keys.push_back(factored_key());
  keys.push_back(features_key());
  for (Key& key : layer_window_keys()) keys.push_back(std::move(key));
  for (Key& key : refused_keys()) keys.push_back(std::move(key));
  return keys;
}

Key window_key(std::string name, std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = ValueType::window;
  key.help = std::move(help);
  key.limits = from_to(1, kMostUnits);
  key.kinds = kFed;
  return by_default(std::move(key), "1");
}

}  // namespace

std::vector<Key> layer_window_keys() {
  Key kernel =
      window_key("Kernel", "Convolutional and Pooling layers: extent of the window along x, y, z.");
  Key stride =
      window_key("KernelStride",
                 "Convolutional and Pooling layers: step of the window along x, y, z. Step "
                 "1 keeps the extent.");
  kernel.set = [](Draft& d, const Json::Value& v) {
    d.layer.kernel_dimensions = set_extents(d.layer.kernel, v);
  };
  kernel.get = [](const Draft& d) {
    if (d.layer.kernel_dimensions == 0) return Json::Value();
    return json_of_extents(d.layer.kernel, d.layer.kernel_dimensions);
  };
  stride.set = [](Draft& d, const Json::Value& v) { set_extents(d.layer.stride, v); };
  stride.get = [](const Draft& d) {
    int count = 3;
    while (count > 0 && d.layer.stride[std::size_t(count - 1)] == 1) --count;
    if (count == 0) return Json::Value();
    return json_of_extents(d.layer.stride, std::max(count, d.layer.kernel_dimensions));
  };
  return {function_key(), kernel, stride};
}

const std::vector<Key>& layer_keys() {
  static const std::vector<Key> keys = make_layer_keys();
  return keys;
}

}  // namespace norn::keys
