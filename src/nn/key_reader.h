// SPDX-License-Identifier: Apache-2.0
// What the readers of networks and of machines share.
#pragma once

#include "src/nn/json_text.h"
#include "src/nn/key.h"

#include <string>
#include <vector>

namespace norn::keys {

struct Member {
  std::string spelling;
  const Key* key = nullptr;  ///< null when unknown
  const Json::Value* value = nullptr;
};

/// Where an object stands: what messages begin with, and which keys are legal there.
struct Place {
  std::string prefix;                      ///< `layer "Hidden1": ` or empty, then `WeightInit: `
  const LayerDescriptor* layer = nullptr;  ///< null outside of layers
  bool kind_known = true;                  ///< false after an unknown Kind: legality cannot be told
  std::string path;                        ///< "Layers[1]." or empty, then "WeightInit."
};

/// Reads objects into a draft and reports whatever is wrong with them to the text.
class KeyReader {
 public:
  explicit KeyReader(JsonText& text) : text_(text) {}
  virtual ~KeyReader() = default;
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;

 protected:
  std::vector<Member> members_of(const Json::Value& object, const std::vector<Key>& keys,
                                 const Place& place);
  void report_unknown(const Member& member, const std::vector<Key>& keys, const Place& place);
  /// Whether the member is right.
  bool read_member(const Member& member, const Place& place);
  /// All members of an object that are among those of `key`.
  void read_members(const Json::Value& object, const Key& key, const Place& place);
  virtual void read_layers(const Json::Value& layers) = 0;

  JsonText& text_;
  Draft draft_;

 private:
  void drop_repetitions(std::vector<Member>& members, const Place& place) const;
  void read_entries(const Member& member, const Place& place);
};

}  // namespace norn::keys
