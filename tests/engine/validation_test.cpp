// SPDX-License-Identifier: Apache-2.0
// Validating while training: it changes no bit of what is trained, says the same on any number of
// ranks and after any interruption, and the best model is the one that is kept.
#include "norn/base/error.h"
#include "src/engine/evaluator.h"
#include "src/engine/trainer.h"
#include "tests/data/support.h"
#include "tests/engine/grouped_data.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

NetworkDescriptor auto_encoder(const UpdateRule& optimizer, const LayerActivation& output) {
  Recipe recipe = recipe_base("validated", optimizer, 0.01f);
  NetworkDescriptor network = recipe.network;
  network.layers = {input_layer("In", kUnits), hidden_layer("Hidden", 23, {"In"}),
                    output_layer("Out", kUnits, {"Hidden"}, output)};
  network.layers[0].sparse = true;
  network.layers[1].dropout = 0.2f;
  network.denoising = 0.3f;
  network.training.epochs = 8;
  network.training.validation.split = 0.25f;
  network.training.validation.metrics_at = "5,10";
  network.training.validation.stop_from = 0.0f;
  return network;
}

struct Session {
  std::int64_t stop_after = -1;  ///< steps
  int stop_in_validation = 0;    ///< at the first batch of this validation; 0: in none
  bool resume = false;
  int ranks = 1;
  bool validates = true;
  std::int64_t every_epochs = 0;
  std::int64_t patience = 0;  ///< instead of what is resumed
  bool moves_data = false;    ///< to the device's memory
  bool writes_model = false;  ///< at the end, as the trainer does
  std::int64_t memory_bytes = std::int64_t(1) << 30;
  std::function<void()> after_last_validation = {};
};

struct Result {
  TrainingEnd end = TrainingEnd::completed;
  TrainingState state;
  std::vector<float> weights;
  std::vector<ValidationReport> reports;
  std::vector<double> rates;  ///< of every epoch's last step
};

class Validating : public testing::Test {
 protected:
  void SetUp() override { use(auto_encoder(Adam{}, SoftMax{})); }

  void use(const NetworkDescriptor& network, bool valued = false) {
    network_ = network;
    const auto rows = grouped_rows(kUnits, 11);
    write_sets(folder_ / "data.nc", {{"In", rows, valued}, {"Out", rows, valued}});
  }
  ValidationDescriptor& asked() { return network_.training.validation; }
  fs::path model_path() const { return folder_ / "model.nc"; }

  Result live(const Session& session) const {
    Result result;
    std::mutex mutex;
    const auto body = [&](Communicator& communicator) {
      Result mine = live_on(communicator, session);
      const std::lock_guard lock(mutex);
      if (communicator.rank() == 0) result = std::move(mine);
    };
    if (session.ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(session.ranks, body);
    return result;
  }

  Result live_on(Communicator& communicator, const Session& session) const {
    const std::unique_ptr<Runtime> runtime =
        make_test_runtime(1, session.stop_after > 0 || session.stop_in_validation > 0 ? 0 : 4);
    const Context context = runtime->context(communicator);
    context.compute.kernels.block_rule = blocks_;
    ModelInfo info;
    info.network = network_;
    std::unique_ptr<TensorFileReader> file;
    if (session.resume) {
      file = std::make_unique<TensorFileReader>(find_checkpoint(model_path()).value());
      info = read_model_info(*file);
      if (session.patience > 0) info.network.training.validation.patience = session.patience;
    }
    const fs::path data_file = folder_ / "data.nc";
    DataBinding data(info.network, {{data_file}, {data_file}, session.memory_bytes},
                     DataBinding::Layers::inputs_and_outputs);
    const ValidationDescriptor& asked = info.network.training.validation;
    const HoldOutRule rule{asked.split,
                           asked.by == ValidationBy::user ? HoldOutBy::user : HoldOutBy::entry,
                           info.network.training.seed};
    const ValidationData held_out = data.hold_out(info.network, rule, 2);
    if (session.moves_data) data.move_to(context.compute.memory);
    Network network(make_graph(info.network, data.shapes(), "test"), data.shapes(), context,
                    info.network.training.batch, Pass::training);
    Result result;
    if (session.resume) {
      load_weights(communicator.rank() == 0 ? file.get() : nullptr, info, network);
      result.state = info.state;
    } else {
      network.initialise(info.network.training.seed);
    }
    std::atomic<bool> stop = false;
    TrainingObserver observer;
    observer.on_step = [&](const StepReport& report) {
      if (report.step == session.stop_after) stop = true;
    };
    // The last step of the epoch before has been reported when this epoch's validation begins.
    observer.on_epoch = [&](const EpochReport& report) {
      result.rates.push_back(report.rate);
      if (report.epoch == session.stop_in_validation) stop = true;
    };
    observer.on_validation = [&](const ValidationReport& report) {
      result.reports.push_back(report);
      result.reports.back().seconds = 0.0;
      const bool is_last = report.epoch == info.network.training.epochs;
      if (is_last && session.after_last_validation && communicator.rank() == 0)
        session.after_last_validation();
    };
    result.end =
        train(network, data, {model_path(), session.every_epochs}, stop, observer, result.state, {},
              session.validates ? Validation{&held_out, 2} : Validation{});
    result.weights = gather_state(network);
    if (!session.writes_model) return result;
    save_model(model_path(), network, result.state);
    if (communicator.rank() == 0) fs::remove(best_model(model_path()));
    return result;
  }

  void forget_files() const {
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename() != "data.nc") fs::remove(entry.path());
  }

  const TempDir folder_;
  NetworkDescriptor network_;
  BlockRule blocks_ = kMediumBlocks;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<double> numbers(const std::vector<ValidationReport>& reports) {
  std::vector<double> all;
  for (const ValidationReport& r : reports) {
    for (double x : {double(r.epoch), double(r.step), r.cost, double(r.examples), r.value,
                     double(r.best), double(r.since_best)})
      all.push_back(x);
    for (const MetricsAtK& m : r.metrics) {
      all.push_back(double(m.k));
      m.for_each([&all](const MetricInfo&, double value) { all.push_back(value); });
    }
  }
  return all;
}

TEST_F(Validating, ChangesNoBitOfWhatIsTrained) {
  for (const UpdateRule& rule : {UpdateRule(Adam{}), UpdateRule(Momentum{}), UpdateRule(Sgd{})})
    for (const LayerActivation& output :
         {LayerActivation(SoftMax{}), LayerActivation(Activation(Sigmoid{}))}) {
      use(auto_encoder(rule, output));
      const Result without = live({.validates = false});
      const Result with = live({});
      EXPECT_EQ(with.reports.size(), 8u);
      EXPECT_TRUE(same_bits(with.weights, without.weights));
      EXPECT_TRUE(without.reports.empty());
    }
}

TEST_F(Validating, OfEdgesBySourceChangesNothingEither) {
  network_.layers = {input_layer("In", kUnits),
                     hidden_layer("Wide", 407, {"In"}, Activation(Relu{})),
                     output_layer("Out", kUnits, {"Narrow"}), hidden_layer("Narrow", 61, {"Wide"})};
  network_.layers[1].batch_normalization = true;
  blocks_.gathered_elements = 1;
  network_.training.epochs = 3;
  const Result without = live({.ranks = 2, .validates = false});
  const Result with = live({.ranks = 3});
  EXPECT_TRUE(same_bits(with.weights, without.weights));
  EXPECT_EQ(numbers(with.reports), numbers(live({}).reports));
}

TEST_F(Validating, SaysTheSameOnAnyNumberOfRanksAndFromStreamedData) {
  for (const ValidationBy by : {ValidationBy::user, ValidationBy::entry}) {
    asked().by = by;
    const Result one = live({});
    ASSERT_EQ(one.reports.size(), 8u);
    EXPECT_LT(one.reports[0].metrics[1].of<metric::Recall>(),
              one.reports.back().metrics[1].of<metric::Recall>());
    for (const Session& session : {Session{.ranks = 2}, Session{.ranks = 3},
                                   Session{.memory_bytes = 0}, Session{.moves_data = true}}) {
      const Result other = live(session);
      EXPECT_EQ(numbers(other.reports), numbers(one.reports));
      EXPECT_TRUE(same_bits(other.weights, one.weights));
    }
  }
}

TEST_F(Validating, ComesEveryFewEpochsAndAtTheEnd) {
  asked().every = 3;
  std::vector<std::int64_t> epochs;
  for (const ValidationReport& report : live({}).reports) epochs.push_back(report.epoch);
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{3, 6, 8}));
}

// Epochs until the value that is watched has been without improvement for `patience` validations.
std::int64_t last_epoch(const std::vector<ValidationReport>& reports, std::int64_t patience) {
  for (const ValidationReport& report : reports)
    if (report.since_best == patience) return report.epoch;
  return reports.back().epoch;
}

TEST_F(Validating, StopsInTimeAndKeepsTheBestModel) {
  network_.training.epochs = 40;
  network_.training.rate = 0.05f;  // so that it overfits
  const Result all = live({});
  asked().early_stop = "NDCG@5";
  asked().patience = 3;
  const Result early = live({});
  EXPECT_EQ(early.end, TrainingEnd::early_stopped);
  const std::int64_t last = last_epoch(all.reports, 3);
  ASSERT_LT(last, 40);
  EXPECT_EQ(early.reports.back().epoch, last);
  EXPECT_EQ(early.state.epoch, last - 3);
  EXPECT_EQ(early.state.search.best_epoch, last - 3);
  EXPECT_EQ(early.state.search.ended_epoch, last);
  EXPECT_EQ(early.reports[std::size_t(last - 4)].value, early.state.search.best);

  forget_files();
  asked().early_stop.clear();
  network_.training.epochs = last - 3;
  EXPECT_TRUE(same_bits(live({.validates = false}).weights, early.weights));
}

TEST_F(Validating, KeepsTheBestModelWithoutStopping) {
  network_.training.epochs = 12;
  network_.training.rate = 0.05f;
  asked().keep_best = "loss";
  const Result kept = live({.ranks = 2});
  EXPECT_EQ(kept.end, TrainingEnd::completed);
  ASSERT_EQ(kept.reports.size(), 12u);
  const auto best = std::ranges::min_element(kept.reports, {}, &ValidationReport::cost);
  ASSERT_LT(best->epoch, 12);  // or there is nothing to go back to
  EXPECT_EQ(kept.state.epoch, best->epoch);
  EXPECT_EQ(kept.state.search.best, best->cost);
  EXPECT_TRUE(fs::exists(best_model(model_path())));
}

TEST_F(Validating, TakesSmallImprovementsForNone) {
  network_.training.epochs = 30;
  asked().early_stop = "recall@10";
  asked().patience = 2;
  asked().min_delta = 0.5f;
  const Result result = live({});
  EXPECT_EQ(result.end, TrainingEnd::early_stopped);
  EXPECT_LT(result.reports.back().epoch, 10);
  for (const ValidationReport& report : result.reports)
    EXPECT_TRUE(report.epoch == 1 || !report.best || report.value > result.reports[0].value + 0.5);
}

class Interrupted : public Validating {};

TEST_F(Interrupted, AtAnyStepIsNeverHavingStopped) {
  network_.training.epochs = 30;
  network_.training.rate = 0.05f;
  asked().early_stop = "ndcg@5";
  asked().patience = 3;
  asked().every = 2;
  const Result straight = live({});
  ASSERT_EQ(straight.end, TrainingEnd::early_stopped);
  const std::int64_t steps = 5;  // an epoch: 180 examples in batches of 37
  int turn = 0;
  for (std::int64_t step : {steps * 2 - 1, steps * 2, steps * 2 + 1, steps * 5, steps * 6 + 3}) {
    SCOPED_TRACE(fmt::format("stopped after step {}", step));
    forget_files();
    const Result first = live({.stop_after = step, .ranks = 1 + turn % 2});
    ASSERT_EQ(first.end, TrainingEnd::stopped);
    const Result second = live({.resume = true, .ranks = 1 + (turn + 2) % 3});
    ++turn;
    EXPECT_EQ(second.end, TrainingEnd::early_stopped);
    EXPECT_TRUE(same_bits(second.weights, straight.weights));
    EXPECT_EQ(second.state.search.ended_epoch, straight.state.search.ended_epoch);
    std::vector<ValidationReport> reports = first.reports;
    reports.insert(reports.end(), second.reports.begin(), second.reports.end());
    EXPECT_EQ(numbers(reports), numbers(straight.reports));
  }
}

TEST_F(Interrupted, KnowsHowLongItHasBeenOnAPlateau) {
  network_.training.epochs = 14;
  network_.training.rate = 0.05f;
  network_.training.schedule.kind = RateKind::plateau;
  network_.training.schedule.patience = 2;
  asked().keep_best = "loss";
  const Result straight = live({});
  ASSERT_LT(straight.rates.back(), 0.5f * straight.rates.front());
  for (const std::int64_t step : {33, 47, 56}) {
    forget_files();
    const Result first = live({.stop_after = step, .ranks = 2});
    const Result second = live({.resume = true, .ranks = 3});
    EXPECT_TRUE(same_bits(second.weights, straight.weights)) << "stopped after step " << step;
    std::vector<double> rates = first.rates;
    rates.insert(rates.end(), second.rates.begin(), second.rates.end());
    EXPECT_EQ(rates, straight.rates);
  }
}

TEST_F(Interrupted, InAValidationValidatesAgain) {
  asked().keep_best = "ndcg@5";
  const Result straight = live({});
  forget_files();
  const Result first = live({.stop_in_validation = 3, .ranks = 2});
  EXPECT_EQ(first.end, TrainingEnd::stopped);
  EXPECT_EQ(first.reports.size(), 2u);
  EXPECT_TRUE(fs::exists(folder_ / "model.epoch3.nc"));
  const Result second = live({.resume = true});
  EXPECT_EQ(second.reports.front().epoch, 3);
  EXPECT_TRUE(same_bits(second.weights, straight.weights));
}

// A crash after the best model was written and before any checkpoint: that model is what the run
// goes on from.
TEST_F(Interrupted, AfterTheBestModelGoesOnFromThere) {
  network_.training.epochs = 12;
  network_.training.rate = 0.05f;
  asked().keep_best = "loss";
  const Result straight = live({});
  const std::string best = read_text(best_model(model_path()));
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().filename(), testing::AnyOf("data.nc", "model.best.nc"));
  const Result second = live({.resume = true, .ranks = 2});
  EXPECT_EQ(second.reports.front().epoch, straight.state.epoch + 1);
  EXPECT_TRUE(same_bits(second.weights, straight.weights));
  EXPECT_EQ(read_text(best_model(model_path())), best);
}

// As the trainer leaves it at the end: the best model in the model's place, and checkpoints that
// are later than it.
TEST_F(Interrupted, AfterItsEndGoesOnFromTheBestModelAlone) {
  network_.training.epochs = 30;
  network_.training.rate = 0.05f;
  asked().early_stop = "ndcg@5";
  asked().patience = 3;
  const Result ended = live({.every_epochs = 1, .writes_model = true});
  ASSERT_EQ(ended.end, TrainingEnd::early_stopped);
  ASSERT_TRUE(fs::exists(folder_ / fmt::format("model.epoch{}.nc", ended.state.epoch + 2)));
  ASSERT_FALSE(fs::exists(best_model(model_path())));
  const Result again = live({.resume = true, .ranks = 2});
  EXPECT_EQ(again.end, TrainingEnd::early_stopped);
  EXPECT_TRUE(again.reports.empty());
  EXPECT_TRUE(same_bits(again.weights, ended.weights));

  asked().patience = 5;
  const Result more = live({.resume = true, .patience = 5, .writes_model = true});
  EXPECT_EQ(more.reports.front().epoch, ended.state.epoch + 1);
  forget_files();
  EXPECT_TRUE(same_bits(more.weights, live({}).weights));
}

TEST_F(Interrupted, WithoutItsBestModelSaysSo) {
  network_.training.rate = 0.05f;
  asked().keep_best = "ndcg@5";
  asked().every = 4;
  live({.stop_after = 22});
  fs::remove(best_model(model_path()));
  EXPECT_THAT(
      message_of<DataError>([&] { live({.resume = true}); }),
      HasSubstr("model.best.nc: the best model so far, of epoch 4, is not there; put it back, "
                "resume from the newest checkpoint, or start anew with `force`"));
}

// The best model of a run beside it takes the place of its own.
TEST_F(Validating, TakesNoModelForItsBestThatItDidNotWrite) {
  network_.training.epochs = 12;
  asked().keep_best = "loss";
  network_.training.rate = 0.045f;
  live({});
  const TempDir elsewhere;
  fs::copy_file(best_model(model_path()), elsewhere / "other.nc");
  network_.training.rate = 0.05f;
  const std::int64_t best = live({}).state.epoch;
  ASSERT_LT(best, 12);  // or there is nothing to go back to
  for (const int ranks : {1, 2}) {
    forget_files();
    Session session{.ranks = ranks};
    session.after_last_validation = [&] {
      fs::copy_file(elsewhere / "other.nc", best_model(model_path()),
                    fs::copy_options::overwrite_existing);
    };
    EXPECT_EQ(
        message_of<DataError>([&] { live(session); }),
        fmt::format("{}: the best model so far, of epoch {}, is not what stands there; put it "
                    "back, resume from the newest checkpoint, or start anew with `force`",
                    best_model(model_path()).string(), best));
  }
}

// Metrics and cost against a run of the evaluator on files that hold the same split.
TEST_F(Validating, AgreesWithAnEvaluationOfFiles) {
  for (const bool valued : {false, true})
    for (const ValidationBy by : {ValidationBy::user, ValidationBy::entry}) {
      use(auto_encoder(Adam{}, SoftMax{}), valued);
      asked().by = by;
      network_.training.epochs = 2;
      const ValidationReport report = live({}).reports.back();
      const fs::path data_file = folder_ / "data.nc";
      DataBinding data(network_, {{data_file}, {data_file}},
                       DataBinding::Layers::inputs_and_outputs);
      const ValidationData held_out =
          data.hold_out(network_,
                        {0.25f, by == ValidationBy::user ? HoldOutBy::user : HoldOutBy::entry,
                         network_.training.seed},
                        2);
      std::vector<std::vector<Column>> known, sought;
      HostBatch input, target;
      for (Index e = 0; e < held_out.data->examples(); ++e) {
        held_out.data->sets()[0]->gather({&e, 1}, input);
        held_out.data->sets()[1]->gather({&e, 1}, target);
        const auto row = [](const HostBatch& batch) {
          return std::vector<Column>(batch.csr().column,
                                     batch.csr().column + batch.csr().entries());
        };
        known.push_back(row(input));
        sought.emplace_back();
        std::ranges::set_difference(row(target), known.back(), std::back_inserter(sought.back()));
      }
      write_sets(folder_ / "test.nc", {{"In", known, valued}, {"Out", sought, false}});
      const DataBinding test(network_, {{folder_ / "test.nc"}, {folder_ / "test.nc"}},
                             DataBinding::Layers::inputs_and_outputs);
      const auto one = make_single_process();
      const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
      const Context context = runtime->context(*one);
      context.compute.kernels.block_rule = kMediumBlocks;
      Network network(make_graph(network_, data.shapes(), "test"), data.shapes(), context, 37,
                      Pass::training);
      network.initialise(network_.training.seed);
      TrainingState state;
      train(network, data, {}, false, {}, state);
      EvaluationSettings settings;
      settings.output_layer = 2;
      settings.ks = {5, 10};
      const Evaluation evaluation = evaluate(network, test, settings);
      ASSERT_EQ(evaluation.metrics.size(), 2u);
      EXPECT_EQ(evaluation.examples, report.examples);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(evaluation.metrics[i].of<metric::Ndcg>(), report.metrics[i].of<metric::Ndcg>());
        EXPECT_EQ(evaluation.metrics[i].of<metric::Recall>(),
                  report.metrics[i].of<metric::Recall>());
        EXPECT_EQ(evaluation.metrics[i].of<metric::Coverage>(),
                  report.metrics[i].of<metric::Coverage>());
        EXPECT_GT(report.metrics[i].of<metric::Recall>(), 0.0);
      }
    }
}

}  // namespace
}  // namespace norn::test
