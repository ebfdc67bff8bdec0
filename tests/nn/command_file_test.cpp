// SPDX-License-Identifier: Apache-2.0
// DSSTNE's command files: what is read, its defaults, and what is refused.
#include "src/nn/command_file.h"

#include "kernels/named_variant.h"
#include "norn/base/error.h"

#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

CommandFile read(const std::string& text) {
  return parse_command_file(text, "x.cdl");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(CommandFile, HasDsstnesDefaults) {
  const CommandFile file = read(
      R"({"Network": "n.json", "Data": "d.nc", "Command": "Train", "TrainingParameters": {"Epochs": 3}})");
  EXPECT_EQ(file.kind, CommandKind::train);
  EXPECT_EQ(file.network, "n.json");
  EXPECT_EQ(file.data, "d.nc");
  EXPECT_EQ(file.epochs, 3);
  EXPECT_EQ(file.batch, 1024);
  EXPECT_EQ(file.rate, 0.1f);
  EXPECT_EQ(file.rate_interval, 0);
  EXPECT_EQ(file.rate_multiplier, 0.5f);
  EXPECT_EQ(file.lambda, 0.001f);
  EXPECT_EQ(file.lambda1, 0.0f);
  EXPECT_EQ(file.checkpoint_interval, 1);
  EXPECT_EQ(file.checkpoint_name, "check");
  EXPECT_EQ(file.results, "network.nc");
  EXPECT_EQ(name_of(file.optimizer), "SGD");
  EXPECT_FALSE(file.seed || file.mu || file.mu1 || file.shuffle);
}

TEST(CommandFile, ReadsEveryKeyInAnyCase) {
  const CommandFile file = read(R"({
    "VERSION": 0.2, "network": "n.json", "DATA": "d.nc", "coMMand": "train", "RANDOMSEED": 7,
    "trainingparameters": {  // as python/images/train.cdl writes them
      "epochs": 60, "minibatch": 256, "ALPHA": 0.25, "alphainterval": 20, "alphamultiplier": 0.8,
      "MU": 0.5, "Mu1": 0.75, "Lambda": 0.5, "LAMBDA1": 0.125, "optimizer": "RMSPROP",
      "shuffleindices": false, "CheckpointInterval": 4, "Checkpointname": "c", "results": "r.nc"},
    "predictionparameters": {"minibatch": 32, "results": "lines.txt"}})");
  EXPECT_EQ(file.seed, 7u);
  EXPECT_EQ(file.epochs, 60);
  EXPECT_EQ(file.batch, 256);
  EXPECT_EQ(file.rate, 0.25f);
  EXPECT_EQ(file.rate_interval, 20);
  EXPECT_EQ(file.rate_multiplier, 0.8f);
  EXPECT_EQ(file.mu, 0.5f);
  EXPECT_EQ(file.mu1, 0.75f);
  EXPECT_EQ(file.lambda, 0.5f);
  EXPECT_EQ(file.lambda1, 0.125f);
  EXPECT_EQ(name_of(file.optimizer), "RMSProp");
  EXPECT_EQ(file.shuffle, false);
  EXPECT_EQ(file.checkpoint_interval, 4);
  EXPECT_EQ(file.checkpoint_name, "c");
  EXPECT_EQ(file.results, "r.nc");
  EXPECT_EQ(file.prediction_batch, 32);
  EXPECT_EQ(file.prediction_results, "lines.txt");
}

TEST(CommandFile, SaysAllThatIsWrongWithLines) {
  EXPECT_EQ(error_of("{\n\"Network\": 3,\n\"Comand\": \"Train\",\n\"Command\": \"Trian\",\n"
                     "\"TrainingParameters\": {\"Epochs\": 0,\n\"MiniBach\": 4}}"),
            "x.cdl:1: Data is missing; expected a string\n"
            "x.cdl:2: Network 3 is a number; expected a string\n"
            "x.cdl:3: unknown key \"Comand\"; did you mean \"Command\"?\n"
            "x.cdl:4: Command \"Trian\" is unknown; did you mean \"Train\"? Known: Train, Predict, "
            "Validate\n"
            "x.cdl:5: TrainingParameters: Epochs 0 is out of range; expected a whole number from 1 "
            "to 4294967295\n"
            "x.cdl:6: TrainingParameters: unknown key \"MiniBach\"; did you mean \"MiniBatch\"?");
  EXPECT_EQ(error_of(R"({"Network": "n", "Data": "d", "Command": "Predict",
                         "PredictionParameters": {"MiniBatch": 0}})"),
            "x.cdl:2: PredictionParameters: MiniBatch 0 is out of range; expected a whole number "
            "from 1 to 4294967295");
  for (const char* mu : {"mu", "mu1"})
    EXPECT_THAT(error_of(fmt::format(R"({{"Network": "n", "Data": "d", "Command": "Train",
                                         "TrainingParameters": {{"Epochs": 1, "{}": 1}}}})",
                                     mu)),
                testing::StartsWith(
                    fmt::format("x.cdl:2: TrainingParameters: {} 1 is out of range; ", mu)));
  EXPECT_EQ(error_of("[]"), "x.cdl:1: [] is not a command file; expected a JSON object");
  EXPECT_EQ(
      error_of(R"({"Network": "n", "Data": "d", "Command": "Train"})"),
      "x.cdl:1: TrainingParameters: Epochs is missing; Command Train needs a number of passes "
      "over the data");
  EXPECT_EQ(error_of(R"({"Network": "n", "Data": "", "Command": "Predict"})"),
            "x.cdl:1: Data is empty; name a file");
  EXPECT_EQ(error_of(R"({"Network": "n", "Data": "d", "Command": "Validate"})"), "none");
}

TEST(CommandFile, FilesThatCannotBeRead) {
  try {
    read_command_file("/nowhere/x.cdl");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "/nowhere/x.cdl: cannot be read; expected a command file in JSON, as DSSTNE's CDL");
  }
}

TEST(CommandFile, TheShippedOnesAreRead) {
  const std::filesystem::path folder = std::filesystem::path(NORN_SOURCE_DIR) / "configs/dsstne";
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_EQ(read_command_file(folder / "train.cdl", note).kind, CommandKind::train);
  EXPECT_EQ(read_command_file(folder / "predict.cdl", note).kind, CommandKind::predict);
  EXPECT_EQ(read_command_file(folder / "validate.cdl", note).kind, CommandKind::validate);
  EXPECT_THAT(notes, testing::IsEmpty());
}

}  // namespace
}  // namespace norn
