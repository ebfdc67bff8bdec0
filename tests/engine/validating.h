// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/engine/predict/evaluator.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/engine/grouped_data.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cstring>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

/// Runs that validate: sessions of one run, on some ranks, stopped somewhere or not.
namespace norn::test {

namespace fs = std::filesystem;

inline NetworkDescriptor auto_encoder(const UpdateRule& optimizer, const LayerActivation& output) {
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
  double best_seconds = 0.0;  ///< 0: a file of each best model

  CheckpointPolicy policy(const fs::path& model) const {
    return {.model = model, .every_epochs = every_epochs, .least_seconds = best_seconds};
  }
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
    if (session.moves_data) data.move_to(context.compute.memory, info.network);
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
    result.end = train(network, data, session.policy(model_path()), stop, observer, result.state,
                       {}, session.validates ? Validation{&held_out, 2} : Validation{});
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

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<double> numbers(const std::vector<ValidationReport>& reports) {
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

}  // namespace norn::test
