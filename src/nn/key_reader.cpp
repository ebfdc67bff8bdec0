// SPDX-License-Identifier: Apache-2.0
// Reading the members of JSON objects by a table of keys.
#include "src/nn/key_reader.h"

#include "src/base/text.h"
#include "src/nn/key_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace norn::keys {
namespace {

// Members in the order in which they are read: Kind and Type first, because they say which keys are
// legal, Layers last, because they take what the network gives; otherwise as in the text.
int reading_rank(const Member& member) {
  if (!member.key) return 2;
  if (member.key->name == "Kind") return 0;
  if (member.key->name == "Type") return 1;
  return member.key->type == ValueType::layers ? 3 : 2;
}

}  // namespace

std::vector<Member> KeyReader::members_of(const Json::Value& object, const std::vector<Key>& keys,
                                          const Place& place) {
  std::vector<Member> members;
  for (const std::string& spelling : object.getMemberNames())
    members.push_back({spelling, find_key(keys, spelling), &object[spelling]});
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.value->getOffsetStart() < b.value->getOffsetStart();
  });
  drop_repetitions(members, place);
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return reading_rank(a) < reading_rank(b);
  });
  return members;
}

// One key in several spellings: the last one counts.
void KeyReader::drop_repetitions(std::vector<Member>& members, const Place& place) const {
  std::map<const Key*, std::string> seen;
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (!member->key) continue;
    const auto [last, is_new] = seen.emplace(member->key, member->spelling);
    if (is_new) continue;
    text_.note(text_.place_of_key(*member->value),
               fmt::format("{}{} is given again as {}; the last one counts", place.prefix,
                           member->spelling, last->second));
    member->value = nullptr;
  }
  std::erase_if(members, [](const Member& member) { return !member.value; });
}

void KeyReader::report_unknown(const Member& member, const std::vector<Key>& keys,
                               const Place& place) {
  std::vector<std::string> known;
  for (const Key& key : keys)
    if (key.refusal.empty() &&
        (!place.layer || key.legal_for(place.layer->kind, place.layer->type)))
      known.push_back(key.name);
  std::vector<std::string> near = known;
  for (const Key& key : keys)
    for (const Spelling& alias : key.aliases)
      if (alias.note.empty()) near.push_back(alias.name);
  std::string hint = did_you_mean(member.spelling, near);
  if (hint.empty()) hint = fmt::format(". Known: {}", join(known));
  text_.error(text_.place_of_key(*member.value), place.path + member.spelling,
              fmt::format("{}unknown key {}{}", place.prefix, shown(member.spelling), hint));
}

// Whether the member is right.
bool KeyReader::read_member(const Member& member, const Place& place) {
  const Key& key = *member.key;
  const TextPlace at = text_.place_of_key(*member.value);
  const auto fail = [&](const std::string& what) {
    text_.error(at, place.path + key.name,
                fmt::format("{}{} {}", place.prefix, member.spelling, what));
    return false;
  };
  if (!key.refusal.empty()) return fail(key.refusal);
  if (place.layer && place.kind_known && !key.legal_for(place.layer->kind, place.layer->type)) {
    const bool type = (key.kinds & bit(place.layer->kind)) != 0;
    return fail(fmt::format("is not a key of {}; it belongs to {}",
                            type ? fmt::format("a {} layer", rules_of(place.layer->type).name)
                                 : std::string(rules_of(place.layer->kind).phrase),
                            legal_phrase(key)));
  }
  const Checked checked = check_value(key, *member.value);
  if (!checked.fault.empty()) return fail(checked.fault);
  if (const Spelling* alias = alias_of(key, member.spelling))
    if (!alias->note.empty())
      text_.note(at, fmt::format("{}{} {}", place.prefix, member.spelling, alias->note));
  if (!checked.note.empty())
    text_.note(at, fmt::format("{}{} {} {}", place.prefix, member.spelling, shown(*member.value),
                               checked.note));
  if (!key.has_effect)
    text_.note(at,
               fmt::format("{}{} is accepted, but has no effect", place.prefix, member.spelling));
  const Place inner{fmt::format("{}{}: ", place.prefix, member.spelling), nullptr, true,
                    fmt::format("{}{}.", place.path, key.name)};
  if (key.type == ValueType::layers) {
    read_layers(*member.value);
  } else if (key.type == ValueType::objects) {
    read_entries(member, inner);
  } else if (key.type == ValueType::object && member.value->isObject()) {
    read_members(*member.value, key, inner);
  } else {
    key.set(draft_, checked.value);
  }
  return true;
}

void KeyReader::read_members(const Json::Value& object, const Key& key, const Place& place) {
  std::vector<const Key*> given;
  for (const Member& member : members_of(object, key.members, place)) {
    if (!member.key) {
      report_unknown(member, key.members, place);
      continue;
    }
    given.push_back(member.key);
    read_member(member, place);
  }
  for (const Key& member : key.members)
    if (member.required && std::find(given.begin(), given.end(), &member) == given.end())
      text_.error(text_.place_of(object), place.path + member.name,
                  fmt::format("{}{} is missing; expected {}", place.prefix, member.name,
                              expected_phrase(member)));
}

void KeyReader::read_entries(const Member& member, const Place& place) {
  const auto read_entry = [&](const Json::Value& entry) {
    if (!entry.isObject()) {
      text_.error(text_.place_of(entry), place.path.substr(0, place.path.size() - 1),
                  fmt::format("{}{} is not an object; expected {}", place.prefix, shown(entry),
                              expected_phrase(*member.key)));
      return;
    }
    member.key->begin_entry(draft_);
    read_members(entry, *member.key, place);
    member.key->end_entry(draft_);
  };
  if (member.value->isObject()) return read_entry(*member.value);
  for (const Json::Value& entry : *member.value) read_entry(entry);
}

}  // namespace norn::keys
