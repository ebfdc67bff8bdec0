// SPDX-License-Identifier: Apache-2.0
// The documentation of single keys, and that its examples can be written down.
#include "src/nn/explain.h"

#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(Explain, TellsTypeValuesDefaultPlaceAndExample) {
  EXPECT_EQ(explain_key("Training.Alpha").value_or(""),
            "Training.Alpha\n"
            "  meaning  Learning rate.\n"
            "  type     a number above 0\n"
            "  default  0.025\n"
            "  where    \"Training\" of a network\n"
            "  also     Rate\n"
            "  example  { \"Training\": { \"Alpha\": 0.025 } }\n");
  const std::string activation = explain_key("activation").value_or("");
  for (const char* part :
       {"Activation\n  meaning  ", "  values   Linear, Sigmoid, Tanh, Relu = RectifiedLinear,",
        "  default  Sigmoid\n", "  where    Hidden and Output layers\n",
        "  example  { \"Kind\": \"Hidden\", \"Activation\": \"Sigmoid\" }\n"})
    EXPECT_THAT(activation, HasSubstr(part));
}

TEST(Explain, FindsKeysByAnySpellingAndByWhatErrorsCallThem) {
  const auto title = [](const std::string& name) {
    const std::string text = explain_key(name).value_or("nothing\n");
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(title("tRAINING.mINIbATCH"), "Training.Batch");
  EXPECT_EQ(title("MiniBatch"), "Training.Batch");
  EXPECT_EQ(title("Layers[3].WeightInit.Scheme"), "WeightInit.Scheme");
  EXPECT_EQ(title("Layers.Kernel"), "Kernel");
  EXPECT_EQ(title("device.memorygib"), "Device.MemoryGiB");
  EXPECT_EQ(title("SMCE"), "\"SMCE\" is a value of:");
  EXPECT_EQ(title("Tahn"), "nothing");
  EXPECT_EQ(title(""), "nothing");
  EXPECT_EQ(title("."), "nothing");
}

TEST(Explain, BreaksLinesWhereTheNextWordWouldNotFit) {
  int broken = 0;
  for (const char* name :
       {"Factored", "Factored.FoldEvery", "Rate", "WeightInit", "Kernel", "Function",
        "RateSchedule", "InputWeighting", "Activation", "ErrorFunction"}) {
    std::istringstream lines(explain_key(name).value_or(""));
    std::string before;
    for (std::string line; std::getline(lines, line); before = line) {
      EXPECT_LE(line.size(), 100u) << line;
      if (line.find_first_not_of(' ') != 11 || before.empty()) continue;
      ++broken;
      const std::size_t word = std::min(line.find(' ', 11), line.size()) - 11;
      EXPECT_GT(before.size() + 1 + word, 100u) << before << "\n" << line;
    }
  }
  EXPECT_GT(broken, 5);
}

TEST(Explain, GivesEveryPlaceOfAName) {
  const std::string text = explain_key("Kind").value_or("");
  EXPECT_THAT(text, HasSubstr("FeedForward, AutoEncoder"));
  EXPECT_THAT(text, HasSubstr("Input, Hidden, Output, Target"));
}

TEST(Explain, SaysWhyAKeyIsRefused) {
  EXPECT_EQ(explain_key("KernelPadding").value_or(""),
            "KernelPadding\n  refused  it is computed from Kernel and KernelStride; remove it\n");
}

TEST(Explain, ExplainsEveryKeyThatItLists) {
  const std::vector<std::string> names = key_names();
  EXPECT_GT(names.size(), 60u);
  EXPECT_THAT(names, Contains("SharedWeights.Transposed"));
  const std::string list = key_list();
  for (const std::string& name : names) {
    EXPECT_TRUE(explain_key(name).has_value()) << name;
    EXPECT_THAT(list, HasSubstr("  " + name + " "));
  }
}

// Around an example what else a network needs.
std::string network_with(const KeyExample& example) {
  if (!example.layer) {
    const std::string inner = example.json.substr(1, example.json.size() - 2);
    const bool is_whole = example.name == "Layers" || example.name == "Recipe";
    return "{" + inner + (is_whole ? "" : ", \"Layers\": [{}, {}]") + "}";
  }
  return "{\"Layers\": [{\"Name\": \"Input\"}, " + example.json + ", {}]}";
}

TEST(Explain, ExamplesAreRead) {
  const RecipeSource data{[](const auto&, const auto&) { return RecipeFacts{}; }, {}};
  for (const KeyExample& example : key_examples()) {
    EXPECT_NO_THROW(parse_network_json(network_with(example), "example", {}, &data))
        << example.name << ": " << network_with(example);
  }
}

}  // namespace
}  // namespace norn
