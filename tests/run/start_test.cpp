// SPDX-License-Identifier: Apache-2.0
// Where a run starts from: what it says of it, what it refuses, and what its record tells.
#include "src/nn/json_value.h"
#include "tests/run/door.h"
#include "tests/support/message_of.h"

#include <fmt/format.h>

namespace norn::run {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

TEST_F(Door, SaysThatItStartsFromTheBeginningWhereThereIsNothingToResume) {
  std::vector<std::string> told;
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  asked.resume = "auto";
  asked.log = Log([&](LogLevel, const std::string& text) { told.push_back(text); });
  const std::string words =
      fmt::format("no checkpoint of {} yet: starting from the beginning", asked.model.string());
  train(asked);
  EXPECT_THAT(told, Contains(words));
  told.clear();
  asked.epochs = 5;
  train(asked);
  EXPECT_THAT(told, Not(Contains(words)));
}

// However the one that is there is called.
TEST_F(Door, BeginsNoTrainingWhoseCheckpointsAreAllDamaged) {
  for (const std::string name : {"model", "named", "model.refit"}) {
    TrainOptions asked = options();
    asked.model = folder_ / "model.nc";
    asked.checkpoint_name = folder_ / "named.nc";
    asked.resume = "auto";
    const fs::path base = name == "model"   ? asked.model
                          : name == "named" ? asked.checkpoint_base()
                                            : asked.refit_base();
    const fs::path spoilt =
        base.parent_path() / (base.stem().string() + ".epoch1" + base.extension().string());
    write_text(spoilt, "no checkpoint");
    EXPECT_EQ(message_of<DataError>([&] { train(asked); }),
              fmt::format("{}: neither the model nor a checkpoint of it is whole and can be "
                          "resumed from; restore one of them, or start anew with `force` instead "
                          "of `resume`",
                          asked.model.string()))
        << spoilt;
    fs::remove(spoilt);
    EXPECT_EQ(train(asked).end, TrainingEnd::completed);
    for (const auto& file : fs::directory_iterator(folder_.path())) fs::remove(file);
  }
}

TEST_F(Door, RecordsTheFileOfItsDescriptor) {
  const auto origin_of = [](const TrainOptions& asked) {
    train(asked);
    return parse_json(read_text(asked.run_dir / "run.json"), "run.json")["origin"];
  };
  TrainOptions asked = options();
  asked.recipe.clear();
  asked.network = train(options()).model->network();
  asked.run_dir = folder_ / "text";
  EXPECT_EQ(origin_of(asked)["file"].text_or("none"), "");
  write_text(folder_ / "network.json", asked.network);
  asked.network.clear();
  asked.config = folder_ / "network.json";
  asked.run_dir = folder_ / "file";
  EXPECT_EQ(origin_of(asked)["file"].text_or("none"), asked.config.string());
}

TEST_F(Door, SaysHowItsRanksAreJoinedOnAGpuAlone) {
  std::vector<std::string> told;
  TrainOptions asked = options();
  asked.log = Log([&](LogLevel, const std::string& text) { told.push_back(text); });
  train(asked);
  EXPECT_THAT(told, Contains(testing::EndsWith(", one process")));
}

// Of the first batch, and of no other: the second has inputs of nothing.
TEST_F(Door, ChecksTheGradientsOfTheFirstBatch) {
  Baskets half = baskets_;
  const Index rows = 30;
  half.begin.resize(std::size_t(rows) + 1);
  for (Index row = 0; row < rows; ++row) half.begin.push_back(half.begin[std::size_t(rows)]);
  half.columns.resize(std::size_t(half.begin.back()));
  TrainOptions asked = options();
  asked.sets = half.sets();
  asked.batch = rows;
  const GradientCheck found = check_gradients(asked, 50);
  ASSERT_FALSE(found.groups.empty());
  EXPECT_EQ(found.groups[0].name, "Input -> Hidden");
  EXPECT_GT(found.groups[0].largest, 0.0);
  EXPECT_EQ(found.wrong(), 0);
}

}  // namespace
}  // namespace norn::run
