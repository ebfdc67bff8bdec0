// SPDX-License-Identifier: Apache-2.0
// Training: the loop over epochs and steps, checkpoints, stopping.
#include "src/engine/train/trainer.h"

#include "norn/base/error.h"
#include "src/engine/train/checkpoints.h"
#include "src/engine/train/model_search.h"
#include "src/engine/train/rate_schedule.h"
#include "src/engine/train/run_files.h"
#include "src/engine/train/step_verifier.h"

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Thrown out of a validation when the run is to stop.
struct Interrupted {};

// One run of train(): what its steps share.
class Training {
 public:
  Training(Network& network, const DataBinding& data, const CheckpointPolicy& policy,
           const TrainingObserver& observer, TrainingState& state, const Verification& verification,
           const Validation& validation)
      : network_(network),
        data_(data),
        policy_(policy),
        observer_(observer),
        state_(state),
        settings_(network.descriptor().training),
        order_(data.examples(), settings_.batch, network.descriptor().shuffle, settings_.seed),
        files_(network, policy.least_seconds) {
    if (verification.every > 0) {
      verify_every_ = verification.every;
      verifier_ = std::make_unique<StepVerifier>(network, verification.device);
    }
    if (validation.data && validation.data->data)
      search_ = std::make_unique<ModelSearch>(network, validation, policy, files_, state);
  }

  TrainingEnd run(const std::atomic<bool>& stop) {
    if (search_ && search_->ended_before()) return *search_->ended_before();
    last_checkpoint_ = Clock::now();
    while (true) {
      if (validation_due()) {
        if (!validate(stop) || stop_is_wanted(stop)) return stopped();
        if (search_->is_exhausted()) return TrainingEnd::early_stopped;
        go_on_with_files(wishes(stop), true);
      }
      if (search_ && search_->is_exhausted()) return TrainingEnd::early_stopped;
      if (state_.epoch >= settings_.epochs_made()) return TrainingEnd::completed;
      if (!train_epochs(search_ ? search_->next_epoch() : settings_.epochs_made(), stop))
        return stopped();
    }
  }

  /// The files that are being written are there, and have been told of, when it returns.
  void finish_files() {
    if (!files_.is_writing()) return;
    if (checkpoint_) network_.context().communicator.set_place(checkpoint_->place);
    files_.wait();
    const std::optional<BegunCheckpoint> done = std::exchange(checkpoint_, std::nullopt);
    if (done && observer_.on_checkpoint) observer_.on_checkpoint(done->report);
  }

  /// Of a run that has failed on all ranks: it goes on from its best model.
  void save_what_was_good() {
    try {
      finish_files();
      if (search_) search_->write_best();
      finish_files();
    } catch (const std::exception& error) {
      network_.context().log.warning(
          fmt::format("the best model so far is lost: {}", error.what()));
    }
  }

  // Of a run that was not stopped. One whose last model has diverged fails, even where its best
  // model would take that one's place.
  void finish() {
    if (!search_) return;
    norn::require_finite(network_, state_);
    search_->take_best();
  }

 private:
  bool validation_due() const { return search_ && search_->due(); }

  bool stop_is_wanted(const std::atomic<bool>& stop) {
    return network_.context().communicator.any(stop.load(std::memory_order_relaxed));
  }

  // Up to the end of so many epochs; false when the run is to stop. The loader ends with them:
  // validations may read the same data sets.
  bool train_epochs(std::int64_t last, const std::atomic<bool>& stop) {
    BatchLoader loader(data_.sources_for(network_), order_, state_.epoch, state_.batch, last,
                       BatchLoader::kUsualDepth, data_.augmentation(network_.graph()));
    epoch_start_ = Clock::now();
    set_rate();
    while (state_.epoch < last) {
      set_place_of_step();  // an error in reading its batch belongs to it
      const LoadedBatch* batch = loader.next();
      if (!batch) break;
      step(*batch);
      const bool epoch_ends = state_.batch == order_.batches();
      if (epoch_ends) end_epoch();
      if (epoch_ends && state_.epoch < last) set_rate();
      const Wishes wished = wishes(stop);
      if (wished.stop) return false;
      if (!validation_due()) go_on_with_files(wished, epoch_ends);
    }
    return true;
  }

  // What is still to be validated is validated first when the run is resumed.
  TrainingEnd stopped() {
    finish_steps(0);
    if (!policy_.model.empty()) checkpoint();
    return state_.epoch >= settings_.epochs_made() && !validation_due() ? TrainingEnd::completed
                                                                        : TrainingEnd::stopped;
  }

  // False when the run is to stop, and the validation was broken off.
  bool validate(const std::atomic<bool>& stop) {
    const Clock::time_point start = Clock::now();
    network_.context().communicator.set_place({"validating", state_.epoch, 0});
    network_.catch_up(state_.step);
    try {
      ValidationReport report = search_->validate([&] {
        if (stop_is_wanted(stop)) throw Interrupted();
      });
      report.seconds = seconds_since(start);
      if (observer_.on_validation) observer_.on_validation(report);
    } catch (const Interrupted&) {
      return false;
    }
    return true;
  }

  void set_rate() {
    float rate = rate_of_epoch(settings_, state_.epoch, state_.plateau);
    if (observer_.on_rate) {
      rate = float(observer_.on_rate(state_.epoch, double(rate)));
      if (!(rate >= 0.0f && std::isfinite(rate)))
        throw UsageError(
            fmt::format("the rate {:g} for epoch {} is out of range: it must be at least 0", rate,
                        state_.epoch + 1));
    }
    network_.set_rate(rate, warm_up_steps(settings_.schedule, order_.batches()), state_.step);
  }

  // Where nothing is validated the plateau is one of the cost of training.
  void update_plateau_by_cost(double cost) {
    PlateauState& plateau = state_.plateau;
    const bool is_better =
        plateau.evaluated == 0 || cost < plateau.best_cost - double(settings_.validation.min_delta);
    if (is_better) plateau.best_cost = cost;
    update_plateau(settings_.schedule, is_better, plateau);
  }

  void set_place_of_step() {
    network_.context().communicator.set_place({"training", state_.epoch + 1, state_.batch + 1});
  }

  // A GPU is kept a few steps behind: steps are reported when they are done.
  void step(const LoadedBatch& batch) {
    const BoundBatch bound = data_.bind(batch);
    const StepPosition position{state_.step, state_.epoch, settings_.seed};
    const bool verified = verifier_ && (state_.step + 1) % verify_every_ == 0;
    if (verified) {
      finish_steps(0);
      const FixedSum cost = verifier_->train_step(bound, position);
      step_begun(bound);
      step_done(cost);
      return;
    }
    network_.begin_step(bound, position);
    step_begun(bound);
    finish_steps(network_.max_steps_in_flight());
  }

  void step_begun(const BoundBatch& bound) {
    state_.step += 1;
    state_.batch += 1;
    begun_.push_back({state_.step, state_.batch, bound.examples});
  }

  void step_done(const FixedSum& cost) {
    const Begun step = begun_.front();
    begun_.pop_front();
    state_.epoch_cost.add(cost);
    require_finite(state_.epoch_cost.value(), "the cost of the epoch", step.step);
    state_.epoch_examples += step.examples;
    if (observer_.on_step) report_step(step);
  }

  // Waits for steps until at most `left` are in flight.
  void finish_steps(int left) {
    while (network_.steps_in_flight() > left) step_done(network_.finish_step());
  }

  // Sums end at 2^62, each in the same step on all ranks.
  void require_finite(double value, const char* what, std::int64_t step) const {
    if (!std::isfinite(value))
      throw DivergenceError(
          fmt::format("{} is beyond 2^62 after step {} (epoch {}); lower the learning rate", what,
                      step, state_.epoch + 1));
  }

  struct Begun {
    std::int64_t step = 0;
    std::int64_t batch = 0;
    Index examples = 0;
  };

  void report_step(const Begun& step) {
    StepReport report;
    report.step = step.step;
    report.epoch = state_.epoch;
    report.batch = step.batch;
    report.batches = order_.batches();
    report.examples = state_.epoch_examples;
    report.cost = state_.epoch_cost.value() / double(state_.epoch_examples);
    report.seconds = seconds_since(epoch_start_);
    observer_.on_step(report);
  }

  void end_epoch() {
    finish_steps(0);
    EpochReport report;
    report.epoch = state_.epoch + 1;
    report.epochs = settings_.epochs_made();
    report.step = state_.step;
    report.rate = network_.rate_at(state_.step - 1);
    report.training_cost = state_.epoch_cost.value() / double(state_.epoch_examples);
    report.examples = state_.epoch_examples;
    tell_of_cost(report.training_cost);
    if (settings_.lambda > 0.0f || settings_.lambda1 > 0.0f) {
      network_.catch_up(state_.step);
      report.regularization_cost = network_.regularization_cost();
      require_finite(report.regularization_cost, "the regularisation", state_.step);
    }
    report.seconds = seconds_since(epoch_start_);
    if (!search_) update_plateau_by_cost(report.training_cost);
    state_.epoch += 1;
    state_.batch = 0;
    state_.epoch_cost = FixedSum();
    state_.epoch_examples = 0;
    epoch_start_ = Clock::now();
    report.is_validated = validation_due();
    if (observer_.on_epoch) observer_.on_epoch(report);
  }

  // Every loss is at least 0 of targets that it is meant for.
  void tell_of_cost(double cost) {
    if (cost >= 0.0 || told_of_cost_) return;
    told_of_cost_ = true;
    network_.context().log.warning(
        fmt::format("the cost is {:g}, and has no lower bound: cross entropy is of targets from 0 "
                    "to 1, of SoftMax layers from 0; import them without values or scaled, or "
                    "choose another ErrorFunction",
                    cost));
  }

  // Whether files are due by this rank's clock.
  bool clock_wants_checkpoint() const {
    return (policy_.as_time_allows && files_.is_due()) ||
           (policy_.every_minutes > 0.0 &&
            seconds_since(last_checkpoint_) >= 60.0 * policy_.every_minutes);
  }

  // What is wanted on some rank, of which rank 0 has the clock and the files.
  struct Wishes {
    bool stop = false;
    bool checkpoint = false;
    bool tell_of_files = false;
  };
  Wishes wishes(const std::atomic<bool>& stop) {
    Communicator& ranks = network_.context().communicator;
    const bool is_first = ranks.rank() == 0;
    std::array<std::int64_t, 3> wished = {stop.load(std::memory_order_relaxed),
                                          is_first && clock_wants_checkpoint(),
                                          is_first && files_.is_writing() && files_.is_written()};
    ranks.all_reduce_sum(wished);
    return {wished[0] > 0, wished[1] > 0, wished[2] > 0};
  }

  // Time that goes to them is none of the epoch's.
  void go_on_with_files(const Wishes& wished, bool epoch_ended) {
    const Clock::time_point start = Clock::now();
    if (wished.tell_of_files) finish_files();
    const bool is_asked_for =
        epoch_ended && policy_.every_epochs > 0 && state_.epoch % policy_.every_epochs == 0;
    if ((wished.checkpoint || is_asked_for) && !policy_.model.empty() &&
        state_.epoch < settings_.epochs_made())
      checkpoint();
    epoch_start_ += Clock::now() - start;
  }

  // The one before is finished first: they come no faster than they can be written.
  void checkpoint() {
    finish_steps(0);
    finish_files();
    const std::int64_t epoch = state_.epoch + (state_.batch > 0 ? 1 : 0);
    BegunCheckpoint begun = {
        {checkpoint_path(policy_.base(), state_.epoch, state_.batch), epoch, state_.step},
        {"writing a checkpoint", epoch, state_.batch}};
    network_.context().communicator.set_place(begun.place);
    network_.catch_up(state_.step);
    if (search_) search_->write_best();
    files_.save(begun.report.path, state_);
    files_.then([base = policy_.base(), keep = policy_.keep, epoch = state_.epoch,
                 batch = state_.batch] { remove_old_checkpoints(base, keep, epoch, batch); });
    checkpoint_ = std::move(begun);
    last_checkpoint_ = Clock::now();
  }

  struct BegunCheckpoint {
    CheckpointReport report;
    Place place;  // of the run when it was begun
  };

  Network& network_;
  const DataBinding& data_;
  const CheckpointPolicy& policy_;
  const TrainingObserver& observer_;
  TrainingState& state_;
  const TrainingDescriptor& settings_;
  BatchOrder order_;
  std::unique_ptr<StepVerifier> verifier_;  // or none
  std::int64_t verify_every_ = 0;
  RunFiles files_;
  std::optional<BegunCheckpoint> checkpoint_;  // not yet told of
  std::unique_ptr<ModelSearch> search_;        // or none
  std::deque<Begun> begun_;                    // and not yet reported
  Clock::time_point epoch_start_;
  bool told_of_cost_ = false;
  Clock::time_point last_checkpoint_;
};

}  // namespace

TrainingEnd train(Network& network, const DataBinding& data, const CheckpointPolicy& checkpoints,
                  const std::atomic<bool>& stop, const TrainingObserver& observer,
                  TrainingState& state, const Verification& verification,
                  const Validation& validation) {
  Training training(network, data, checkpoints, observer, state, verification, validation);
  try {
    const TrainingEnd end = training.run(stop);
    training.finish_files();
    network.catch_up(state.step);
    if (end != TrainingEnd::stopped) training.finish();
    return end;
  } catch (const DivergenceError&) {
    training.save_what_was_good();
    throw;
  }
}

}  // namespace norn
