// SPDX-License-Identifier: Apache-2.0
// What activations, losses and update rules say of themselves, against what they compute: one loop
// over all of them for each kind.
#include "kernels/named_variant.h"
#include "kernels/softmax_target.h"
#include "kernels/update_rule.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace norn {
namespace {

class Traits : public samples::RandomTest {
 protected:
  /// A number within the limits, and not far beyond 2.
  float drawn(const ParameterLimits& limits) {
    const float low = float(std::max(limits.low, -2.0));
    const float high = float(std::min(limits.high, 2.0));
    const float value = uniform(low, high);
    return limits.above_low && value <= low ? (low + high) / 2 : value;
  }
  /// Calls body(value) for every alternative of a variant: with its defaults, then with parameters
  /// drawn at random.
  template <typename Variant, typename Body>
  void for_each_value(const Body& body) {
    for (const std::string& name : names_of<Variant>())
      for (int draw = 0; draw < 8; ++draw) {
        Variant value = *find_named<Variant>(name);
        std::string trace = name;
        if (draw > 0)
          visit_parameters(value, [&](const ParameterKey& key, float& parameter) {
            parameter = drawn(key.limits);
            trace += " " + std::string(key.name) + " " + std::to_string(parameter);
          });
        SCOPED_TRACE(trace);
        std::visit(body, value);
        if (HasFatalFailure()) return;
      }
  }
};

template <typename Variant>
void expect_parameters_are_whole() {
  for (const std::string& name : names_of<Variant>()) {
    SCOPED_TRACE(name);
    const Variant held = *find_named<Variant>(name);
    std::visit(
        [](const auto& value) {
          std::set<std::string_view> names;
          std::size_t count = 0;
          visit_parameters(value, [&](const ParameterKey& key, float standard) {
            ++count;
            EXPECT_TRUE(names.insert(key.name).second) << key.name;
            EXPECT_TRUE(double(standard) >= key.limits.low && double(standard) <= key.limits.high);
            EXPECT_EQ(key.help.back(), '.') << key.name;
          });
          // All data members are parameters.
          using Value = std::remove_cvref_t<decltype(value)>;
          EXPECT_EQ(count, std::is_empty_v<Value> ? 0 : sizeof(Value) / sizeof(float));
        },
        held);
  }
}

TEST(Parameters, AreAllDeclaredOnceWithinTheirLimits) {
  expect_parameters_are_whole<Activation>();
  expect_parameters_are_whole<Loss>();
  expect_parameters_are_whole<UpdateRule>();
}

TEST(Parameters, OfLossesNameTheObjectThatTheyStandIn) {
  for (const SharedParameter& parameter : parameters_of<Loss>())
    EXPECT_TRUE(find_named<Loss>(parameter.key->object)) << parameter.key->name;
}

TEST(Parameters, AreFoundSetAndListedByName) {
  UpdateRule rule = Adam{};
  EXPECT_TRUE(set_parameter(rule, "Mu1", 0.5f));
  EXPECT_EQ(std::get<Adam>(rule).mu1, 0.5f);
  EXPECT_EQ(changed_parameter(rule, "Mu1"), 0.5f);
  EXPECT_FALSE(changed_parameter(rule, "Mu"));
  rule = Sgd{};
  EXPECT_FALSE(set_parameter(rule, "Mu1", 0.5f));
  EXPECT_FALSE(parameter_of(rule, "Mu1"));
  const auto all = parameters_of<Activation>();
  EXPECT_EQ(all[0].key->name, "RELUSlope");
  EXPECT_EQ(all[0].default_text(), "0.01");
  EXPECT_EQ(all[1].default_text(), "1 (ELU), 1.67326 (SELU)");
}

template <typename... Values>
std::vector<std::uint32_t> model_numbers(const std::variant<Values...>*) {
  return {Values::model_number...};
}

TEST(Parameters, NumbersInModelFilesDiffer) {
  const auto expect_different = [](std::vector<std::uint32_t> numbers) {
    std::ranges::sort(numbers);
    EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
  };
  expect_different(model_numbers(static_cast<Loss*>(nullptr)));
  std::vector<std::uint32_t> activations = model_numbers(static_cast<Activation*>(nullptr));
  // Of SoftMax, and those that DSSTNE computed as Linear or as nothing.
  activations.insert(activations.end(), {SoftMax::model_number, 4, 8, 9});
  expect_different(activations);
}

TEST_F(Traits, SlopesAreWrittenInWhatActivationsSay) {
  for_each_value<Activation>([](const auto& f) {
    constexpr double h = 1e-6;
    for (double z = -8.05; z < 8; z += 0.1) {
      const double difference = (f.value(z + h) - f.value(z - h)) / (2 * h);
      ASSERT_NEAR(slope_at(f, z, f.value(z)), difference, 2e-8) << "z = " << z;
    }
  });
}

#ifdef NORN_SOURCE_DIR  // the GPU's program runs where no sources are
// What a file defines and its list lacks could be named by nobody.
TEST(Values, AreAllInTheListsOfTheirFiles) {
  const auto expect_listed = [](const char* file, std::vector<std::string> listed) {
    std::ifstream in(std::filesystem::path(NORN_SOURCE_DIR) / "kernels" / file);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const std::regex name("std::string_view name = \"(\\w+)\"");
    int found = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at, ++found) {
      const std::string word = (*at)[1];
      EXPECT_TRUE(word == SoftMax::name || std::ranges::count(listed, word) == 1)
          << file << ": " << word;
    }
    EXPECT_GE(std::size_t(found), listed.size()) << file;
  };
  expect_listed("activation.h", names_of<Activation>());
  expect_listed("loss.h", names_of<Loss>());
  expect_listed("update_rule.h", names_of<UpdateRule>());
}
#endif

TEST_F(Traits, SlopesThatFollowTheSignAreThoseOfAnyOutputOfThatSign) {
  for_each_value<Activation>([this](const auto& f) {
    std::set<float> above, below;
    const auto slope_at = [&](float z) {
      return f.slope(f.slope_from == SlopeFrom::y ? f.value(z) : z);
    };
    for (int i = 0; i < 200; ++i) {
      above.insert(slope_at(uniform(1e-3f, 4.0f)));
      below.insert(slope_at(uniform(-4.0f, -1e-3f)));
    }
    if (f.slope_follows_sign) {
      EXPECT_EQ(above.size(), 1u);
      EXPECT_EQ(below.size(), 1u);
    } else {
      EXPECT_GT(above.size() + below.size(), 2u);
    }
  });
}

TEST_F(Traits, FlatActivationsHaveNoSlopeAtZero) {
  for_each_value<Activation>([](const auto& f) {
    if (f.slope_from == SlopeFrom::y && !f.slope_follows_sign) return;  // nobody asks
    EXPECT_EQ(f.slope(0.0f) == 0.0f, f.flat_at_zero);
    EXPECT_EQ(f.slope(-0.0f) == 0.0f, f.flat_at_zero);
  });
}

TEST_F(Traits, ActivationsThatAreSearchedByPreActivationNeverFall) {
  for_each_value<Activation>([](const auto& f) {
    if (!f.searched_by_z) return;
    double before = f.value(-40.0);
    for (double z = -40.0; z < 40.0; z += 0.003) {
      ASSERT_GE(f.value(z), before) << "z = " << z;
      before = f.value(z);
    }
  });
}

// Standard normal pre-activations: alpha dropout keeps mean 0 and variance 1 of the outputs, so
// what it puts in the place of those left out is the limit that they fall to.
TEST_F(Traits, AlphaDropoutPutsInWhatActivationsFallTo) {
  for_each_value<Activation>([]<typename F>(const F& f) {
    if constexpr (F::dropout == DropoutKind::alpha) {
      EXPECT_NEAR(f.left_out(), f.value(-80.0), 1e-6 * (1.0 + std::abs(f.value(-80.0))));
    }
  });
}

TEST_F(Traits, LossesTakeStoredValuesAsTheirTargetsUnderSoftMaxSay) {
  for_each_value<Loss>([]<typename L>(const L& loss) {
    const auto rule = softmax_target_rule(loss);
    ASSERT_EQ(rule.has_value(), L::is_cross_entropy);
    if constexpr (L::is_cross_entropy) {
      const CrossEntropyTargets targets = loss.softmax_targets();
      EXPECT_EQ(targets.uses_values, loss.stored_target(3.5f) == 3.5f);
      // A one below its margin costs scale * -ln y, as under SoftMax.
      const double y = std::min(0.5, 0.5 * double(targets.one_target));
      if (y > 0.0) {
        EXPECT_NEAR(loss.cost(y, 1.0), -double(targets.scale) * std::log(y), 1e-9);
      }
      if (targets.one_target < 0.999f) {
        EXPECT_EQ(loss.cost((1.0 + double(targets.one_target)) / 2.0, 1.0), 0.0);
        EXPECT_EQ(rule->margin, targets.one_target);
      }
    } else {
      EXPECT_NE(loss.cost(0.25, 1.0), -std::log(0.25));
    }
  });
}

/// A weight and the state that a rule keeps for it, and one float behind it.
struct Weight {
  float w = 0.0f;
  float s[kMostSlots + 1] = {};
  bool operator==(const Weight& other) const {
    return std::memcmp(this, &other, sizeof *this) == 0;
  }
};

TEST_F(Traits, RulesTouchNoMoreSlotsThanTheySay) {
  for_each_value<UpdateRule>([this](const auto& rule) {
    UpdateSchedule schedule;
    schedule.l2 = 0.01f;
    bool used[kMostSlots + 1] = {};
    for (int i = 0; i < 100; ++i) {
      Weight weight{uniform(-1, 1)};
      for (float& s : weight.s) s = uniform(0, 1);
      const Weight before = weight;
      rule.step(weight.w, uniform(-1, 1), weight.s, schedule.at(rule, 3));
      for (int s = 0; s <= kMostSlots; ++s) used[s] = used[s] || weight.s[s] != before.s[s];
    }
    for (int s = 0; s <= kMostSlots; ++s) EXPECT_EQ(used[s], s < rule.slots) << s;
  });
}

TEST_F(Traits, StepsWithoutGradientDoWhatRulesClaim) {
  for_each_value<UpdateRule>([this](const auto& rule) {
    bool rests = true, alike = true;
    for (int i = 0; i < 1000; ++i) {
      Weight first{uniform(-1, 1)};
      for (float& s : first.s) s = uniform(0, 1);
      Weight second = first;
      const Weight before = first;
      UpdateSchedule schedule;
      rule.step(first.w, 0.0f, first.s, schedule.at(rule, 3));
      schedule.rate = 0.7f;
      rule.step(second.w, 0.0f, second.s, schedule.at(rule, 100));
      rests = rests && first == before;
      alike = alike && first == second;
      Weight still{first.w};
      const Weight still_before = still;
      rule.step(still.w, 0.0f, still.s, schedule.at(rule, 5));
      ASSERT_TRUE(still == still_before) << "state that is all zero";
    }
    EXPECT_EQ(rests, rule.rests_without_gradient);
    if (rule.idles_alike) {
      EXPECT_TRUE(alike);
    }
  });
}

TEST_F(Traits, NumbersThatRulesComputeThemselvesFallToOneAndStay) {
  for_each_value<UpdateRule>([]<typename Rule>(const Rule& rule) {
    const UpdateSchedule schedule;
    UpdateStep before = schedule.at(rule, 0);
    bool came = false;
    for (std::int64_t t = 1; t < 200000; ++t) {
      const UpdateStep now = schedule.at(rule, t);
      for (int i = 0; i < kMostTimes; ++i) {
        ASSERT_LE(now.times[i], before.times[i] * 1.001f) << t;
        ASSERT_GE(now.times[i], 1.0f) << t;
      }
      const bool all = std::ranges::all_of(now.times, [](float x) { return x == 1.0f; });
      ASSERT_TRUE(all || !came) << t;
      came = all;
      before = now;
    }
    // Averages that hardly forget take longer.
    if constexpr (Rule::times > 0) {
      if (rule.mu < 0.9999f && rule.mu1 < 0.9999f) {
        EXPECT_TRUE(came);
      }
    } else {
      EXPECT_TRUE(came);
    }
  });
}

// State of all sizes, that of steps with gradients among it.
TEST_F(Traits, IdleStepsMoveWeightsByNoMoreThanTheBoundOfTheirRule) {
  for_each_value<UpdateRule>([this]<typename Rule>(const Rule& rule) {
    if constexpr (HasIdleBound<Rule>) {
      UpdateSchedule schedule;
      schedule.decay = 0.001f;
      int bounded = 0;
      for (int i = 0; i < 300; ++i) {
        Weight weight{uniform(-1, 1)};
        weight.s[0] = std::ldexp(uniform(-1, 1), -int(below(60)));
        for (int s = 1; s < rule.slots; ++s)
          weight.s[s] = std::ldexp(uniform(0, 1), -int(below(60)));
        std::int64_t t = std::int64_t(below(3000));
        UpdateStep u = schedule.at(rule, t);
        rule.step(weight.w, i % 2 == 0 ? 0.0f : uniform(-1, 1), weight.s, u);
        const std::int64_t left = 1 + std::int64_t(below(400));
        const double bound = double(rule.idle_bound(weight.s, u, left));
        bounded += bound < 1.0;
        for (std::int64_t k = 1; k <= left; ++k) {
          Weight idled = weight;
          rule.idle(idled.s);
          // From a weight of 0, so that the change is not rounded away.
          weight.w = 0.0f;
          rule.step(weight.w, 0.0f, weight.s, schedule.at(rule, t + k));
          ASSERT_EQ(std::memcmp(weight.s, idled.s, sizeof idled.s), 0) << "idle() is another step";
          ASSERT_LE(double(std::abs(weight.w)), bound) << "step " << t << " + " << k;
        }
      }
      EXPECT_GT(bounded, 50);
    }
  });
}

TEST_F(Traits, RulesAreEqualWhereTheirParametersAre) {
  for_each_value<UpdateRule>([this]<typename Rule>(const Rule& rule) {
    EXPECT_TRUE(rule == Rule(rule));
    Rule other = rule;
    visit_parameters(other, [&](const ParameterKey&, float& parameter) { parameter += 0.25f; });
    EXPECT_EQ(rule == other, std::is_empty_v<Rule>);
  });
}

}  // namespace
}  // namespace norn
