// SPDX-License-Identifier: Apache-2.0
// Whether a JSON value is right for a key, and what to say when it is not.
#pragma once

#include "src/nn/key.h"

#include <string>

namespace norn::keys {

struct Checked {
  std::string fault;  ///< what follows the key in a message; empty when the value is right
  std::string note;   ///< a remark on the spelling, or empty
  Json::Value value;  ///< the value to set; words in the table's spelling
};

/// Objects are looked at from outside only: their members are checked one by one.
Checked check_value(const Key& key, const Json::Value& value);

/// "a number of at least 0 and below 1".
std::string expected_phrase(const Key& key);

/// The value in one line, cut when it is long.
std::string shown(const Json::Value& value);

/// What is wrong with a descriptor that a program filled in: values out of range, and keys that
/// the layer's kind does not have. A message each, without the place of the descriptor.
std::vector<std::string> descriptor_faults(const NetworkDescriptor& network);

}  // namespace norn::keys
