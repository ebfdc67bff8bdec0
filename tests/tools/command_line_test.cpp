// SPDX-License-Identifier: Apache-2.0
// Command lines: DSSTNE's spellings beside long options, and what is said of wrong ones.
#include "tools/common/command_line.h"

#include "norn/base/error.h"
#include "norn/engine/metric.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "tools/common/setting_names.h"
#include "tools/evaluation/evaluation_run.h"
#include "tools/prediction/predictor_options.h"
#include "tools/training/trainer_options.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CommandLine::Outcome parse(const CommandLine& line, std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return line.parse(int(words.size()), words.data());
}

std::string error_of(const CommandLine& line, std::vector<const char*> words) {
  try {
    parse(line, std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

struct Sample {
  Index count = 7;
  std::optional<float> rate;
  std::vector<std::filesystem::path> files;
  std::string mode = "slow";
  std::string resume;
  bool loud = false;
  std::uint64_t seed = 1;
  CommandLine line{"program", "does things", "program [options]"};

  Sample() {
    line.option("--count", "-c", "N", count, "how many");
    line.option("--rate", "-alpha", "X", rate, "how fast");
    line.option("--file", "-i", "FILE", files, "what");
    line.choice("--mode", "", {"slow", "Quick"}, mode, "how");
    line.option("--resume", "", "FILE", resume, "where from").bare_value = "auto";
    line.toggle("--loud", "-v", loud, "noise");
    line.option("--seed", "", "N", seed, "chance");
  }
};

TEST(CommandLine, ReadsLongOptionsAndFlagsOfOneAndOfSeveralLetters) {
  Sample s;
  parse(s.line, {"-c", "3", "-alpha", "-0.5", "--file", "a", "-i", "b", "--mode=quick", "-v"});
  EXPECT_EQ(s.count, 3);
  EXPECT_EQ(s.rate, -0.5f);
  EXPECT_THAT(s.files, ElementsAre("a", "b"));
  EXPECT_EQ(s.mode, "Quick");
  EXPECT_TRUE(s.loud);
  EXPECT_EQ(s.resume, "");
}

TEST(CommandLine, KeepsWhatIsNotGiven) {
  Sample s;
  EXPECT_EQ(parse(s.line, {"-alpha=2"}), CommandLine::Outcome::run);
  EXPECT_EQ(s.count, 7);
  EXPECT_EQ(s.rate, 2.0f);
  EXPECT_EQ(s.mode, "slow");
}

TEST(CommandLine, LetsAnOptionsValueBeLeftOutWhereItMay) {
  Sample s;
  parse(s.line, {"--resume", "-v"});
  EXPECT_EQ(s.resume, "auto");
  Sample t;
  parse(t.line, {"--resume=x.nc"});
  EXPECT_EQ(t.resume, "x.nc");
  for (const std::vector<const char*>& words : {std::vector<const char*>{"--resume", "auto", "-v"},
                                                {"-v", "--resume", "auto"},
                                                {"--resume=auto"}}) {
    Sample u;
    parse(u.line, words);
    EXPECT_EQ(u.resume, "auto");
  }
  Sample v;
  parse(v.line, {"--resume", "x.nc"});
  EXPECT_EQ(v.resume, "x.nc");
  EXPECT_THAT(error_of(v.line, {"--resume", "x.nc", "y.nc"}),
              HasSubstr("\"y.nc\" is not expected here"));
}

TEST(CommandLine, SaysWhatIsWrong) {
  const Sample s;
  EXPECT_EQ(error_of(s.line, {"--cuont", "3"}),
            "unknown option \"--cuont\"; did you mean \"--count\"? program --help lists all "
            "options");
  EXPECT_EQ(error_of(s.line, {"--zzz"}),
            "unknown option \"--zzz\"; program --help lists all options");
  EXPECT_EQ(error_of(s.line, {"--count", "3.5"}), "--count: \"3.5\" is no whole number");
  EXPECT_EQ(error_of(s.line, {"-alpha", "fast"}), "--rate: \"fast\" is no finite number");
  EXPECT_EQ(error_of(s.line, {"-alpha", "nan"}), "--rate: \"nan\" is no finite number");
  for (const char* seed : {"-1", "18446744073709551616", "+99999999999999999999"})
    EXPECT_EQ(
        error_of(s.line, {"--seed", seed}),
        fmt::format("--seed: \"{}\" is no whole number from 0 to 18446744073709551615", seed));
  EXPECT_EQ(error_of(s.line, {"--count", "99999999999999999999"}),
            "--count: \"99999999999999999999\" is no whole number");
  EXPECT_EQ(error_of(s.line, {"-c", "1", "-c", "2"}), "--count is given 2 times; give it once");
  EXPECT_THAT(error_of(s.line, {"--count"}),
              HasSubstr("--count: its value is missing; program --help lists all options"));
  EXPECT_THAT(
      error_of(s.line, {"--mode", "qiuck"}),
      HasSubstr("--mode: \"qiuck\" is unknown; did you mean \"Quick\"? Known: slow, Quick"));
  EXPECT_EQ(error_of(s.line, {"--mode", "xyz"}), "--mode: \"xyz\" is unknown. Known: slow, Quick");
  EXPECT_EQ(error_of(s.line, {"--errors", "yaml"}),
            "--errors: \"yaml\" is unknown. Known: text, json");
  EXPECT_EQ(error_of(s.line, {"stray"}),
            "\"stray\" is not expected here: every file and value has its option; program --help "
            "lists them");
}

TEST(CommandLine, SaysAllThatIsWrongAtOnce) {
  Sample s;
  std::string name;
  s.line.option("--name", "-n", "NAME", name, "who").required = true;
  s.line.option("--place", "", "NAME", name, "where").required = true;
  EXPECT_EQ(error_of(s.line, {"--count", "x", "--seed", "-1", "--nmae", "y", "stray"}),
            "unknown option \"--nmae\"; did you mean \"--name\"? program --help lists all options\n"
            "\"stray\" is not expected here: every file and value has its option; program --help "
            "lists them\n"
            "--count: \"x\" is no whole number\n"
            "--seed: \"-1\" is no whole number from 0 to 18446744073709551615\n"
            "--place is missing; program --help shows examples");
}

TEST(CommandLine, TellsOfTheLastOptionsMissingValueBesideTheRest) {
  const Sample s;
  EXPECT_EQ(error_of(s.line, {"--zzz", "--seed", "-1", "-c"}),
            "--count: its value is missing; program --help lists all options\n"
            "unknown option \"--zzz\"; program --help lists all options\n"
            "--seed: \"-1\" is no whole number from 0 to 18446744073709551615");
}

TEST(CommandLine, TellsOfNoConsequencesOfWhatIsWrong) {
  Sample s;
  s.line.checks([&](OptionFaults& faults) {
    faults.require_at_least<Index>(100, "--count", s.count);
    if (!s.loud) faults.fail("--seed needs --loud; give that too");
    faults.require_range(s.mode == "Quick", "--mode", 1.5, "another");
  });
  EXPECT_EQ(error_of(s.line, {"--count", "x", "--luod"}),
            "unknown option \"--luod\"; did you mean \"--loud\"? program --help lists all options\n"
            "--count: \"x\" is no whole number\n"
            "--mode 1.5 is out of range: it must be another");
  EXPECT_EQ(error_of(s.line, {"--count", "1"}),
            "--count 1 is out of range: it must be at least 100\n"
            "--seed needs --loud; give that too\n"
            "--mode 1.5 is out of range: it must be another");
}

TEST(CommandLine, RefusesWhateverDoesNotSayThatARunMayBeMadeAgainWithIt) {
  Sample s;
  std::string record, place;
  bool quiet = false;
  s.line.option("--repeat", "", "FILE", record, "again").makes_again = true;
  s.line.option("--place", "", "NAME", place, "where").may_differ = true;
  s.line.section("Running", true);
  s.line.toggle("--quiet", "", quiet, "no noise");
  parse(s.line, {"--repeat", "run.json", "--place", "x", "--quiet"});
  EXPECT_EQ(
      error_of(s.line, {"--repeat", "run.json", "-c", "3", "--quiet", "--loud"}),
      "--count cannot be given with --repeat, which makes the run again as it was; leave one of "
      "them out\n"
      "--loud cannot be given with --repeat, which makes the run again as it was; leave one of "
      "them out");
}

// Whatever reaches the descriptor changes the run: with each of them --repeat is refused.
TEST(TrainerOptions, ThatChangeADescriptorMakeNoRunAgain) {
  TrainerOptions plain;
  const CommandLine line = trainer_command_line(plain);
  int changing = 0;
  for (const Option& option : line.options()) {
    TrainerOptions options;
    const CommandLine own = trainer_command_line(options);
    const auto same = std::find_if(own.options().begin(), own.options().end(),
                                   [&](const Option& other) { return other.name == option.name; });
    std::string value = "1";
    if (!option.words.empty()) value = option.words.back();
    if (option.name == "--early-stop" || option.name == "--keep-best") value = "loss";
    if (option.name == "--cdl") continue;  // reads a file
    same->set(value);
    NetworkDescriptor changed, before;
    options.apply_to(changed.training, Log());
    const bool changes = to_json(changed) != to_json(before);
    changing += changes;
    EXPECT_TRUE(!changes || !option.may_differ) << option.name;
  }
  EXPECT_GT(changing, 12);
}

TEST(CommandLine, NamesAllRequiredOptionsThatAreMissing) {
  Sample s;
  std::string name;
  s.line.option("--name", "-n", "NAME", name, "who").required = true;
  s.line.option("--place", "", "NAME", name, "where").required = true;
  EXPECT_EQ(error_of(s.line, {"-v"}),
            "--name (-n), --place are missing; program --help shows examples");
  EXPECT_EQ(error_of(s.line, {"-n", "x"}), "--place is missing; program --help shows examples");
}

TEST(CommandLine, AnswersHelpEvenWhenOptionsAreMissing) {
  Sample s;
  std::string name;
  s.line.option("--name", "-n", "NAME", name, "who").required = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse(s.line, {"--help"}), CommandLine::Outcome::answered);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* part : {"-alpha, --rate X", "[7]", "(required)", "--resume [FILE]"})
    EXPECT_THAT(help, HasSubstr(part));
}

// Every option that a program has must be in its help and its reference.
template <typename Options>
void expect_complete_texts(CommandLine (*make)(Options&)) {
  Options options;
  const CommandLine line = make(options);
  std::set<std::string> names;
  for (const Option& option : line.options()) {
    EXPECT_THAT(line.help(), HasSubstr(option.name));
    EXPECT_TRUE(names.insert(option.name).second) << option.name << " twice";
    if (!option.flag.empty()) {
      EXPECT_TRUE(names.insert(option.flag).second) << option.flag << " twice";
    }
  }
  std::size_t at = 0;
  const std::string help = line.help();
  while (at < help.size()) {
    const std::size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 118u) << help.substr(at, end - at);
    at = end + 1;
  }
}

TEST(CommandLine, TextsOfTheProgramsAreComplete) {
  expect_complete_texts<TrainerOptions>(trainer_command_line);
  expect_complete_texts<PredictorOptions>(predictor_command_line);
  expect_complete_texts<EvaluatorOptions>(evaluator_command_line);
}

TEST(TrainerOptions, TakeDsstnesCommandLine) {
  TrainerOptions options;
  const CommandLine line = trainer_command_line(options);
  parse(line, {"-c",       "config.json", "-i",  "in.nc", "-o",     "out.nc", "-n",      "net.nc",
               "-b",       "256",         "-e",  "10",    "-alpha", "0.01",   "-lambda", "0.001",
               "-lambda1", "0.002",       "-mu", "0.4",   "-mu1",   "0.9"});
  EXPECT_EQ(options.config, "config.json");
  EXPECT_THAT(options.inputs, ElementsAre("in.nc"));
  EXPECT_THAT(options.outputs, ElementsAre("out.nc"));
  EXPECT_EQ(options.model, "net.nc");
  EXPECT_EQ(options.batch, 256);
  EXPECT_EQ(options.epochs, 10);
  EXPECT_EQ(options.rate, 0.01f);
  EXPECT_EQ(options.lambda, 0.001f);
  EXPECT_EQ(options.lambda1, 0.002f);
  EXPECT_EQ(options.rule["Mu"], 0.4f);
  EXPECT_EQ(options.rule["Mu1"], 0.9f);
  EXPECT_NO_THROW(options.check());
}

TEST(TrainerOptions, ChooseTheLineOfAnEpochByHowTheCommandIsWritten) {
  const auto chosen = [](std::vector<std::string> words) {
    TrainerOptions options;
    const CommandLine line = trainer_command_line(options);
    words.insert(words.begin(), {"trainer", "-c", "c", "-i", "i", "-n", "n"});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    EXPECT_EQ(line.parse(int(argv.size()), argv.data()), CommandLine::Outcome::run);
    options.called_as = words;
    options.choose_log_format(line);
    return options.log_format;
  };
  EXPECT_EQ(chosen({}), "text");
  EXPECT_EQ(chosen({"-e", "3", "-b", "4", "--lambda", "0.1", "--rate=0.5"}), "text");
  for (const char* flag : {"-alpha", "-lambda", "-lambda1", "-mu"}) {
    EXPECT_EQ(chosen({flag, "0.5"}), "dsstne") << flag;
    EXPECT_EQ(chosen({std::string(flag) + "=0.5", "--log-format", "text"}), "text") << flag;
  }
  EXPECT_EQ(chosen({"-d", "gl"}), "dsstne");
  EXPECT_EQ(chosen({"--log-format=dsstne"}), "dsstne");
}

TEST(TrainerOptions, AreAllCheckedAtOnce) {
  TrainerOptions options;
  const CommandLine line = trainer_command_line(options);
  EXPECT_EQ(
      error_of(line, {"--batch", "0", "--patience", "0", "--validation-split", "3", "--rate",
                      "fast", "--early-stop", "ndgc@20"}),
      "--rate: \"fast\" is no finite number\n"
      "--config (-c) or --recipe sigmoid, --input (-i), --model (-n) are missing; trainer --help "
      "shows examples\n"
      "--batch 0 is out of range: it must be at least 1\n"
      "--validation-split 3 is out of range: it must be at least 0 and below 1\n"
      "--patience 0 is out of range: it must be at least 1\n"
      "--early-stop: \"ndgc@20\" is no metric to watch; did you mean \"ndcg\"? Write loss, or "
      "one of " +
          join(metric_names()) + " with its K, such as ndcg@20");
}

TEST(TrainerOptions, ChangeOnlyWhatIsGiven) {
  TrainerOptions options;
  const CommandLine line = trainer_command_line(options);
  parse(line, {"-c", "c", "-i", "i", "-n", "n", "-e", "3", "-mu", "0.4", "--optimizer", "adam"});
  TrainingDescriptor training;
  training.optimizer = Momentum{0.7f};
  training.rate = 0.125f;
  training.batch = 99;
  options.apply_to(training, Log());
  EXPECT_EQ(training.epochs, 3);
  EXPECT_EQ(training.rate, 0.125f);
  EXPECT_EQ(training.batch, 99);
  ASSERT_TRUE(std::holds_alternative<Adam>(training.optimizer));
  EXPECT_EQ(std::get<Adam>(training.optimizer).mu, 0.4f);
  EXPECT_EQ(std::get<Adam>(training.optimizer).mu1, 0.999f);
}

TEST(TrainerOptions, KeepTheDescriptorsRuleWhenItsNameIsGivenAgain) {
  TrainerOptions options;
  options.optimizer = "Momentum";
  TrainingDescriptor training;
  training.optimizer = Momentum{0.7f};
  options.apply_to(training, Log());
  EXPECT_EQ(std::get<Momentum>(training.optimizer).mu, 0.7f);
}

TEST(TrainerOptions, RejectValuesThatNoRunCanHave) {
  const auto message = [](void (*change)(TrainerOptions&)) -> std::string {
    TrainerOptions options;
    change(options);
    try {
      options.check();
    } catch (const UsageError& error) {
      return with_options(error.what());
    }
    return "no error";
  };
  EXPECT_EQ(message([](TrainerOptions& o) { o.batch = 0; }),
            "--batch 0 is out of range: it must be at least 1");
  EXPECT_EQ(message([](TrainerOptions& o) { o.epochs = -3; }),
            "--epochs -3 is out of range: it must be at least 0");
  EXPECT_EQ(message([](TrainerOptions& o) { o.rate = -1.0f; }),
            "--rate -1 is out of range: it must be at least 0");
  EXPECT_EQ(message([](TrainerOptions& o) { o.rule["Mu"] = 1.0f; }),
            "--mu 1 is out of range: it must be at least 0 and below 1");
  EXPECT_EQ(message([](TrainerOptions& o) {
              o.force = true;
              o.resume = "auto";
            }),
            "--force starts anew and --resume goes on: give one of the two");
}

TEST(SettingNames, BecomeOptionsWhereverTheyStand) {
  EXPECT_EQ(with_options("`validation_split` 2 is out of range; give `batch` or `mu1`"),
            "--validation-split 2 is out of range; give --batch or --mu1");
  EXPECT_EQ(with_options("a `Key`, a `two words`, `` and one ` alone"),
            "a `Key`, a `two words`, `` and one ` alone");
  EXPECT_EQ(with_options("`N`epochs`"), "`N--epochs");
}

TEST(TrainerOptions, ReadSizes) {
  EXPECT_EQ(parse_bytes("--x", "8G"), std::int64_t(8) << 30);
  EXPECT_EQ(parse_bytes("--x", "1.5m"), 1572864);
  EXPECT_EQ(parse_bytes("--x", "123"), 123);
  for (const char* text : {"", "G", "8X", "-1", "nan", "1e30G"})
    EXPECT_THROW(parse_bytes("--x", text), UsageError) << text;
}

TEST(PredictorOptions, TakeDsstnesCommandLine) {
  PredictorOptions options;
  const CommandLine line = predictor_command_line(options);
  parse(line,
        {"-b",    "256", "-d",      "gl", "-i",   "in", "-o",      "out", "-k",   "10", "-n",
         "gl.nc", "-f",  "ratings", "-s", "recs", "-r", "ratings", "-p",  "4.2f", "-l", "Output"});
  EXPECT_EQ(options.batch, 256);
  EXPECT_EQ(options.dataset, "gl");
  EXPECT_EQ(options.input_features, "in");
  EXPECT_EQ(options.output_features, "out");
  EXPECT_EQ(options.k, 10);
  EXPECT_EQ(options.model, "gl.nc");
  EXPECT_EQ(options.filter, "ratings");
  EXPECT_EQ(options.output, "recs");
  EXPECT_EQ(options.requests, "ratings");
  EXPECT_EQ(options.score_format, "4.2f");
  EXPECT_EQ(options.layer, "Output");
}

TEST(EvaluatorOptions, ReadListsOfK) {
  EXPECT_THAT(parse_ks("10,20,100"), ElementsAre(10, 20, 100));
  EXPECT_THAT(parse_ks("5"), ElementsAre(5));
  for (const char* text : {"", "10,", "0", "a", "10;20", "-1"})
    EXPECT_THROW(parse_ks(text), UsageError) << text;
}

}  // namespace
}  // namespace norn::tools
