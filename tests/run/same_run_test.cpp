// SPDX-License-Identifier: Apache-2.0
// `same_run`: a run goes on from a checkpoint of the same run alone, however its network is given.
#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/nn/json_value.h"
#include "tests/run/door.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <map>

#include <fmt/format.h>

namespace norn::run {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

constexpr const char* kNextStep =
    "; give those that it had, or another `model`, or start anew with `force`, which replaces the "
    "model and its checkpoints";

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  Index below(Index end) { return Index(random_() % unsigned(end)); }
  bool half() { return below(2) == 0; }
  // No float has most of these.
  double share() { return (1.0 + double(random_() % 1'000'000)) / 1'000'003.0; }
  template <typename Many>
  void shuffle(Many& many) {
    std::ranges::shuffle(many, random_);
  }

 private:
  std::mt19937 random_;
};

// A descriptor in parts, which may be told in any order.
struct Drawn {
  JsonValue network = JsonValue::object();
  JsonValue training = JsonValue::object();
  std::vector<JsonValue> layers;
  bool recipe = false;

  std::string text() const {
    JsonValue all = network;
    all.set("Training", training);
    JsonValue list = JsonValue::array();
    for (const JsonValue& layer : layers) list.push(layer);
    return all.set("Layers", list).text();
  }
};

void draw_training(Dice& dice, JsonValue& training) {
  const auto maybe = [&](const char* name, const JsonValue& value) {
    if (dice.half()) training.set(name, value);
  };
  maybe("Alpha", 0.01 * dice.share());
  maybe("Batch", dice.half() ? 30 + dice.below(40) : 5000);
  maybe("Lambda", 0.01 * dice.share());
  maybe("Lambda1", 0.001 * dice.share());
  maybe("WarmUp", dice.share());
  maybe("RateMinimum", dice.share());
  maybe("AlphaMultiplier", dice.share());
  maybe("ClipGradient", dice.share());
  maybe("ValidationSplit", 0.1 + 0.2 * dice.share());
  maybe("ValidationSeed", dice.below(9));
  maybe("ValidationBy", "Entry");
  if (!training["ValidationSplit"].is_null()) maybe("KeepBest", "loss");
  maybe("Seed", dice.below(99));
  maybe("Epochs", 1 + dice.below(4));
  if (dice.half()) training.set("Optimizer", "Adam").set("Mu", dice.share());
}

Drawn draw(Dice& dice) {
  Drawn drawn;
  drawn.recipe = dice.half();
  JsonValue& network = drawn.network;
  if (dice.half()) network.set("ShuffleIndices", dice.half());
  if (dice.half()) network.set("Denoising", JsonValue::object().set("p", 0.9 * dice.share()));
  if (dice.half()) network.set("SparsenessPenalty", JsonValue::object().set("p", dice.share()));
  if (dice.half()) network.set("Decay", dice.share());
  JsonValue input = JsonValue::object(), hidden = JsonValue::object(), output = JsonValue::object();
  input.set("Name", "Input").set("Kind", "Input");
  hidden.set("Name", "Hidden").set("Kind", "Hidden").set("N", 1 + dice.below(9));
  output.set("Name", "Output").set("Kind", "Output");
  if (drawn.recipe) {
    network.set("Recipe", dice.half() ? "sigmoid" : "softmax");
  } else {
    for (JsonValue* layer : {&input, &output})
      layer->set("N", dice.half() ? JsonValue("auto") : JsonValue(kWidth)).set("DataSet", "auto");
    input.set("Sparse", true);
    hidden.set("Source", "Input");
    output.set("Source",
               dice.half() ? JsonValue("Hidden") : JsonValue::array().push("Hidden").push("Input"));
    if (dice.half())
      output.set("WeightInit",
                 JsonValue::object().set("Scheme", "Gaussian").set("Scale", 0.1 * dice.share()));
  }
  if (dice.half())
    input.set("InputWeighting",
              JsonValue::object().set("Scheme", "InversePopularity").set("Exponent", dice.share()));
  if (dice.half()) hidden.set("pDropout", 0.9 * dice.share());
  if (dice.half()) hidden.set("Activation", "LRelu").set("RELUSlope", dice.share());
  draw_training(dice, drawn.training);
  drawn.layers = {input, hidden, output};
  return drawn;
}

// One setting less like it was, and what is said of it.
std::string change(Dice& dice, Drawn& drawn) {
  const auto layer = [&](std::size_t i) -> JsonValue& { return drawn.layers[i]; };
  const bool r = drawn.recipe;
  switch (dice.below(12)) {
    case 0:
      drawn.training.set("Alpha", 0.75);
      return "`rate` is 0.75";
    case 1:
      drawn.training.set("Batch", 17);
      return "`batch` is 17";
    case 2:
      drawn.training.set("Lambda1", 0.5);
      return "`lambda1` is 0.5";
    case 3:
      drawn.training.set("RateSchedule", "Step");
      return "`rate_schedule` is step";
    case 4:
      drawn.training.set("AlphaMultiplier", 7);
      return "`rate_multiplier` is 7";
    case 5:
      drawn.training.set("Seed", 100);
      return "`seed` is 100";
    case 6:
      drawn.training.set("ValidationSplit", 0.5);
      return "`validation_split` is 0.5";
    case 7:
      drawn.network.set("Decay", 2);
      return "`network` Decay is 2";
    case 8:
      layer(1).set("N", 10);
      return r ? "`hidden` is 10" : "`network` Layers.Hidden.N is 10";
    case 9:
      layer(1).set("Activation", "Relu");
      return "`network` Layers.Hidden.Activation is \"Relu\"";
    case 10:
      layer(0).set("Normalize", r ? "None" : "L2");
      return "`network` Layers.Input.Normalize is ";
    default:
      layer(0).set("InputWeighting",
                   JsonValue::object().set("Scheme", "InversePopularity").set("Exponent", 3));
      return "`network` Layers.Input.InputWeighting.Exponent is 3";
  }
}

std::map<fs::path, std::string> contents(const fs::path& folder) {
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".nc") files[entry.path()] = read_text(entry.path());
  return files;
}

class SameRun : public Door {
 protected:
  TrainOptions asked() const {
    TrainOptions asked = options();
    asked.device.threads = 1;
    asked.model = folder_ / "model.nc";
    asked.resume = "auto";
    asked.same_run = true;
    return asked;
  }
  // As text or as a file.
  TrainOptions asked(const std::string& descriptor, bool as_file) const {
    TrainOptions asked = this->asked();
    asked.recipe.clear();
    asked.batch.reset();
    asked.epochs.reset();
    if (!as_file) {
      asked.network = descriptor;
      return asked;
    }
    asked.config = folder_ / "net.json";
    std::ofstream(asked.config) << descriptor;
    return asked;
  }
  static std::string refusal(const TrainOptions& options) {
    return message_of<UsageError>([&] { train(options); });
  }
  void stop_after(std::int64_t epoch, TrainOptions asked) const {
    std::atomic<bool> stop{false};
    asked.stop = &stop;
    TrainObserver observer;
    observer.on_epoch = [&](const EpochReport& report) { stop = report.epoch + 1 >= epoch; };
    train(asked, observer);
  }
};

TEST_F(SameRun, AtRandomGoesOnFromItselfAndFromNoOther) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Dice dice(seed);
  for (int i = 0; i < 25; ++i) {
    Drawn drawn = draw(dice);
    TrainOptions first = asked(drawn.text(), dice.half());
    first.resume.clear();
    first.force = true;
    if (drawn.training["Epochs"].is_null()) first.epochs = 1 + dice.below(4);  // not hundreds
    train(first);
    for (const Index epochs : {5, 6, 9}) {  // longer, and longer again
      Drawn again = drawn;
      if (dice.half()) dice.shuffle(again.layers);
      TrainOptions longer = asked(again.text(), dice.half());
      longer.epochs = epochs;
      longer.log = Log([&](LogLevel, const std::string& message) {
        EXPECT_THAT(message, Not(HasSubstr("goes on as it was")));
      });
      EXPECT_EQ(refusal(longer), "no error") << "round " << i << "\n" << again.text();
    }
    const auto files = contents((folder_ / "model.nc").parent_path());
    Drawn other = drawn;
    const std::string words = change(dice, other);
    TrainOptions changed = asked(other.text(), dice.half());
    EXPECT_THAT(
        refusal(changed),
        AllOf(HasSubstr((folder_ / "model.nc").string() + ": is of a run with other settings: "),
              HasSubstr(words + (words.ends_with(' ') ? "" : ", the checkpoint has ")),
              HasSubstr(kNextStep)))
        << "round " << i << "\n"
        << drawn.text() << other.text();
    EXPECT_EQ(contents((folder_ / "model.nc").parent_path()), files)
        << "a refused run leaves all as it is";
    changed.same_run = false;
    EXPECT_THAT(refusal(changed), Not(HasSubstr("is of a run"))) << "without it nothing is new";
    if (HasFailure()) return;
  }
}

TEST_F(SameRun, HasTheEpochsThatARecipeChoseWhenNobodyElseDoes) {
  TrainOptions run = asked();
  run.epochs.reset();
  stop_after(1, run);
  stop_after(2, run);
  run.epochs = 3;
  EXPECT_EQ(train(run).epoch, 3);
}

TEST_F(SameRun, NamesEachSettingOfACallThatIsAnother) {
  stop_after(2, asked());
  TrainOptions other = asked();
  other.rate = 0.5f;
  other.lambda = 0.25f;
  other.shuffle = "no";
  other.batch = 50;
  other.seed = 99;
  other.rule["Mu"] = 0.5f;
  const std::string said = refusal(other);
  for (const char* words :
       {"`rate` is 0.5, the checkpoint has ", "`lambda` is 0.25, the checkpoint has 0",
        "`shuffle` is no, the checkpoint has yes", "`batch` is 50, the checkpoint has 40",
        "`seed` is 99, the checkpoint has 12134", "`mu` is 0.5, the checkpoint has the default"})
    EXPECT_THAT(said, HasSubstr(words));
  other = asked();
  other.recipe = "softmax";
  EXPECT_THAT(refusal(other),
              HasSubstr("other settings: `recipe` is softmax, the checkpoint has sigmoid; "));
}

TEST_F(SameRun, MayEndElsewhereAndKeepAnother) {
  TrainOptions run = asked();
  run.validation.split = 0.2f;
  stop_after(1, run);
  run.last_epoch = 3;
  run.validation.every = 2;
  run.validation.metrics_at = "5,10";
  run.validation.early_stop = "ndcg@5";
  run.validation.patience = 2;
  run.validation.stop_from = 0.5f;
  run.validation.min_delta = 0.125f;
  EXPECT_EQ(train(run).model ? "goes on" : "", "goes on");
  run.validation.by = "entry";
  run.validation.seed = 3;
  EXPECT_THAT(refusal(run), AllOf(HasSubstr("`validation_by` is entry, the checkpoint has user"),
                                  HasSubstr("`validation_seed` is 3, the checkpoint has ")));
}

TEST_F(SameRun, TakesABatchThatTheDataLoweredForTheSame) {
  for (const float split : {0.0f, 0.2f}) {
    TrainOptions run = asked(R"({ "Layers": [ { "N": "auto", "DataSet": "auto", "Sparse": true },
        { "N": 4 }, { "N": "auto", "DataSet": "auto" } ] })",
                             false);
    run.epochs = 2;
    run.validation.split = split;
    run.resume.clear();
    run.force = true;
    train(run);
    run.resume = "auto";
    run.force = false;
    run.epochs = 3;
    EXPECT_EQ(train(run).epoch, 3);
    run.network.insert(1, R"("Training": { "Batch": 150 }, )");
    EXPECT_THAT(refusal(run), HasSubstr("`batch` is 150, the checkpoint has "));
  }
}

TEST_F(SameRun, SaysThatTheDataAreOthersNotWhatARecipeMakesOfThem) {
  stop_after(2, asked());
  const Baskets more(8, 400);
  TrainOptions other = asked();
  other.sets = more.sets();
  EXPECT_THAT(refusal(other),
              AllOf(HasSubstr("data set \"films_input\" is not the one that "),
                    HasSubstr("it has 400 examples, not 203; give the data that it was trained on, "
                              "or start anew with `force`"),
                    Not(HasSubstr("`rate`"))));
  const Baskets as_many(9, 203);
  other.sets = as_many.sets();
  EXPECT_THAT(refusal(other), HasSubstr("it has other contents; give the data that"));
  other.sets = {as_many.set("books_input"), as_many.set("books_output")};
  EXPECT_THAT(refusal(other), HasSubstr("`network` Layers.Input.DataSet is \"books_input\", the "
                                        "checkpoint has \"films_input\""));
}

TEST_F(SameRun, NamesLayersThatOneOfTheTwoHas) {
  const auto network = [](const char* more) {
    return fmt::format(R"({{ "Training": {{ "Batch": 40, "Epochs": 1 }}, "Layers": [
        {{ "Name": "In", "Kind": "Input", "N": "auto", "DataSet": "auto", "Sparse": true }}, {}
        {{ "Name": "Out", "Kind": "Output", "N": "auto", "DataSet": "auto", "Source": "In" }} ] }})",
                       more);
  };
  const std::string more =
      network(R"({ "Name": "Deep", "Kind": "Hidden", "N": 3, "Source": "In" },)");
  train(asked(network(""), false));
  EXPECT_THAT(refusal(asked(more, true)),
              HasSubstr("`network` Layers.Deep is a layer, the checkpoint has none"));
  TrainOptions anew = asked(network(R"({ "Name": "Other", "N": 3, "Kind": "Hidden" },)"), false);
  EXPECT_THAT(refusal(anew), HasSubstr("Layers.Other is a layer, the checkpoint has none"));
}

TEST_F(SameRun, LooksAtTheCheckpointThatTheRunGoesOnFrom) {
  TrainOptions run = asked();
  run.checkpoint_name = folder_ / "points";
  run.rate = 0.0625f;
  run.checkpoint_epochs = 1;
  stop_after(3, run);
  std::ofstream(folder_ / "points.epoch3.nc", std::ios::in | std::ios::binary).seekp(2000) << "odd";
  TrainOptions other = run;
  other.rate = 0.5f;
  EXPECT_EQ(refusal(other),
            (folder_ / "points.epoch2.nc").string() +
                ": is of a run with other settings: `rate` is 0.5, the checkpoint has 0.0625; give "
                "those that it had, or another `model`, or start anew with `force`, which replaces "
                "the model and its checkpoints");
  EXPECT_EQ(train(run).epoch, 4);
}

TEST_F(SameRun, KnowsAModelThatWasTrainedOnEverything) {
  TrainOptions run = asked();
  run.validation.split = 0.2f;
  run.validation.refit = true;
  train(run);
  EXPECT_EQ(refusal(run), "no error");
  std::string warned;
  run.log = Log([&](LogLevel, const std::string& message) { warned += message + "\n"; });
  run.validation.refit = false;
  EXPECT_EQ(refusal(run), "no error");
  EXPECT_THAT(warned,
              HasSubstr("goes on as it was: in the network that was given Training.Refit is "
                        "the default, the checkpoint has true\n"));
  run.rate = 0.5f;
  EXPECT_THAT(refusal(run), HasSubstr("`rate` is 0.5, the checkpoint has "));
}

TEST_F(SameRun, IsAskedForByItsSettingsWhereNoNetworkIsNamed) {
  stop_after(2, asked());
  TrainOptions run = asked();
  run.recipe.clear();
  run.rate = 0.5f;
  EXPECT_THAT(refusal(run), HasSubstr("`rate` is 0.5, the checkpoint has "));
  run.rate.reset();
  EXPECT_EQ(train(run).epoch, 4);
}

TEST_F(SameRun, IsRefusedByAllRanksInTheSameWords) {
  stop_after(2, asked());
  std::array<std::string, 3> said;
  for (const bool has_other_data : {false, true}) {
    const Baskets others(9, 203);
    run_thread_group(3, [&](Communicator& communicator) {
      TrainOptions run = asked();
      run.ranks = std::shared_ptr<Communicator>(std::shared_ptr<void>(), &communicator);
      if (has_other_data)
        run.sets = others.sets();
      else
        run.rate = 0.5f;
      said[std::size_t(communicator.rank())] = refusal(run);
    });
    EXPECT_THAT(said[0], HasSubstr(has_other_data ? "it has other contents" : "`rate` is 0.5"));
    EXPECT_THAT(said, testing::Each(said[0]));
  }
}

}  // namespace
}  // namespace norn::run
