// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "norn/engine/metric.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// What is told of training while it goes on.
namespace norn {

/// What a step or an epoch came to. Costs are means over examples, summed over units.
struct StepReport {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t batch = 0;  ///< within the epoch, counted from 1
  std::int64_t batches = 0;
  Index examples = 0;    ///< of the epoch, so far
  double cost = 0.0;     ///< of the epoch, so far
  double seconds = 0.0;  ///< of the epoch, so far
};
struct EpochReport {
  std::int64_t epoch = 0;  ///< counted from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  ///< steps so far, of all epochs
  double rate = 0.0;      ///< learning rate of the epoch's last step
  double training_cost = 0.0;
  double regularization_cost = 0.0;
  double seconds = 0.0;
  Index examples = 0;
  bool is_validated = false;  ///< its validation is what comes next
};

/// What held-out examples came to after an epoch, and where that leaves the search for the best.
struct ValidationReport {
  std::int64_t epoch = 0;  ///< counted from 1
  std::int64_t step = 0;
  double cost = 0.0;                ///< mean over the held-out examples, summed over units
  std::vector<MetricsAtK> metrics;  ///< by K, as they were asked for
  Index examples = 0;               ///< held-out examples with units to find
  std::string watched;              ///< what decides which model is the best: "ndcg@20", "loss"
  double value = 0.0;               ///< of what is watched
  bool best = false;                ///< better than all before
  std::int64_t since_best = 0;      ///< validations since the best one
  double seconds = 0.0;             ///< that validating took
};

/// A checkpoint that can be gone on from. Training may have gone on since it was begun.
struct CheckpointReport {
  std::filesystem::path path;
  std::int64_t epoch = 0;  ///< of its last step, counted from 1
  std::int64_t step = 0;   ///< updates made
};

/// Whoever wants to know how training goes. Called on every rank.
struct TrainingObserver {
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
  std::function<void(const ValidationReport&)> on_validation;
  std::function<void(const CheckpointReport&)> on_checkpoint;
  /// The rate of an epoch, counted from 0, in place of the one that its schedule gives; the same on
  /// every rank, and when a run goes on within the epoch.
  std::function<double(std::int64_t epoch, double rate)> on_rate;
};

/// early_stopped: what is watched has not become better for so long as was asked for.
enum class TrainingEnd { completed, early_stopped, stopped };

/// The parameters of one matrix or of one layer's biases, whose gradients were compared with
/// central differences of the cost.
struct CheckedGroup {
  std::string name;         ///< "Input -> Hidden", "Hidden biases"
  Index parameters = 0;     ///< that there are
  Index checked = 0;        ///< of them
  Index wrong = 0;          ///< of those
  double largest = 0.0;     ///< gradient
  double difference = 0.0;  ///< the largest one between a gradient and a difference of costs
};

}  // namespace norn
