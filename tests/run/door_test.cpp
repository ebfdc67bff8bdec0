// SPDX-License-Identifier: Apache-2.0
// What a program does with the library: train, save, load, recommend, evaluate and plan, on data in
// memory and without a console.
#include "tests/run/door.h"

#include "norn/base/problem.h"
#include "norn/nn/machine.h"
#include "norn/run/data.h"
#include "norn/run/evaluate.h"
#include "norn/run/plan.h"
#include "norn/run/recommend.h"
#include "norn/run/train.h"
#include "src/parallel/communicator.h"
#include "src/run/recorder.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_group.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::HasSubstr;

TEST_F(Door, TrainsInMemoryToTheBytesThatAModelFileHas) {
  TrainOptions to_file = options();
  to_file.model = folder_ / "model.nc";
  TrainResult filed = train(to_file);
  EXPECT_EQ(filed.end, TrainingEnd::completed);
  EXPECT_EQ(filed.epoch, 4);
  TrainResult returned = train(options());
  const std::string bytes = read_text(folder_ / "model.nc");
  EXPECT_EQ(returned.model->bytes(), bytes);
  returned.model->save(folder_ / "saved.nc");
  EXPECT_EQ(read_text(folder_ / "saved.nc"), bytes);
  const auto again = Model::from_bytes(bytes, on_cpu());
  EXPECT_EQ(again->bytes(), bytes);
  EXPECT_EQ(recommend(*again, requests()).units, recommend(*returned.model, requests()).units);
  EXPECT_THAT(message_of<UsageError>([&] { train(to_file); }), HasSubstr("`model`"))
      << "a model that exists is not replaced";
}

TEST_F(Door, RecommendsWithTheTrainedNetworkAsWithItsFile) {
  TrainResult trained = train(options());
  trained.model->save(folder_ / "model.nc");
  Model loaded(folder_ / "model.nc", on_cpu());
  RecommendOptions asked = requests();
  asked.exclude_seen = true;
  const Recommendations here = recommend(*trained.model, asked);
  const Recommendations there = recommend(loaded, asked);
  EXPECT_EQ(here.examples, 203);
  ASSERT_EQ(here.units.size(), 203u * 5);
  EXPECT_EQ(here.units, there.units);
  EXPECT_EQ(here.scores, there.scores);
  for (Index e = 0; e < 203; ++e)
    for (Index i = 0; i < 5; ++i) {
      const auto seen = std::span(baskets_.columns)
                            .subspan(std::size_t(baskets_.begin[std::size_t(e)]),
                                     std::size_t(baskets_.begin[std::size_t(e) + 1] -
                                                 baskets_.begin[std::size_t(e)]));
      const Index unit = here.units[std::size_t(e * 5 + i)];
      EXPECT_EQ(std::ranges::count(seen, Column(unit)), 0);
      if (i == 0) continue;
      EXPECT_GE(here.scores[std::size_t(e * 5 + i) - 1], here.scores[std::size_t(e * 5 + i)]);
    }
}

TEST_F(Door, FiltersByExampleAndByUnit) {
  TrainResult trained = train(options());
  const Recommendations free = recommend(*trained.model, requests());
  // The first choice of each example is excluded, the second loses its score.
  std::vector<RowOffset> begin = {0};
  std::vector<Column> first, second;
  for (Index e = 0; e < free.examples; ++e) {
    first.push_back(Column(free.units[std::size_t(e * 5)]));
    second.push_back(Column(free.units[std::size_t(e * 5) + 1]));
    begin.push_back(e + 1);
  }
  const std::vector<float> nothing(first.size(), 0.0f);
  RecommendOptions asked = requests();
  asked.excluded = {.name = "excluded", .width = kWidth, .row_begin = begin, .columns = first};
  asked.factors = {
      .name = "factors", .width = kWidth, .row_begin = begin, .columns = second, .values = nothing};
  const Recommendations filtered = recommend(*trained.model, asked);
  for (Index e = 0; e < free.examples; ++e)
    EXPECT_EQ(filtered.units[std::size_t(e * 5)], free.units[std::size_t(e * 5) + 2]);

  const std::vector<float> dense(std::size_t(203 * kWidth), 1.0f);
  asked.excluded = {.name = "excluded", .width = kWidth, .dense = dense};
  EXPECT_EQ(message_of<UsageError>([&] { recommend(*trained.model, asked); }),
            "`excluded`: is dense; give sparse rows, with what they name for each example");

  std::vector<std::uint8_t> allowed(kWidth, 0);
  allowed[3] = allowed[50] = 1;
  asked = requests();
  asked.allowed = allowed;
  const Recommendations few = recommend(*trained.model, asked);
  EXPECT_EQ((std::set<Index>{few.units[0], few.units[1]}), (std::set<Index>{3, 50}));
  EXPECT_EQ(few.units[2], -1);
  EXPECT_TRUE(std::isnan(few.scores[2]));
}

TEST_F(Door, ValidatesStopsEarlyAndKeepsTheBestWithoutAFile) {
  TrainOptions asked = options();
  asked.epochs = 60;
  asked.validation.split = 0.2f;
  asked.validation.early_stop = "ndcg@5";
  asked.validation.patience = 2;
  asked.validation.stop_from = 0.0f;
  asked.validation.metrics_at = "5";
  std::map<std::int64_t, double> values;
  TrainObserver observer;
  observer.on_validation = [&](const ValidationReport& report) {
    values[report.epoch] = report.value;
  };
  const TrainResult result = train(asked, observer);
  ASSERT_FALSE(values.empty());
  EXPECT_EQ(result.watched, "ndcg@5");
  EXPECT_EQ(values[result.epoch], result.best);
  for (const auto& [epoch, value] : values) EXPECT_LE(value, values[result.epoch]);
  EXPECT_EQ(result.end, values.size() < 60 ? TrainingEnd::early_stopped : TrainingEnd::completed);
}

TEST_F(Door, SaysWhatFilesItMisses) {
  train(options()).model->save(folder_ / "model.nc");
  Model model(folder_ / "model.nc", on_cpu());
  std::filesystem::remove(folder_ / "model.nc");
  EXPECT_EQ(message_of([&] { model.bytes(); }),
            (folder_ / "model.nc").string() + ": cannot be read; is it still there?");
  TrainOptions asked = options();
  asked.validation.split = 0.2f;
  asked.validation.keep_best = "loss";
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "/tmp";
  ::setenv("TMPDIR", (folder_ / "none").c_str(), 1);
  const std::string message = message_of([&] { train(asked); });
  ::setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_THAT(message, testing::MatchesRegex(".*: a temporary folder cannot be made: .*; set "
                                             "TMPDIR to another one, or name a `model`"));
}

TEST_F(Door, StopsWhenAnObserverAsksAndGoesOnToTheSameBytes) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  std::atomic<bool> stop{false};
  asked.stop = &stop;
  TrainObserver observer;
  int begun = 0, ended = 0;
  observer.on_begin = [&](const RunBeginning&) { ++begun; };
  observer.on_end = [&] { ++ended; };
  observer.on_step = [&](const StepReport& report) { stop = report.step >= 9; };
  EXPECT_EQ(train(asked, observer).end, TrainingEnd::stopped);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model.nc"));
  asked.stop = nullptr;
  asked.resume = "auto";
  EXPECT_EQ(train(asked).end, TrainingEnd::completed);
  EXPECT_EQ(read_text(folder_ / "model.nc"), train(options()).model->bytes());
}

TEST_F(Door, RecordsARunAndItsFailure) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  asked.run_dir = folder_ / "run";
  asked.program = "host";
  std::vector<std::string> kinds;
  const auto recorder = std::make_shared<Recorder>();
  recorder->open_sink = [&](const auto&, std::int64_t, const auto&) {
    return [&](const JsonValue& event) { kinds.push_back(event["event"].text_or("")); };
  };
  asked.recorder = recorder;
  train(asked);
  EXPECT_EQ(kinds.front(), "start");
  EXPECT_EQ(kinds.back(), "end");
  EXPECT_THAT(read_text(folder_ / "run/run.json"), HasSubstr("\"program\": \"host\""));
  asked.force = true;
  TrainObserver observer;
  observer.on_epoch = [](const EpochReport&) { throw DataError("trouble"); };
  EXPECT_EQ(message_of([&] { train(asked, observer); }), "trouble");
  EXPECT_THAT(read_text(folder_ / "run/log.jsonl"), HasSubstr("trouble"));
}

TEST_F(Door, MakesARecordedRunAgainAsItWas) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  asked.run_dir = folder_ / "run";
  train(asked);
  TrainOptions again;
  again.repeat = folder_ / "run/run.json";
  again.sets = baskets_.sets();
  again.model = folder_ / "again.nc";
  again.device = asked.device;
  const auto refused = [&](auto change) {
    TrainOptions changed = again;
    change(changed);
    return message_of<UsageError>([&] { train(changed); });
  };
  const std::string changes =
      "`repeat` makes the run again as it was, and another setting of this run changes its "
      "training; leave one of them out";
  EXPECT_EQ(refused([](TrainOptions& o) { o.rate = 0.25f; }), changes);
  EXPECT_EQ(refused([](TrainOptions& o) { o.validation.split = 0.25f; }), changes);
  EXPECT_EQ(refused([](TrainOptions& o) { o.shuffle = "no"; }), changes);
  EXPECT_EQ(refused([](TrainOptions& o) { o.recipe = "softmax"; }),
            "`recipe` cannot be given with `repeat`, which makes the run again as it was; leave "
            "one of them out");
  EXPECT_EQ(refused([](TrainOptions& o) { o.trust_index = true; }),
            "`trust_index` cannot be given with `repeat` of a run that was made without it; leave "
            "it out");
  train(again);
  EXPECT_EQ(read_text(folder_ / "again.nc"), read_text(folder_ / "model.nc"));
}

TEST_F(Door, SaysAllThatIsWrongWithSettingsAtOnce) {
  TrainOptions asked = options();
  asked.batch = 0;
  asked.rule["Mu"] = 1.0f;
  asked.schedule.patience = -1;
  asked.validation.early_stop = "ndgc@20";
  asked.config = "net.json";
  std::vector<std::string> keys;
  try {
    train(asked);
  } catch (const ProblemsError& error) {
    for (const Problem& problem : error.problems()) keys.push_back(problem.key);
  }
  EXPECT_EQ(keys,
            (std::vector<std::string>{"batch", "mu", "rate_patience", "early_stop", "recipe"}));
}

TEST_F(Door, GivesParametersOfAFileWhoseDenseInputIsSkippedTo) {
  std::vector<float> dense(std::size_t(203 * kWidth), 0.0f);
  for (Index row = 0; row < 203; ++row)
    for (RowOffset i = baskets_.begin[std::size_t(row)]; i < baskets_.begin[std::size_t(row) + 1];
         ++i)
      dense[std::size_t(row * kWidth) + baskets_.columns[std::size_t(i)]] = 1.0f;
  TrainOptions asked = options();
  asked.recipe.clear();
  asked.sets = {{.name = "films_input", .width = kWidth, .dense = dense},
                baskets_.set("films_output")};
  asked.network = R"({"ErrorFunction": "CrossEntropy", "Layers": [
    {"Name": "In", "Kind": "Input", "DataSet": "films_input", "N": 61},
    {"Name": "First", "Kind": "Hidden", "N": 61, "Activation": "Tanh"},
    {"Name": "Second", "Kind": "Hidden", "N": 61, "Activation": "Tanh", "Skip": "In"},
    {"Name": "Out", "Kind": "Output", "DataSet": "films_output", "N": 61, "Activation": "Sigmoid"}]})";
  TrainResult trained = train(asked);
  trained.model->save(folder_ / "model.nc");
  const std::vector<Parameter> here = trained.model->parameters();
  const std::vector<Parameter> there = Model(folder_ / "model.nc", on_cpu()).parameters();
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].name, there[i].name);
    EXPECT_EQ(here[i].extent, there[i].extent);
  }
}

TEST_F(Door, GivesParametersByNameWhereTheyStand) {
  TrainResult trained = train(options());
  trained.model->save(folder_ / "model.nc");
  const std::vector<Parameter> here = trained.model->parameters();
  const std::vector<Parameter> again = trained.model->parameters();
  trained.model.reset();  // its parameters stay with their views
  const std::vector<Parameter> there = Model(folder_ / "model.nc", on_cpu()).parameters();
  ASSERT_EQ(here.size(), there.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < here.size(); ++i) {
    SCOPED_TRACE(here[i].name);
    EXPECT_EQ(here[i].name, there[i].name);
    ASSERT_EQ(here[i].extent, there[i].extent);
    const bool is_matrix = here[i].extent.size() == 2;
    EXPECT_EQ(here[i].data == again[i].data, is_matrix) << "weights are not copied";
    for (Index row = 0; row < here[i].extent[0]; ++row)
      for (Index column = 0; column < (is_matrix ? here[i].extent[1] : 1); ++column)
        ASSERT_EQ(here[i].at(row, column), there[i].at(row, column)) << row << ' ' << column;
    names.insert(here[i].name);
  }
  EXPECT_TRUE(names.contains("Input -> Hidden"));
  EXPECT_TRUE(names.contains("Output bias"));
}

TEST_F(Door, GivesTheSameParametersOnSeveralRanks) {
  const std::vector<Parameter> alone = train(options()).model->parameters();
  run_thread_group(3, [&](Communicator& communicator) {
    TrainOptions asked = options();
    asked.ranks = std::shared_ptr<Communicator>(&communicator, [](Communicator*) {});
    const std::vector<Parameter> shared = train(asked).model->parameters();
    ASSERT_EQ(shared.size(), alone.size());
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const Index columns = alone[i].extent.size() == 2 ? alone[i].extent[1] : 1;
      for (Index row = 0; row < alone[i].extent[0]; ++row)
        for (Index column = 0; column < columns; ++column) {
          ASSERT_EQ(shared[i].at(row, column), alone[i].at(row, column)) << alone[i].name;
        }
    }
  });
}

TEST_F(Door, HasWrittenAModelWhenSaveReturnsOnAnyRank) {
  TrainOptions asked = options();
  asked.model = folder_ / "model.nc";
  train(asked);
  const std::string bytes = read_text(asked.model);
  run_thread_group(2, [&](Communicator& communicator) {
    ModelOptions opened = on_cpu();
    opened.ranks = std::shared_ptr<Communicator>(&communicator, [](Communicator*) {});
    Model model(asked.model, opened);
    // The other rank is long there.
    if (communicator.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    model.save(folder_ / "copy.nc");
    EXPECT_EQ(read_text(folder_ / "copy.nc"), bytes) << "on rank " << communicator.rank();
    EXPECT_EQ(model.bytes(), bytes);
    EXPECT_EQ(Model::from_bytes(bytes, opened)->bytes(), bytes);
  });
}

TEST_F(Door, KnowsTheLabelsOfUnits) {
  TrainOptions asked = options();
  LabelIndex index;
  for (Index unit = 0; unit < kWidth; ++unit) index.add("film" + std::to_string(unit));
  for (MemorySet& set : asked.sets) set.unit_labels = LabelTable::of(index);
  const TrainResult trained = train(asked);
  const LabelTable& labels = trained.model->unit_labels("Output");
  EXPECT_EQ(labels.list()[60], "film60");
  EXPECT_EQ(message_of<UsageError>([&] { trained.model->unit_labels("Outptu"); }),
            "`layer`: the model has no layer \"Outptu\". It has: Input, Hidden, Output");
  asked.recipe.clear();
  asked.network = trained.model->network();
  EXPECT_EQ(train(asked).model->bytes(), trained.model->bytes())
      << "a model's descriptor trains it again";
}

TEST_F(Door, SaysWhatPartOfNoEntriesIsUnknown) {
  TrainOptions asked = options();
  LabelIndex index, others;
  for (Index unit = 0; unit < kWidth; ++unit) index.add("film" + std::to_string(unit));
  for (Index unit = 1; unit <= kWidth; ++unit) others.add("film" + std::to_string(unit));
  for (MemorySet& set : asked.sets) set.unit_labels = LabelTable::of(index);
  std::vector<std::string> told;
  asked.log = Log([&](LogLevel, const std::string& text) { told.push_back(text); });
  const TrainResult trained = train(asked);
  const std::vector<RowOffset> begin = {0, 0, 0};
  RecommendOptions known = requests();
  known.sets = {{.name = "films_input", .width = kWidth, .row_begin = begin}};
  known.sets[0].unit_labels = LabelTable::of(others);
  recommend(*trained.model, known);
  EXPECT_THAT(told,
              testing::Contains(HasSubstr("1 of 61 features (0 entries, 0 %) are not known to "
                                          "the model and were left out")));
}

TEST_F(Door, EvaluatesWhatWasHeldOut) {
  TrainResult trained = train(options());
  EvaluateOptions asked;
  asked.sets = baskets_.sets();
  asked.top = {5};
  asked.seen = SeenUnits::keep;
  const EvaluationReport report = evaluate(*trained.model, asked);
  ASSERT_EQ(report.model.metrics.size(), 1u);
  EXPECT_EQ(report.model.examples, 203);
  EXPECT_GT(report.model.metrics[0].of<metric::Recall>(), 0.5) << "it has seen the baskets";
  EXPECT_FALSE(report.popularity);
}

// Beside another ranking, too, which goes through the same examples.
TEST_F(Door, TellsTheProgressOfAnEvaluationOnce) {
  const TrainResult trained = train(options());
  write_sets(folder_ / "trained.nc", baskets_.sets(), {});
  EvaluateOptions asked;
  asked.sets = baskets_.sets();
  asked.top = {5};
  std::vector<Index> alone, beside;
  asked.on_batch = [&](Index done, Index) { alone.push_back(done); };
  evaluate(*trained.model, asked);
  asked.popularity = folder_ / "trained.nc";
  asked.on_batch = [&](Index done, Index) { beside.push_back(done); };
  EXPECT_TRUE(evaluate(*trained.model, asked).popularity);
  EXPECT_EQ(alone.back(), 203);
  EXPECT_EQ(beside, alone);
}

TEST_F(Door, PlansWhatItWouldTake) {
  const RunPlan here = plan(options());
  EXPECT_TRUE(here.fits());
  EXPECT_GT(here.memory_bytes, 4 * here.weights);
  const MachinePlan there = plan_on_machine(options(), h200_machine(), 16);
  EXPECT_EQ(there.weights, here.weights);
  EXPECT_EQ(there.step.ranks, 16);
  EXPECT_EQ(there.step.nodes, 2);
  EXPECT_EQ(there.scaling.front().ranks, 1);
  EXPECT_GT(there.scaling.front().examples_per_second, 0.0);
  EXPECT_THAT(effective_descriptor(options()), HasSubstr("\"films_input\""));
}

TEST_F(Door, NamesTheSettingsOfTheProgram) {
  const auto message = [&](auto change) {
    TrainOptions asked = options();
    change(asked);
    return message_of<UsageError>([&] { train(asked); });
  };
  EXPECT_EQ(message([](TrainOptions& o) { o.recipe.clear(); }),
            "`config` is missing: give a descriptor, a `recipe`, or a `network`");
  EXPECT_EQ(message([](TrainOptions& o) { o.resume = "auto"; }),
            "`resume` goes on from the checkpoints of a `model`: name that, too");
  EXPECT_EQ(message([](TrainOptions& o) { o.network = "{}"; }),
            "`network` is a descriptor as `config` and `recipe` name one: give one of them");
  EXPECT_EQ(message([](TrainOptions& o) { o.recipe = "sigmoidal"; }),
            "`recipe` sigmoidal: there is no such recipe; choose of: sigmoid, softmax, ease, auto");
  EXPECT_THAT(message([](TrainOptions& o) { o.optimizer = "Magic"; }),
              HasSubstr("`optimizer` Magic: there is no such choice; choose of: "));
  EXPECT_EQ(message([](TrainOptions& o) { o.batch = 1000; }),
            "`batch` 1000 is larger than the 203 examples of the data; give `batch` 203 or less");
  TrainResult trained = train(options());
  RecommendOptions asked = requests();
  asked.k = 0;
  EXPECT_EQ(message_of<UsageError>([&] { recommend(*trained.model, asked); }),
            "`k` 0 is out of range: it must be at least 1");
  asked = requests();
  const std::vector<std::uint8_t> short_list(5, 1);
  asked.allowed = short_list;
  EXPECT_EQ(message_of<UsageError>([&] { recommend(*trained.model, asked); }),
            "`allowed`: has 5 units, but there are 61 to choose of");
  asked = requests();
  const Baskets two(1, 2);
  asked.excluded = two.set("excluded");
  EXPECT_EQ(message_of<UsageError>([&] { recommend(*trained.model, asked); }),
            "`excluded`: has 2 examples of 61 units, but there are 203 examples and 61 units; give "
            "a row for each example");
  const std::vector<float> dense(kWidth, 1.0f);
  asked = requests();
  asked.sets = {{.name = "films_input", .width = kWidth, .dense = dense}};
  EXPECT_EQ(message_of([&] { recommend(*trained.model, asked); }),
            "data set \"films_input\" is dense, but the model was opened with sparse data for "
            "layer \"Input\"; open it again for these data");
  asked = requests();
  asked.layer = "Hidden";
  EXPECT_THAT(message_of<UsageError>([&] { recommend(*trained.model, asked); }),
              HasSubstr("`layer`: \"Hidden\" is no output layer"));
  EXPECT_EQ(embed(*trained.model, asked).examples, 203);
}

}  // namespace
}  // namespace norn::run
