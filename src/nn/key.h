// SPDX-License-Identifier: Apache-2.0
// What the table of keys is made of: one entry says everything that reader, writer, documents and
// schema need to know of a key.
#pragma once

#include "norn/nn/machine.h"
#include "src/nn/command_file.h"
#include "src/nn/descriptor.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <json/value.h>

namespace norn::keys {

/// Parameters of a value, by their names. They are settled only when all keys of a text are known:
/// the value (an activation, a loss, a rule) may be named after them.
using GivenParameters = std::map<std::string, float, std::less<>>;

/// What keys read into and write from: the network and the layer at hand, or a machine.
struct Draft {
  NetworkDescriptor network;
  GivenParameters activation;  ///< the network's, for layers that do not say
  GivenParameters loss;
  GivenParameters rule;

  LayerDescriptor layer;
  GivenParameters layer_activation;
  std::optional<float> layer_scale;
  std::optional<float> layer_exponent;  ///< of InputWeighting
  std::optional<float> layer_sparseness_p;
  std::optional<float> layer_sparseness_beta;
  SharedWeights shared;  ///< the entry of SharedWeights at hand

  MachineDescription machine;
  ProductRates products;  ///< the entry at hand
  LinkWay link;           ///< the entry at hand

  CommandFile command;

  /// Makes room for the next layer.
  void begin_layer(LayerKind kind);
  /// Puts the values that waited for it into the layer, or the network.
  void finish_layer();
  void finish_network();
};

enum class ValueType {
  text,
  boolean,  ///< true, false, 1 or 0
  number,
  integer,
  word,    ///< one of a list of words, in any case
  names,   ///< a name or an array of names
  size,    ///< N: a number, an array of 1 to 4, or "auto"
  window,  ///< a number or an array of 1 to 3
  object,
  objects,  ///< an object or an array of objects
  layers    ///< the layers of the network
};

/// Another accepted spelling; `note` is what the reader remarks when it meets it.
struct Spelling {
  std::string name;
  std::string note;
};

struct Word {
  std::string name;
  std::vector<Spelling> aliases;
  std::string refusal;  ///< known, but refused for this reason
  std::string note;     ///< remarked when it is used
  bool listed = true;   ///< whether documents and messages offer it
};

using Limits = ParameterLimits;

/// The members of sets of layer kinds, and of layer types.
constexpr unsigned bit(LayerKind kind) {
  return 1u << unsigned(kind);
}
constexpr unsigned bit(LayerType type) {
  return 1u << unsigned(type);
}
enum KindSet : unsigned {
  kInput = bit(LayerKind::input),
  kHidden = bit(LayerKind::hidden),
  kOutput = bit(LayerKind::output),
  kTarget = bit(LayerKind::target),
  kFed = kHidden | kOutput | kTarget,
  kComputed = kHidden | kOutput,
  kAllKinds = (1u << kLayerKinds.size()) - 1
};
constexpr unsigned kAllTypes = (1u << kLayerTypes.size()) - 1;

struct Key {
  std::string name;
  ValueType type = ValueType::text;
  std::string help;
  std::vector<Spelling> aliases;
  std::vector<Word> words;
  Limits limits;
  unsigned kinds = kAllKinds;  ///< layer keys: where it is legal
  unsigned types = kAllTypes;  ///< layer keys: with which "Type"
  bool always_written = false;
  bool required = false;
  bool has_effect = true;
  std::string refusal;       ///< known from documents, but refused for this reason
  std::string default_text;  ///< when the default is not what `get` gives for a new draft
  std::string boolean_note;  ///< objects that may be a boolean instead: what is remarked then
  std::vector<Key> members;  ///< of objects

  /// Takes a value that fault_of() found right; a word comes in the spelling of `words`.
  std::function<void(Draft&, const Json::Value&)> set;
  /// The value of a descriptor; empty, or null, when there is none to write.
  std::function<Json::Value(const Draft&)> get;
  /// Around each entry of `objects`.
  std::function<void(Draft&)> begin_entry;
  std::function<void(Draft&)> end_entry;

  bool legal_for(LayerKind kind, LayerType layer_type) const {
    return (kinds & bit(kind)) != 0 && (types & bit(layer_type)) != 0;
  }
};

/// The tables, in the order in which documents list the keys.
const std::vector<Key>& network_keys();
const std::vector<Key>& layer_keys();
const std::vector<Key>& machine_keys();
const std::vector<Key>& command_keys();
/// Parts of the tables.
std::vector<Key> network_objects();
Key training_key();
std::vector<Key> layer_weight_keys();
std::vector<Key> layer_window_keys();

const Key* find_key(const std::vector<Key>& keys, const std::string& spelling);
/// The alias by which `spelling` names the key; null when it is the key's own name.
const Spelling* alias_of(const Key& key, const std::string& spelling);

/// The value as it stands; null where there is none to write.
Json::Value held_by(const Draft& draft, const Key& key);
/// The value to write: objects from their members; null when it equals the default.
Json::Value value_of(const Key& key, const Draft& draft);
/// The default as JSON, null when there is none.
Json::Value default_of(const Key& key);

/// Names of a set of kinds or types, out of kLayerKinds or kLayerTypes.
template <typename Rules>
std::vector<std::string> names_in(const Rules& rules, unsigned set) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (set >> i & 1u) names.push_back(rules[i].name);
  return names;
}
/// "Hidden and Output layers".
std::string legal_phrase(const Key& key);

}  // namespace norn::keys
