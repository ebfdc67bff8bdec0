// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

/// The documentation of keys, one by one, from the table that docs/user/descriptor.md is made of.
namespace norn {

/// What a key of a network's or a machine's description, or of a command file, means: type, values,
/// default, where it stands, an example. `name` is a key ("Activation"), one of an object
/// ("Training.Alpha", or "Alpha" alone), another spelling of it, or a value of choice ("SoftMax"),
/// in any case. A name that stands in several places gives all of them. Nothing when there is no
/// such name.
std::optional<std::string> explain_key(const std::string& name);

/// The names of all keys, as "Training.Alpha", in the order of the documents; those of
/// machines and command files are left out.
std::vector<std::string> key_names();

/// What explain_key() knows beside them: keys alone, their other spellings, values of choice.
std::vector<std::string> words_of_keys();

/// The keys with a line each, by where they stand.
std::string key_list();

/// An example of each key of networks and of layers, for tests: the object that it stands in.
struct KeyExample {
  std::string name;
  std::string json;    ///< `{ "Kind": "Hidden", "Activation": "Sigmoid" }`
  bool layer = false;  ///< of a layer, else of the network
};
std::vector<KeyExample> key_examples();

}  // namespace norn
