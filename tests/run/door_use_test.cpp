// SPDX-License-Identifier: Apache-2.0
// Models that are used again with other data, and runs that observers lead.
#include "norn/run/evaluate.h"
#include "src/data/image_import.h"
#include "tests/data/images.h"
#include "tests/run/door.h"
#include "tests/support/message_of.h"

#include <fmt/format.h>

namespace norn::run {
namespace {

TEST_F(Door, RefusesDataThatAreWiderThanANetworkThatIsInUse) {
  TrainOptions plain = options();
  plain.recipe.clear();
  plain.network = R"({"ErrorFunction": "CrossEntropy", "Layers": [
    {"Name": "In", "Kind": "Input", "DataSet": "films_input", "N": 61},
    {"Name": "Mid", "Kind": "Hidden", "N": 8, "Activation": "Tanh"},
    {"Name": "Out", "Kind": "Output", "DataSet": "films_output", "N": 61, "Activation": "Sigmoid"}]})";
  const std::vector<RowOffset> begin = {0, 1};
  const std::vector<Column> far = {100'000'000};  // beyond all memory
  MemorySet wide = {
      .name = "films_input", .width = 200'000'000, .row_begin = begin, .columns = far};
  for (const TrainOptions& asked : {plain, options()}) {
    const TrainResult trained = train(asked);
    const auto message = [](const char* set, const char* layer) {
      return fmt::format(
          "data set \"{}\" is 200000000 wide, but layer \"{}\" of the model has 61 units; give "
          "data of the units that the model has",
          set, layer);
    };
    const bool is_plain = asked.recipe.empty();
    const std::string of_input = message("films_input", is_plain ? "In" : "Input");
    RecommendOptions known = requests();
    known.sets = {wide};
    EXPECT_EQ(message_of<DataError>([&] { recommend(*trained.model, known); }), of_input);
    known.layer = is_plain ? "Mid" : "Hidden";
    EXPECT_EQ(message_of<DataError>([&] { embed(*trained.model, known); }), of_input);
    MemorySet held_out = wide;
    held_out.name = "films_output";
    const std::vector<Column> near = {3};
    MemorySet fits = wide;
    fits.width = kWidth;
    fits.columns = near;
    EXPECT_EQ(message_of<DataError>([&] {
                evaluate(*trained.model, {.sets = {fits, held_out}, .top = {5}});
              }),
              message("films_output", is_plain ? "Out" : "Output"));
  }
}

TEST_F(Door, RanksTheUnitsThatAreAllowedAmongThemselves) {
  const TrainResult trained = train(options());
  EvaluateOptions asked{.sets = options().sets, .top = {5}, .seen = SeenUnits::keep};
  std::vector<std::uint8_t> allowed(std::size_t(kWidth), 1);
  const Evaluation all = evaluate(*trained.model, asked).model;
  asked.allowed = allowed;
  const Evaluation same = evaluate(*trained.model, asked).model;
  EXPECT_EQ(same.metrics.at(0).of<metric::Ndcg>(), all.metrics.at(0).of<metric::Ndcg>());
  EXPECT_EQ(same.metrics.at(0).of<metric::Coverage>(), all.metrics.at(0).of<metric::Coverage>());
  EXPECT_EQ(same.units, all.units);
  std::mt19937 random(std::random_device{}());
  for (std::uint8_t& is : allowed) is = random() % 2 == 0;
  allowed[random() % kWidth] = 1;
  EXPECT_EQ(evaluate(*trained.model, asked).model.units, std::ranges::count(allowed, 1));
  asked.allowed = std::span(allowed).first(5);
  EXPECT_EQ(message_of<UsageError>([&] { evaluate(*trained.model, asked); }),
            "`allowed`: has 5 units, but layer \"Output\" has 61");
  std::ranges::fill(allowed, 0);
  asked.allowed = allowed;
  EXPECT_EQ(message_of<UsageError>([&] { evaluate(*trained.model, asked); }),
            "`allowed`: names no unit, so nothing is ranked; name some, or leave it out");
}

TEST_F(Door, RefusesDenseDataOfAnotherWidthThanANetworkWasMadeFor) {
  const std::vector<float> dense(std::size_t(203 * kWidth), 0.5f);
  TrainOptions asked = options();
  asked.recipe.clear();
  asked.sets = {{.name = "films_input", .width = kWidth, .dense = dense},
                baskets_.set("films_output")};
  asked.network = R"({"ErrorFunction": "CrossEntropy", "Layers": [
    {"Name": "In", "Kind": "Input", "DataSet": "films_input", "N": 61},
    {"Name": "Out", "Kind": "Output", "DataSet": "films_output", "N": 61, "Activation": "Sigmoid"}]})";
  const TrainResult trained = train(asked);
  RecommendOptions known;
  known.sets = {
      {.name = "films_input", .width = 30, .dense = std::span(dense).first(std::size_t(4 * 30))}};
  EXPECT_EQ(message_of<DataError>([&] { recommend(*trained.model, known); }),
            "data set \"films_input\" has 30 units, but the model was opened with 61 for layer "
            "\"In\"; open it again for these data");
}

TEST_F(Door, CountsTheUnitsOfAllAxesOfData) {
  std::mt19937 random(std::random_device{}());
  const auto import = [&](Index width, Index height) {
    constexpr std::uint32_t kCount = 6;
    std::string images = big_endian(0x803) + big_endian(kCount) +
                         big_endian(std::uint32_t(height)) + big_endian(std::uint32_t(width));
    for (Index i = 0; i < Index(kCount) * width * height; ++i) images += char(random());
    ImageImport options;
    options.query.input = folder_ / fmt::format("{}-images-idx3-ubyte", width);
    options.output = folder_ / fmt::format("{}x{}.nc", width, height);
    options.name = "films";
    write_text(options.query.input, images);
    write_text(folder_ / fmt::format("{}-labels-idx1-ubyte", width),
               big_endian(0x801) + big_endian(kCount) + std::string("\1\0\1\2\1\0", 6));
    import_images(options, {});
    return options.output;
  };
  TrainOptions asked = options();
  asked.recipe.clear();
  asked.sets.clear();
  asked.inputs = {import(3, 4)};
  asked.batch = 5;
  asked.network = R"({"ErrorFunction": "CrossEntropy", "Layers": [
    {"Name": "In", "Kind": "Input", "DataSet": "films_input", "N": [3, 4]},
    {"Name": "Out", "Kind": "Output", "DataSet": "films_output", "N": 3, "Activation": "SoftMax"}]})";
  const TrainResult trained = train(asked);
  RecommendOptions known;
  known.k = 2;
  known.inputs = {import(5, 4)};
  EXPECT_THAT(
      message_of<DataError>([&] { recommend(*trained.model, known); }),
      testing::HasSubstr("data set \"films_input\" is 20 wide, but layer \"In\" of the model "
                         "has 12 units; give data of the units that the model has"));
  known.inputs = {import(2, 5)};
  EXPECT_THAT(message_of<DataError>([&] { recommend(*trained.model, known); }),
              testing::HasSubstr("data set \"films_input\" has 10 units, but the model was opened "
                                 "with 12 for layer \"In\"; open it again for these data"));
}

TEST_F(Door, GoesOnFromTheBestModelOfARunThatHasEnded) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  asked.epochs = 20;
  asked.rate = 0.5f;  // it soon gets worse
  asked.validation.split = 0.2f;
  asked.validation.keep_best = "loss";
  const std::int64_t best = train(asked).epoch;
  ASSERT_LT(best, 20);
  asked.resume = asked.model;
  asked.model.clear();
  EXPECT_EQ(train(asked).epoch, best) << "it has ended";
  asked.validation.keep_best = "none";
  EXPECT_EQ(train(asked).epoch, 20) << "the last model is another one";
}

TEST_F(Door, StopsAfterTheValidationThatAsks) {
  TrainOptions asked = options();
  asked.validation.split = 0.2f;
  std::atomic<bool> stop{false};
  asked.stop = &stop;
  TrainObserver observer;
  std::int64_t of_epoch = 0;
  observer.on_epoch = [&](const EpochReport& report) { of_epoch = report.step; };
  observer.on_validation = [&](const ValidationReport& report) { stop = report.epoch == 2; };
  const TrainResult result = train(asked, observer);
  EXPECT_EQ(result.end, TrainingEnd::stopped);
  EXPECT_EQ(result.epoch, 2);
  EXPECT_EQ(result.step, of_epoch) << "no step more";
}

TEST_F(Door, TakesRatesOfEpochsFromAnObserver) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  std::atomic<bool> stop{false};
  asked.stop = &stop;
  TrainObserver observer;
  observer.on_rate = [](std::int64_t epoch, double) { return 0.001 * double(4 - epoch); };
  std::vector<float> rates;
  observer.on_epoch = [&](const EpochReport& report) { rates.push_back(float(report.rate)); };
  observer.on_step = [&](const StepReport& report) { stop = report.step == 15; };
  EXPECT_EQ(train(asked, observer).end, TrainingEnd::stopped);
  asked.resume = "auto";
  train(asked, observer);
  EXPECT_EQ(rates, (std::vector<float>{0.004f, 0.003f, 0.002f, 0.001f}));
  asked.model.clear();
  asked.resume.clear();
  EXPECT_EQ(read_text(folder_ / "model.nc"),
            train(asked, {{{}, {}, {}, {}, observer.on_rate}, {}, {}}).model->bytes())
      << "the same when it goes on within an epoch";
  EXPECT_NE(read_text(folder_ / "model.nc"), train(asked).model->bytes());
  observer.on_rate = [](std::int64_t, double) { return -0.5; };
  EXPECT_EQ(message_of<UsageError>([&] { train(asked, observer); }),
            "the rate -0.5 for epoch 1 is out of range: it must be at least 0");
}

}  // namespace
}  // namespace norn::run
