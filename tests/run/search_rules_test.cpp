// SPDX-License-Identifier: Apache-2.0
// The rules of the recipe "auto", without a training: results are drawn.
#include "src/run/automatic/search_rules.h"

#include "src/run/automatic/conclusion.h"
#include "src/run/automatic/journal.h"
#include "tests/support/message_of.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::run {
namespace {

using Value = std::function<double(const Candidate&)>;

SearchFacts drawn_facts(std::mt19937_64& random) {
  const auto up_to = [&](double most) {
    return std::exp(std::uniform_real_distribution<>(0.0, std::log(most))(random));
  };
  SearchFacts facts;
  facts.data = {Index(up_to(1e6)), Index(up_to(1e5)), 1};
  const double density = std::min(0.5, 1e-3 * up_to(500.0));
  facts.data.entries = std::max<std::int64_t>(
      facts.data.examples,
      std::int64_t(density * double(facts.data.examples) * double(facts.data.width)));
  facts.has_ease = random() % 2 == 0;
  return facts;
}

// Tries candidates until there are none.
// `earlier`: how much larger the value of each was before its end.
std::vector<Tried> searched(const SearchFacts& facts, double budget, const Value& value,
                            NextCandidate* end = nullptr, double earlier = 0.0) {
  std::vector<Tried> tried;
  while (true) {
    const NextCandidate next = next_candidate(facts, tried, budget);
    if (!next.candidate) {
      if (end) *end = next;
      return tried;
    }
    const double found = value(*next.candidate);
    tried.push_back({*next.candidate, found, std::isnan(found), earlier * found});
    if (tried.size() > 60) throw UsageError("the search has no end");
  }
}

Index ease_in(const std::vector<Tried>& tried) {
  return std::ranges::count_if(tried, [](const Tried& one) { return !one.candidate.is_network(); });
}

std::vector<std::string> names_of(const std::vector<Tried>& tried) {
  std::vector<std::string> names;
  for (const Tried& one : tried) names.push_back(name_of(one.candidate));
  return names;
}

SearchFacts packages() {
  SearchFacts facts;
  facts.data = {17642, 7349, 109000};
  return facts;
}

// The gain of each factor of two, by what is changed.
Value rising(double rate, double length, double width) {
  return [=](const Candidate& c) {
    return 0.3 + rate * std::log2(c.rate) + length * std::log2(c.length) +
           width * std::log2(c.width);
  };
}

TEST(SearchRules, NoSearchSpendsMoreThanItsBudgetOrTriesACandidateTwice) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const SearchFacts facts = drawn_facts(random);
    const double budget = std::uniform_real_distribution<>(1.0, 40.0)(random);
    const double earlier = std::uniform_real_distribution<>(0.9, 1.1)(random);
    const auto value = [&](const Candidate&) {
      return random() % 10 == 0 ? std::nan("") : std::uniform_real_distribution<>()(random);
    };
    std::vector<Tried> tried = searched(facts, budget, value, nullptr, earlier);
    if (!tried.empty() && tried.front().failed) continue;  // then nothing follows
    double spent = 0.0, last = 0.0;
    for (std::size_t i = 0; i < tried.size(); ++i) {
      spent += cost_of(tried[i].candidate, facts).in_search();
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_NE(tried[i].candidate, tried[j].candidate) << "seed " << seed;
    }
    if (const auto best = best_of(tried)) last = cost_of(tried[*best].candidate, facts).training;
    EXPECT_LE(spent + last, budget * (1.1 + 1e-6)) << "seed " << seed;
    EXPECT_EQ(tried.empty(), 1.1 * budget < 1.0 + cost_of({}, facts).in_search())
        << "seed " << seed;
  }
}

TEST(SearchRules, WhatComesNextFollowsFromTheResultsAlone) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    const SearchFacts facts = drawn_facts(random);
    const double budget = std::uniform_real_distribution<>(3.0, 40.0)(random);
    const auto value = [&](const Candidate&) { return std::uniform_real_distribution<>()(random); };
    const std::vector<Tried> tried = searched(facts, budget, value);
    for (std::size_t count = 0; count < tried.size(); ++count) {
      const std::vector<Tried> before(tried.begin(), tried.begin() + std::ptrdiff_t(count));
      EXPECT_EQ(next_candidate(facts, before, budget).candidate, tried[count].candidate);
    }
  }
}

TEST(SearchRules, ARateThatWinsIsRaisedAgainAndThenTheTrainingIsLonger) {
  const std::vector<Tried> tried = searched(packages(), 100.0, rising(0.01, 0.01, -0.01));
  EXPECT_THAT(
      names_of(tried),
      testing::ElementsAre("sigmoid", "sigmoid, rate x 2", "sigmoid, rate x 4",
                           "sigmoid, rate x 4, length x 2", "sigmoid, rate x 4, length x 4",
                           "sigmoid, rate x 4, length x 8", "sigmoid, rate x 4, length x 16",
                           "sigmoid, rate x 4, length x 16, width x 2",
                           "sigmoid, rate x 4, length x 16, width x 1/2", "softmax"));
}

TEST(SearchRules, WhereAHigherRateLosesTheWidthComesAndThenALowerRate) {
  EXPECT_THAT(names_of(searched(packages(), 100.0, rising(-0.01, 0.01, 0.01))),
              testing::ElementsAre("sigmoid", "sigmoid, rate x 2", "sigmoid, width x 2",
                                   "sigmoid, rate x 1/2, width x 2", "softmax"));
  EXPECT_THAT(names_of(searched(packages(), 6.0, rising(-0.01, 0.01, 0.01))),
              testing::ElementsAre("sigmoid", "sigmoid, rate x 2", "sigmoid, width x 2"));
}

TEST(SearchRules, WhereThePlainRecipePassedItsBestShorterTrainingsComeFirst) {
  const Value shorter = rising(-0.01, -0.01, 0.01);
  EXPECT_THAT(names_of(searched(packages(), 6.0, shorter, nullptr, 1.01)),
              testing::ElementsAre(
                  "sigmoid", "sigmoid, length x 1/2", "sigmoid, length x 1/4",
                  "sigmoid, length x 1/8", "sigmoid, length x 1/16",
                  "sigmoid, rate x 2, length x 1/16", "sigmoid, length x 1/16, width x 2",
                  "sigmoid, rate x 1/2, length x 1/16, width x 2", "softmax, length x 1/16"));
  const std::vector<std::string> plain = names_of(searched(packages(), 100.0, shorter));
  EXPECT_EQ(names_of(searched(packages(), 100.0, shorter, nullptr, 1.004)), plain);
  EXPECT_THAT(plain, testing::Not(testing::Contains(testing::HasSubstr("length x 1/"))));
}

TEST(SearchRules, AShorterTrainingThatLosesIsTheLast) {
  const auto names =
      names_of(searched(packages(), 100.0, rising(-0.01, 0.01, -0.01), nullptr, 1.1));
  EXPECT_THAT(names, testing::ElementsAre("sigmoid", "sigmoid, length x 1/2", "sigmoid, rate x 2",
                                          "sigmoid, width x 2", "sigmoid, width x 1/2",
                                          "sigmoid, rate x 1/2, width x 1/2", "softmax"));
}

TEST(SearchRules, SoftmaxBeginsAsShortAsWhatIsBest) {
  const auto value = [](const Candidate& c) {
    return (c.recipe == RecipeKind::softmax ? 0.5 : 0.3) - 0.01 * std::log2(c.length * c.rate);
  };
  const auto names = names_of(searched(packages(), 100.0, value, nullptr, 1.1));
  EXPECT_THAT(
      names, testing::IsSupersetOf({"softmax, length x 1/16", "softmax, rate x 2, length x 1/16"}));
  EXPECT_THAT(names, testing::Not(testing::Contains("softmax")));
}

TEST(SearchRules, ALeadThatMayBeChanceLeadsNowhere) {
  const std::vector<Tried> tried = searched(packages(), 6.0, rising(0.001, 0.001, 0.01));
  EXPECT_THAT(names_of(tried),
              testing::ElementsAre("sigmoid", "sigmoid, rate x 2", "sigmoid, width x 2"));
  EXPECT_EQ(best_of(tried), 2u);
}

TEST(SearchRules, SoftmaxHasNeighboursWhereItIsTheBest) {
  const auto value = [](const Candidate& c) {
    return c.recipe == RecipeKind::softmax ? 0.5 - 0.01 * std::log2(c.rate) : 0.3;
  };
  const std::vector<std::string> names = names_of(searched(packages(), 100.0, value));
  EXPECT_THAT(names,
              testing::IsSupersetOf({"softmax", "softmax, rate x 2", "softmax, rate x 1/2"}));
}

TEST(SearchRules, WhatIsGivenIsNotSearched) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    SearchFacts facts = drawn_facts(random);
    facts.rate_is_given = random() % 2 == 0;
    facts.length_is_given = !facts.rate_is_given || random() % 2 == 0;
    if (facts.length_is_given) facts.wishes.epochs = 1 + Index(random() % 50);
    const auto value = [&](const Candidate&) { return std::uniform_real_distribution<>()(random); };
    for (const Tried& one : searched(facts, 50.0, value)) {
      if (facts.rate_is_given) {
        EXPECT_EQ(one.candidate.rate, 1.0);
      }
      if (!facts.length_is_given || !one.candidate.is_network()) continue;
      EXPECT_EQ(network_of(one.candidate, facts).training.epochs, *facts.wishes.epochs);
    }
  }
}

TEST(SearchRules, EaseIsTriedInTheDirectionThatIsBetter) {
  for (const double best : {1.0 / 9.0, 1.0, 9.0}) {
    SearchFacts facts;
    facts.data = {20000, 500, 200000};
    facts.has_ease = true;
    const auto value = [&](const Candidate& c) {
      return c.is_network() ? 0.1 : 0.5 - 0.01 * std::abs(std::log(c.lambda / best));
    };
    const std::vector<Tried> tried = searched(facts, 6.0, value);
    EXPECT_NEAR(tried[best_of(tried).value()].candidate.lambda, best, 1e-9);
  }
}

TEST(SearchRules, EaseThatCostsMoreThanItsShareIsNotTried) {
  SearchFacts facts;
  facts.data = {100, 20000, 3000};
  facts.has_ease = true;
  for (const Tried& one : searched(facts, 6.0, rising(0.01, 0.01, 0.01)))
    EXPECT_TRUE(one.candidate.is_network());
}

TEST(SearchRules, EaseByItselfIsComputedNoMoreOftenThanIsSaidAndBesideEveryNetwork) {
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 200; ++i) {
    SearchFacts facts = drawn_facts(random);
    const double budget = 1.0 + 29.0 * std::uniform_real_distribution<>()(random);
    const Index alone = times_of_ease(facts, budget);
    const auto any = [&](const Candidate&) { return std::uniform_real_distribution<>()(random); };
    const double earlier = std::uniform_real_distribution<>(0.9, 1.1)(random);
    const auto found = searched(facts, budget, any, nullptr, earlier);
    EXPECT_LE(ease_in(found), alone) << budget << " " << testing::PrintToString(names_of(found));
    if (!facts.has_ease || !has_room_for_ease(facts, budget)) {
      EXPECT_EQ(alone, 0);
      continue;
    }
    EXPECT_GE(alone, budget > 6.0 ? 3 : 0);
    facts.has_sums = true;
    const std::vector<Tried> lost = searched(facts, budget, [](const Candidate&) { return 1.0; });
    EXPECT_GE(times_of_ease(facts, budget), Index(lost.size()) + 1);
  }
}

TEST(SearchRules, FeaturesOfItemsMakeEveryNetworkDearerAndNotEase) {
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 50; ++i) {
    SearchFacts facts = drawn_facts(random);
    Candidate ease;
    ease.recipe = RecipeKind::ease;
    const double plain = cost_of(ease, facts).in_search();
    facts.features = Index(1 + random() % 10000);
    EXPECT_LT(cost_of(ease, facts).in_search(), plain);
    EXPECT_DOUBLE_EQ(cost_of({}, facts).training, 1.0);
  }
}

TEST(SearchRules, WhatTheBudgetHasNoRoomForIsSaidWhereItsDirectionWon) {
  NextCandidate end;
  const std::vector<Tried> tried = searched(packages(), 6.0, rising(0.01, 0.01, 0.01), &end);
  ASSERT_TRUE(end.left_out.has_value());
  const Candidate left_out = *end.left_out;
  EXPECT_EQ(name_of(left_out), "sigmoid, rate x 4, length x 2");
  EXPECT_GT(end.budget_for_it, 6.0);
  const std::vector<Tried> more =
      searched(packages(), end.budget_for_it, rising(0.01, 0.01, 0.01), &end);
  EXPECT_THAT(names_of(tried), testing::Not(testing::Contains(name_of(left_out))));
  EXPECT_THAT(names_of(more), testing::Contains(name_of(left_out)));
  searched(packages(), 6.0, rising(-0.01, 0.01, 0.01), &end);
  EXPECT_FALSE(end.left_out.has_value());
}

TEST(SearchRules, CostsAreInTrainingsOfThePlainRecipe) {
  const SearchFacts facts = packages();
  EXPECT_EQ(cost_of({}, facts).training, 1.0);
  Candidate wide;
  wide.width = 2.0;
  EXPECT_EQ(cost_of(wide, facts).training, 2.0);
  Candidate slow;
  slow.length = 4.0;
  EXPECT_EQ(cost_of(slow, facts).training, 4.0);
}

// Three digits, as recipes have.
void expect_scaled(float found, float plain, double factor) {
  const double exact = double(plain) * factor;
  if (factor == 1.0) {
    EXPECT_EQ(found, plain);
    return;
  }
  EXPECT_EQ(found, std::stof(fmt::format("{:.2e}", found)));
  EXPECT_NEAR(found, exact, 0.5e-2 * std::pow(10.0, std::floor(std::log10(exact))) + 1e-6 * exact);
}

TEST(SearchRules, ACandidateIsItsRecipeWithItsFactors) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const SearchFacts facts = drawn_facts(random);
    const auto factor = [&] { return std::exp2(double(random() % 7) - 3.0); };
    Candidate candidate;
    candidate.recipe = RecipeKind(random() % 3);
    if (candidate.is_network()) {
      candidate.rate = factor();
      candidate.length = factor();
      candidate.width = factor();
    } else {
      candidate.lambda = std::pow(3.0, double(random() % 5) - 2.0);
    }
    const NetworkDescriptor plain = make_recipe(candidate.recipe, facts.data, facts.wishes);
    const NetworkDescriptor made = network_of(candidate, facts);
    expect_scaled(made.training.lambda, plain.training.lambda, candidate.lambda);
    expect_scaled(made.training.rate, plain.training.rate, candidate.rate);
    if (!candidate.is_network()) continue;
    EXPECT_NEAR(double(made.training.epochs), double(plain.training.epochs) * candidate.length,
                1.0);
    const double units = double(plain.find("Hidden")->units());
    EXPECT_NEAR(double(made.find("Hidden")->units()), units * candidate.width, 1.0);
  }
}

std::vector<Finding> findings_of(std::size_t examples, double gain, std::mt19937_64& random) {
  std::normal_distribution<> noise(0.0, 0.05);
  std::vector<Finding> findings(2);
  findings[1].candidate.rate = 2.0;
  for (Finding& finding : findings) {
    const double mean = &finding == &findings[1] ? 0.3 + gain : 0.3;
    for (std::size_t i = 0; i < examples; ++i) finding.values.push_back(mean + noise(random));
    double sum = 0.0;
    for (const double value : finding.values) sum += value;
    finding.value = sum / double(examples);
    finding.earlier = std::numeric_limits<double>::quiet_NaN();
  }
  return findings;
}

TEST(Conclusion, KeepsThePlainRecipeUnlessAnotherIsBetterBeyondChance) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    EXPECT_EQ(conclude(findings_of(500, 0.05, random)).chosen.number, 1u) << "seed " << seed;
    EXPECT_EQ(conclude(findings_of(500, -0.05, random)).chosen.number, 0u) << "seed " << seed;
    EXPECT_EQ(conclude(findings_of(3, 0.001, random)).chosen.number, 0u) << "seed " << seed;
  }
}

TEST(Conclusion, TakesAClearLeadThatIsLikely) {
  std::size_t likely = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Finding> findings = findings_of(300, 0.006, random);
    const Conclusion conclusion = conclude(findings);
    const Difference& difference = conclusion.difference;
    const bool is_clear = difference.b > 1.005 * difference.a;
    const bool is_taken = difference.p <= 0.05 || (is_clear && difference.p <= 0.2);
    EXPECT_EQ(conclusion.chosen.number == 1, conclusion.best.number == 1 && is_taken)
        << "seed " << seed;
    likely += conclusion.chosen.number == 1 && difference.p > 0.05;
  }
  EXPECT_GT(likely, 0u);
}

TEST(Conclusion, SaysThatAMetricStillRoseAtItsEnd) {
  std::mt19937_64 random(1);
  std::vector<Finding> findings = findings_of(100, -0.1, random);
  const SearchFacts facts = packages();
  SearchStory story{"ndcg@20", 6.0, 3.0, "held-back entries", {}, {}};
  EXPECT_FALSE(conclude(findings).still_rises);
  findings[0].earlier = 0.9 * findings[0].value;
  const Conclusion conclusion = conclude(findings);
  EXPECT_TRUE(conclusion.still_rises);
  EXPECT_THAT(lines_of(story, findings, facts, conclusion),
              testing::Contains(testing::HasSubstr("still rose at the end")));
  findings[0].earlier = findings[0].value;
  EXPECT_THAT(lines_of(story, findings, facts, conclude(findings)),
              testing::Not(testing::Contains(testing::HasSubstr("still rose"))));
}

Journal drawn_journal(std::mt19937_64& random) {
  Journal journal;
  journal.origin = parse_json(R"({"network": "{}", "budget": 6})", "origin");
  const auto value = [&] { return std::uniform_real_distribution<>()(random); };
  for (std::uint64_t i = 0; i < 1 + random() % 5; ++i) {
    Finding finding;
    finding.candidate.recipe = RecipeKind(random() % 3);
    if (finding.candidate.is_network())
      finding.candidate.rate = std::exp2(double(random() % 5) - 2.0);
    else
      finding.candidate.lambda = std::pow(3.0, double(random() % 5) - 2.0);
    finding.value = value();
    finding.earlier = random() % 2 ? value() : std::nan("");
    finding.failed = random() % 4 == 0;
    if (finding.failed) finding.failure = "it \"diverged\"\n";
    for (std::uint64_t e = 0; e < random() % 20; ++e)
      finding.values.push_back(random() % 3 ? value() : std::nan(""));
    journal.findings.push_back(finding);
  }
  if (random() % 2) journal.earlier = value();
  return journal;
}

TEST(Journal, IsReadAsItWasWritten) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const std::string text = journal_text(drawn_journal(random));
    EXPECT_EQ(journal_text(parse_journal(text, "j")), text) << "seed " << seed;
  }
}

TEST(Journal, ThatIsSpoiltIsRefused) {
  std::mt19937_64 random(7);
  const std::string text = journal_text(drawn_journal(random));
  const std::size_t body = text.find('\n') + 1;
  for (int i = 0; i < 200; ++i) {
    std::string spoilt = text;
    const std::size_t at = body + random() % (text.size() - body - 1);
    spoilt[at] = char(spoilt[at] ^ (1 << (random() % 7)));
    EXPECT_THROW(parse_journal(spoilt, "j"), DataError) << at;
  }
  for (std::size_t length = 0; length < text.size(); length += 1 + text.size() / 50)
    EXPECT_THROW(parse_journal(text.substr(0, length), "j"), DataError) << length;
}

}  // namespace
}  // namespace norn::run
