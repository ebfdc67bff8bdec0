// SPDX-License-Identifier: Apache-2.0
// Validating while training: it changes no bit of what is trained and says the same on any number
// of ranks, and the best model is the one that is kept.
#include "tests/engine/validating.h"

#include <thread>

namespace norn::test {
namespace {

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

// In main memory, unless it is asked for: with a checkpoint, as the file that it would have been.
TEST_F(Validating, WritesTheBestModelWhenARunCouldGoOnFromThere) {
  network_.training.epochs = 12;
  network_.training.rate = 0.05f;
  asked().keep_best = "loss";
  const Result each = live({});
  const std::string file = read_text(best_model(model_path()));
  ASSERT_LT(each.state.epoch, 12);
  for (const int ranks : {1, 2, 3}) {
    forget_files();
    const Result none = live({.ranks = ranks, .best_seconds = 1e6});
    EXPECT_FALSE(fs::exists(best_model(model_path())));
    EXPECT_TRUE(same_bits(none.weights, each.weights)) << ranks << " ranks";
    EXPECT_EQ(none.state.step, each.state.step);
    EXPECT_EQ(numbers(none.reports), numbers(each.reports));

    const Result some = live({.ranks = ranks, .every_epochs = 1, .best_seconds = 1e6});
    EXPECT_TRUE(same_bits(some.weights, each.weights)) << ranks << " ranks";
    const TensorFileReader checkpoint(folder_ / "model.epoch11.nc");
    const TensorFileReader best(best_model(model_path()));
    best.verify();
    const TrainingState state = read_model_info(checkpoint).state;
    EXPECT_EQ(read_model_info(best).state.step, state.search.best_step);
    EXPECT_EQ(read_text(best_model(model_path())), file);
  }
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

// Whether a thread is at it.
bool is_written(const fs::path& file) {
  for (const auto& entry : fs::directory_iterator(file.parent_path()))
    if (entry.path().filename().string().starts_with(file.filename().string() + ".tmp-"))
      return true;
  return false;
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
      while (is_written(best_model(model_path()))) std::this_thread::yield();
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
