// SPDX-License-Identifier: Apache-2.0
// The table of settings: that it has all of them, and that they reach the descriptor.
#include "src/run/train_settings.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/json_value.h"
#include "src/run/descriptor_differences.h"
#include "src/run/training_start.h"
#include "tests/data/support.h"
#include "tests/support/message_of.h"

#include <regex>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::HasSubstr;

const TrainSetting& setting(const std::string& name) {
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& one : group.settings)
      if (one.name == name) return one;
  throw UsageError("no setting " + name);
}

// A member that the table lacks would be an option that no program has.
TEST(TrainSettings, HasEveryMemberThatIsASetting) {
  // Where the network, the data and the results are, and what only a program can give.
  const std::set<std::string> others = {
      "config",     "recipe",           "network",  "inputs",     "outputs",     "sets",
      "model",      "resume",           "same_run", "run_dir",    "repeat",      "memory_bytes",
      "data_place", "program",          "recorder", "device",     "ranks",       "log",
      "stop",       "schedule",         "rule",     "validation", "trust_index", "batch_may_shrink",
      "other_data", "validation_values"};
  const std::filesystem::path source = NORN_SOURCE_DIR;
  const std::string header = read_text(source / "include/norn/run/train.h");
  const std::string table = read_text(source / "src/run/train_settings.cpp");
  int found = 0;
  for (const auto& [name, place] : {std::pair{"RateSettings", "o.schedule."},
                                    {"ValidationSettings", "o.validation."},
                                    {"TrainOptions", "o."}}) {
    const std::size_t begin = header.find(std::string("struct ") + name + " {");
    ASSERT_NE(begin, std::string::npos);
    const std::string body = header.substr(begin, header.find("\n};", begin) - begin);
    const std::regex member(R"(\n  [A-Za-z][\w:<>,* ]* (\w+)( =[^;]*)?;)");
    for (std::sregex_iterator at(body.begin(), body.end(), member), end; at != end; ++at) {
      const std::string word = (*at)[1];
      if (others.contains(word)) continue;
      EXPECT_NE(table.find("return " + (place + word) + "; "), std::string::npos)
          << name << "::" << word;
      ++found;
    }
  }
  EXPECT_GT(found, 30);
}

TEST(TrainSettings, PutsEveryWordIntoTheDescriptorAsItIsCalledThere) {
  for (const auto& [name, key] : {std::pair{"optimizer", "Optimizer"},
                                  {"rate_schedule", "RateSchedule"},
                                  {"validation_by", "ValidationBy"}})
    for (const std::string& word : setting(name).words) {
      TrainOptions options;
      *std::get<std::string*>(setting(name).member(options)) = word;
      NetworkDescriptor network;
      options.apply_to(network.training, {});
      const JsonValue training = parse_json(to_json(network), "network")["Training"];
      const std::string said = training[key].text_or(setting(name).default_text);
      EXPECT_TRUE(equal_ignoring_case(said, word)) << name << " " << word << " gives " << said;
    }
}

// A value that is none of the defaults.
void set_other(const TrainSetting& setting, TrainOptions& options) {
  std::visit(
      [&](auto* member) {
        using T = std::remove_cvref_t<decltype(*member)>;
        if constexpr (std::is_same_v<T, std::string>)
          *member = !setting.words.empty()         ? setting.words.back()
                    : setting.name == "metrics_at" ? "3,4"
                                                   : "loss";
        else if constexpr (std::is_same_v<T, bool>)
          *member = true;
        else if constexpr (requires { *member = 1; })
          *member = std::is_same_v<T, std::optional<float>> ? 0.375f : 7;
      },
      setting.member(options));
}

// What a checkpoint is compared by, and messages are made of.
TEST(TrainSettings, StandInTheDescriptorWhereTheirKeysSay) {
  std::set<std::string> found;
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& one : group.settings)
      for (const std::string& rule : setting("optimizer").words) {
        TrainOptions plain;
        if (one.name != "optimizer") plain.optimizer = rule;
        TrainOptions changed = plain;
        set_other(one, changed);
        NetworkDescriptor before, after;
        put_settings(plain, before, {});
        put_settings(changed, after, {});
        for (const DescriptorDifference& other : descriptor_differences(after, before)) {
          const bool implied = one.name == "refit" && other.place == "Training.KeepBest";
          if (implied) continue;
          EXPECT_EQ(other.place, one.key) << one.name;
          EXPECT_EQ(other.setting, &one) << one.name;
          found.insert(one.key);
        }
      }
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& one : group.settings)
      EXPECT_EQ(found.contains(one.key), !one.key.empty()) << one.name;
}

TEST(TrainSettings, RefusesWordsAndParametersThatItDoesNotKnow) {
  TrainOptions options;
  options.shuffle = "maybe";
  options.schedule.kind = "linear";
  options.validation.by = "item";
  options.rule["Gamma"] = 0.5f;
  const std::string all = message_of<UsageError>([&] { options.check(); });
  EXPECT_THAT(all, HasSubstr("`shuffle` maybe: there is no such choice; choose of: yes, no"));
  EXPECT_THAT(all, HasSubstr("`rate_schedule` linear: there is no such choice; choose of: "));
  EXPECT_THAT(all, HasSubstr("`validation_by` item: there is no such choice; choose of: user"));
  EXPECT_THAT(all, HasSubstr("`rule` Gamma: no update rule has such a parameter"));
}

TEST(TrainSettings, HoldsEveryNumberWithinItsLimits) {
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& one : group.settings) {
      if (!std::isfinite(one.limits.low)) continue;
      EXPECT_GE(one.limits.low, 0.0) << one.name << ": nothing that is limited may be negative";
      TrainOptions options;
      const bool set = std::visit(
          [&](auto* member) {
            if constexpr (requires { *member = -1; }) {
              *member = -1;
              return true;
            }
            return false;
          },
          one.member(options));
      const bool any_will_do = one.name.ends_with("seed");
      ASSERT_TRUE(set || any_will_do) << one.name;
      if (any_will_do) continue;
      EXPECT_THAT(message_of<UsageError>([&] { options.check(); }),
                  HasSubstr("`" + one.name + "` -1 is out of range: it must be "));
    }
}

}  // namespace
}  // namespace norn::run
