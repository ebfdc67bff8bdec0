// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/state_copy.h"
#include "src/engine/train/run_files.h"
#include "src/engine/train/trainer.h"

#include <memory>

namespace norn {

/// The best model of a run so far. To write it takes longer than many an epoch, so where the GPU or
/// main memory has room it stands there, and its file follows when that costs little. All ranks
/// call the same functions in the same order.
class BestModel {
 public:
  /// The file is best_model(policy.model).
  BestModel(Network& network, const CheckpointPolicy& policy, RunFiles& files);

  /// The network is the best model from now on, at `state`.
  void keep(const TrainingState& state);
  /// The file is the best model when `files` have been waited for.
  void write();
  /// Network and state become the best model, if it is newer than its file. Whether it was.
  bool take(TrainingState& state);

 private:
  bool has_copy();
  void save(const TrainingState& state);

  Network& network_;
  const CheckpointPolicy& policy_;
  RunFiles& files_;
  std::unique_ptr<StateCopy> copy_;         // or none yet
  std::optional<TrainingState> unwritten_;  // that of the copy, when the file is older
  bool no_room_ = false;
};

}  // namespace norn
