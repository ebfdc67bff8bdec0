// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/engine/predict/evaluator.h"
#include "src/engine/train/best_model.h"
#include "src/engine/train/trainer.h"
#include "src/engine/train/validating.h"

#include <optional>

/// The search for the best model of a run: validations, what they say of the best so far, where
/// that is kept, and when the run has gone on for long enough.
namespace norn {

class ModelSearch {
 public:
  /// `state` is the run's, and says where a search that goes on stands. Throws UsageError when the
  /// data do not have the metric, and DataError when the best model so far is gone.
  ModelSearch(Network& network, const Validation& validation, const CheckpointPolicy& policy,
              RunFiles& files, TrainingState& state);

  /// Set when the run that `state` comes from had ended, and nothing that was changed since asks
  /// for more epochs.
  std::optional<TrainingEnd> ended_before() const { return ended_before_; }
  /// Whether the model of this moment, after a whole epoch, has still to be validated.
  bool due() const;
  /// Number of epochs after which the next validation comes.
  std::int64_t next_epoch() const;
  /// Whether the best model is too long ago.
  bool is_exhausted() const;
  /// Validates, and keeps the model if it is the best. `poll` is called after every batch and may
  /// throw. Weights must have caught up.
  ValidationReport validate(const std::function<void()>& poll);
  /// The best model so far stands in its file before any that are saved later, as runs need it that
  /// go on from a checkpoint of now.
  void write_best() { best_.write(); }
  /// At the end of a run that was not stopped, when its files have been waited for: if the best
  /// model is kept, network and state become it.
  void take_best();

 private:
  void continue_search();
  void secure_best();
  std::string fault_of_best() const;
  DataError no_best(const std::string& fault) const;
  void restore();

  Network& network_;
  const Validation& validation_;
  std::filesystem::path model_;
  TrainingState& state_;
  const TrainingDescriptor& training_;
  ValidationCriterion criterion_;
  bool keeps_best_ = false;
  BestModel best_;
  bool warned_ = false;
  std::optional<TrainingEnd> ended_before_;
};

}  // namespace norn
