// SPDX-License-Identifier: Apache-2.0
// Networks whose weights have a closed form: EASE.
#include "src/run/closed_form.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/train/device_inverse.h"
#include "src/engine/train/ease.h"
#include "src/engine/train/validating.h"
#include "src/nn/shapes.h"
#include "src/run/model_session.h"
#include "src/run/ranks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr Index kExamples = 1024;  // that the network predicts at a time

void refuse(bool given, const char* setting, const char* why) {
  if (given)
    throw UsageError(fmt::format("{} does not go with EASE, {}; leave it out", setting, why));
}

void refuse_choice_of_epoch(const ValidationDescriptor& asked) {
  const char* why = "which has no epochs to choose of";
  refuse(!asked.early_stop.empty(), "`early_stop`", why);
  refuse(!asked.keep_best.empty(), "`keep_best`", why);
}

void warn_of_idle_settings(const TrainOptions& options, const Log& log) {
  const std::pair<const char*, bool> given[] = {{"batch", options.batch.has_value()},
                                                {"epochs", options.epochs.has_value()},
                                                {"last_epoch", options.last_epoch.has_value()},
                                                {"rate", options.rate.has_value()},
                                                {"lambda1", options.lambda1.has_value()},
                                                {"optimizer", !options.optimizer.empty()},
                                                {"seed", options.seed.has_value()},
                                                {"shuffle", !options.shuffle.empty()},
                                                {"rate_schedule", !options.schedule.kind.empty()}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      log.warning(fmt::format(
          "`{}` has no effect: EASE is computed at once, from the data and `lambda`", name));
}

bool in_main_memory(const Context& context) {
  return context.compute.memory.is_host();
}

struct EaseRoom {
  EaseMemory needed;
  std::int64_t weights = 0;  // of the network, in main memory
  std::int64_t available = 0;
  std::int64_t all() const { return needed.gram_bytes + needed.entries_bytes + weights; }
};

EaseRoom room_for(const Dataset& input, Index items, const PreparedRun& run) {
  return {ease_memory(items, input.row_entries()),
          in_main_memory(*run.context) ? items * items * Index(sizeof(float)) : 0,
          available_memory_bytes(run.context->compute.executor.lanes())};
}

// Refused before anything large is allocated, on all ranks: rank 0 computes.
void require_room(const Dataset& input, Index items, const PreparedRun& run) {
  if (fits_ease(input, items, run)) return;
  const EaseRoom room = room_for(input, items, run);
  const Index fitting = most_ease_items(room.available, input.row_entries(), room.weights > 0);
  throw DeviceError(
      fmt::format("EASE of {} items needs {} of memory (Gram matrix in float64 {}, weights {}, "
                  "entries {}), but "
                  "{} are available, in which {} items fit; leave out items that few examples "
                  "have, use a larger "
                  "machine, or `recipe` sigmoid",
                  with_thousands(items), human_bytes(double(room.all())),
                  human_bytes(double(room.needed.gram_bytes)), human_bytes(double(room.weights)),
                  human_bytes(double(room.needed.entries_bytes)),
                  human_bytes(double(room.available)), with_thousands(fitting)));
}

void require_items(Index inputs, Index outputs) {
  if (outputs != inputs)
    throw UsageError(fmt::format(
        "EASE is for outputs that are the inputs, and there are {} inputs and {} outputs; give "
        "targets of the inputs' features, or use `recipe` sigmoid",
        inputs, outputs));
}

}  // namespace

void require_closed_form(const TrainOptions& options, const TrainingStart& start, const Log& log) {
  require_ease(start.network, start.where);
  refuse_choice_of_epoch(start.network.training.validation);
  refuse(start.network.training.refit, "`refit`", "which trains on everything");
  refuse(start.weights.has_value(), "`resume`", "which is computed at once");
  refuse(options.verify > 0, "`verify`", "which makes no steps");
  warn_of_idle_settings(options, log);
}

std::unique_ptr<Network> make_closed_form(TrainingStart& start, const TrainOptions& options,
                                          Communicator& communicator, const Log& log,
                                          PreparedRun& run) {
  NetworkDescriptor& network = start.network;
  network.training.batch =
      std::min(network.training.batch, std::max<Index>(1, run.data->examples()));
  run.runtime = make_runtime(options.device, communicator);
  run.context = std::make_unique<Context>(run.runtime->context(communicator, log));
  const std::vector<DatasetShape> shapes = run.data->shapes();
  const Graph graph = make_graph(network, shapes, start.where);
  require_runnable(graph, Use::prediction, start.where);
  const auto& layers = graph.network.layers;
  const Index items = layers.front().units();
  require_items(items, layers.back().units());
  check_validation(run.validation, graph.network, *run.data);
  require_room(run.data->set_of(0), items, run);
  return make_network(network, shapes, start.where, *run.runtime, *run.context, kExamples);
}

void compute_closed_form(const TrainOptions& options, const PreparedRun& run, const Log& log,
                         Network& network) {
  // A GPU's executor has one lane, for the host's part of its work.
  std::optional<Executor> lanes;
  if (!in_main_memory(*run.context)) lanes.emplace(options.device.threads);
  Executor& executor = lanes ? *lanes : run.context->compute.executor;
  const Compute& compute = run.context->compute;
  const Index items = network.descriptor().layers.front().units();
  log.info(fmt::format("{} weights, lambda {:g}, {} of Gram matrix, inverted on the {}, {}",
                       with_thousands(matrix_of(network.graph(), 0).size()),
                       network.descriptor().training.lambda,
                       human_bytes(double(ease_memory(items, 0).gram_bytes)),
                       inverts_on_device(compute.memory, items) ? "GPU" : "CPU",
                       counted(executor.lanes(), "thread")));
  Matrix<double> inverse;
  rank_0_alone(network.context().communicator, [&] {
    const EaseData data(run.data->set_of(0), run.data->set_of(1), items);
    inverse = ease_inverse(data, network.descriptor().training.lambda, executor, compute);
  });
  set_ease_weights(inverse, {}, executor, network, 0);
}

std::int64_t ease_bytes(const Dataset& input, Index items, const PreparedRun& run) {
  return room_for(input, items, run).all();
}

bool fits_ease(const Dataset& input, Index items, const PreparedRun& run) {
  Communicator& communicator = run.context->communicator;
  const EaseRoom room = room_for(input, items, run);
  return !communicator.any(communicator.rank() == 0 && room.all() > room.available);
}

EaseBeside::EaseBeside(const TrainingStart& start, const TrainOptions& options,
                       const PreparedRun& run, bool is_for_search)
    : is_on_(start.network.training.ease_weight > 0.0f ||
             (is_for_search && start.network.training.ease_lambda > 0.0f)),
      where_(start.where),
      lambda_(start.network.training.ease_lambda),
      threads_(options.device.threads) {
  const NetworkDescriptor& network = run.graph.network;
  if (!is_on_) return;
  if (start.network.training.ease_weight > 0.0f) require_ease_beside(network, where_);
  shapes_ = run.data->shapes();
  const auto at = [&](LayerKind kind) {
    return int(std::ranges::find(network.layers, kind, &LayerDescriptor::kind) -
               network.layers.begin());
  };
  const int input = at(LayerKind::input), output = at(LayerKind::output);
  const Index items = network.layers[std::size_t(output)].units();
  require_items(network.layers[std::size_t(input)].units(), items);
  require_room(run.data->set_of(input), items, run);
  rank_0_alone(run.context->communicator,
               [&] { data_.emplace(run.data->set_of(input), run.data->set_of(output), items); });
}

// A GPU's executor has one lane.
Executor& EaseBeside::executor(Network& network) {
  const Context& context = network.context();
  if (in_main_memory(context)) return context.compute.executor;
  if (!on_host_) on_host_.emplace(threads_);
  return *on_host_;
}

std::unique_ptr<Network> EaseBeside::join(Network& trained) {
  rank_0_alone(trained.context().communicator, [&] {
    if (inverse_.rows() == 0)
      inverse_ = ease_inverse(*data_, lambda_, executor(trained), trained.context().compute);
  });
  return with_ease_beside(trained, shapes_, where_);
}

void EaseBeside::weigh(Network& joined, double weight) {
  weigh_ease_beside(inverse_, weight, executor(joined), joined);
}

void validate_closed_form(Network& network, const PreparedRun& run, const Log& log,
                          TrainResult& result) {
  if (!run.validation.data.data) return;
  const Validation validation = run.validation.view();
  const ValidationCriterion criterion = validation_criterion(network.descriptor(), validation);
  const Evaluation evaluation =
      evaluate(network, *validation.data->data, evaluation_settings(validation, criterion));
  warn_of_hidden(evaluation, log);
  const ValidationReport report = validation_report(evaluation, validation, criterion);
  result.watched = report.watched;
  result.best = report.value;
  for (const MetricsAtK& at : report.metrics) {
    std::string line = fmt::format("held out, {} examples, at {}:", report.examples, at.k);
    const char* between = " ";
    at.for_each([&](const MetricInfo& metric, double value) {
      line += fmt::format("{}{} {:.4f}", std::exchange(between, ", "), metric.name, value);
    });
    log.info(line);
  }
}

}  // namespace norn::run
