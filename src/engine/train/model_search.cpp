// SPDX-License-Identifier: Apache-2.0
// Validations of a run and its best model.
#include "src/engine/train/model_search.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/engine/train/rate_schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
ValidationPlan plan_validation(const NetworkDescriptor& network, const Validation& validation) {
  ValidationPlan plan;
  if (!validation.data || !validation.data->data) return plan;
  for (const Dataset* set : validation.data->data->sets()) plan.sets.push_back(set->info());
  for (const auto& set : validation.data->seen) plan.seen.push_back(set->info());
  for (const Index k : validation_criterion(network, validation).ks)
    plan.longest_list =
        std::max(plan.longest_list,
                 std::min(k, network.layers[std::size_t(validation.output_layer)].units()));
  plan.output_layer = validation.output_layer;
  plan.held_bytes = validation.data->data->held_bytes();
  return plan;
}

ModelSearch::ModelSearch(Network& network, const Validation& validation,
                         const CheckpointPolicy& policy, RunFiles& files, TrainingState& state)
    : network_(network),
      validation_(validation),
      model_(policy.model),
      state_(state),
      training_(network.descriptor().training),
      best_(network, policy, files) {
  const ValidationDescriptor& asked = training_.validation;
  keeps_best_ = !asked.early_stop.empty() || !asked.keep_best.empty();
  require(!keeps_best_ || !model_.empty(), "train: the best model needs a path to be kept at");
  criterion_ = validation_criterion(network.descriptor(), validation);
  continue_search();
  if (keeps_best_) secure_best();
}

void ModelSearch::continue_search() {
  SearchState& search = state_.search;
  if (!state_.watched.empty() && state_.watched != criterion_.watched.name) {
    network_.context().log.warning(
        fmt::format("the run went by {} and goes by {} from here on: the search for its best model "
                    "begins anew",
                    state_.watched, criterion_.watched.name));
    search = SearchState{};
  }
  state_.watched = criterion_.watched.name;
  if (search.ended_epoch == 0) return;
  const ValidationDescriptor& asked = training_.validation;
  // A run that keeps the last model goes on from the best one of a run that has ended.
  if (keeps_best_ && training_.epochs_made() <= search.ended_epoch)
    ended_before_ = TrainingEnd::completed;
  else if (!asked.early_stop.empty() && asked.patience <= search.ended_since_best)
    ended_before_ = TrainingEnd::early_stopped;
  else
    search.ended_epoch = search.ended_since_best = 0;
}

// The best model so far must be there at the end. A run that goes on from that model itself may
// find it nowhere else: then it is kept again.
void ModelSearch::secure_best() {
  const SearchState& search = state_.search;
  if (search.best_epoch == 0 || ended_before_) return;
  const bool is_here = state_.step == search.best_step;
  Communicator& communicator = network_.context().communicator;
  std::string fault;
  if (communicator.rank() == 0) {
    fault = fault_of_best();
    if (!fault.empty() && !is_here) throw no_best(fault);
  }
  if (communicator.any(!fault.empty())) best_.keep(state_);
}

// What is wrong with the file of the best model: empty when it is what this run wrote.
std::string ModelSearch::fault_of_best() const {
  const std::filesystem::path path = best_model(model_);
  if (!path_exists(path)) return "not there";
  const TrainingState found = read_model_info(TensorFileReader(path)).state;
  const bool is_ours = found.step == state_.search.best_step && found.watched == state_.watched &&
                       found.search.best == state_.search.best;
  return is_ours ? "" : "not what stands there";
}

DataError ModelSearch::no_best(const std::string& fault) const {
  return DataError(fmt::format(
      "{}: the best model so far, of epoch {}, is {}; put it back, resume from the newest "
      "checkpoint, or start anew with `force`",
      best_model(model_).string(), state_.search.best_epoch, fault));
}

bool ModelSearch::due() const {
  if (state_.batch != 0 || state_.epoch == 0 || state_.search.validated_epoch >= state_.epoch)
    return false;
  return state_.epoch % training_.validation.every == 0 || state_.epoch >= training_.epochs_made();
}

std::int64_t ModelSearch::next_epoch() const {
  const std::int64_t every = training_.validation.every;
  return std::min<std::int64_t>((state_.epoch / every + 1) * every, training_.epochs_made());
}

bool ModelSearch::is_exhausted() const {
  const ValidationDescriptor& asked = training_.validation;
  return !asked.early_stop.empty() && state_.search.since_best >= asked.patience &&
         state_.epoch >= earliest_stop(training_);
}

ValidationReport ModelSearch::validate(const std::function<void()>& poll) {
  EvaluationSettings settings = evaluation_settings(validation_, criterion_);
  settings.with_cost = true;
  settings.on_batch = [&](Index) { poll(); };
  const Evaluation evaluation = evaluate(network_, *validation_.data->data, settings);
  if (!warned_) warn_of_hidden(evaluation, network_.context().log);
  warned_ = true;
  SearchState& search = state_.search;
  ValidationReport report = validation_report(evaluation, validation_, criterion_);
  report.epoch = state_.epoch;
  report.step = state_.step;
  report.best =
      search.best_epoch == 0 ||
      criterion_.watched.is_better(report.value, search.best, training_.validation.min_delta);
  search.validated_epoch = state_.epoch;
  search.since_best = report.best ? 0 : search.since_best + 1;
  report.since_best = search.since_best;
  update_plateau(training_.schedule, report.best, state_.plateau);
  if (!report.best) return report;
  search.best = report.value;
  search.best_epoch = state_.epoch;
  search.best_step = state_.step;
  if (keeps_best_) best_.keep(state_);
  return report;
}

void ModelSearch::take_best() {
  if (!keeps_best_ || state_.search.best_epoch == 0 || ended_before_) return;
  const SearchState last = state_.search;
  if (state_.step != last.best_step && !best_.take(state_)) restore();
  state_.search.ended_epoch = last.validated_epoch;
  state_.search.ended_since_best = last.since_best;
}

void ModelSearch::restore() {
  Communicator& communicator = network_.context().communicator;
  communicator.set_place({"taking the best model"});
  std::unique_ptr<TensorFileReader> file;
  ModelInfo info;
  info.has_training_state = true;
  TrainingState& state = info.state;
  if (communicator.rank() == 0) {
    if (const std::string fault = fault_of_best(); !fault.empty()) throw no_best(fault);
    file = std::make_unique<TensorFileReader>(best_model(model_));
    state = read_model_info(*file).state;
  }
  communicator.broadcast(std::as_writable_bytes(std::span(&state.search, 1)), 0);
  communicator.broadcast(std::as_writable_bytes(std::span(&state.plateau, 1)), 0);
  state.step = state.search.best_step;
  state.epoch = state.search.best_epoch;
  state.watched = state_.watched;
  state.sets = state_.sets;
  load_weights(file.get(), info, network_);
  state_ = state;
}

}  // namespace norn
