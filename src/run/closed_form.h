// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/train/ease_beside.h"
#include "src/run/preparation.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Runs whose weights are computed at once, and not step by step.
namespace norn::run {

/// Throws UsageError for what such a run does not do, naming the setting: choosing an epoch, going
/// on. What has no effect is warned of.
void require_closed_form(const TrainOptions& options, const TrainingStart& start, const Log& log);

/// Whether the run is one of these.
inline bool has_closed_form(const TrainingStart& start) {
  return start.network.training.method != TrainingMethod::steps;
}

/// The network of the run whose data are open, its weights being zero. Throws UsageError, and
/// DeviceError where memory does not suffice, naming what it would take and what fits.
std::unique_ptr<Network> make_closed_form(TrainingStart& start, const TrainOptions& options,
                                          Communicator& communicator, const Log& log,
                                          PreparedRun& run);

/// Computes its weights. All ranks call it together; rank 0 computes.
void compute_closed_form(const TrainOptions& options, const PreparedRun& run, const Log& log,
                         Network& network);

/// Main memory that EASE takes in a run whose runtime is made: Gram matrix, entries, and its
/// weights where they stand there.
std::int64_t ease_bytes(const Dataset& input, Index items, const PreparedRun& run);
/// Whether it suffices. All ranks call it together.
bool fits_ease(const Dataset& input, Index items, const PreparedRun& run);

/// EASE beside the network of a run, where its descriptor asks for it.
class EaseBeside {
 public:
  EaseBeside() = default;
  /// With an EaseWeight above 0, or in a search an EaseLambda: reads the training data, which have
  /// not been moved to a GPU. Throws UsageError and DataError where EASE does not go with network
  /// and data, and DeviceError where memory does not suffice. All ranks call it together.
  EaseBeside(const TrainingStart& start, const TrainOptions& options, const PreparedRun& run,
             bool is_for_search);
  bool is_on() const { return is_on_; }
  /// The trained network with EASE's scores beside its own, 0 times.
  std::unique_ptr<Network> join(Network& trained);
  /// The same so many times.
  void weigh(Network& joined, double weight);

 private:
  Executor& executor(Network& network);
  bool is_on_ = false;
  std::string where_;
  double lambda_ = 0.0;
  int threads_ = 0;
  std::vector<DatasetShape> shapes_;
  std::optional<EaseData> data_;     // rank 0's
  Matrix<double> inverse_;           // the same; when it has been asked for
  std::optional<Executor> on_host_;  // beside a GPU, for the host's part
};

/// Evaluates it on what the run holds back, if it does, and says what came of that.
void validate_closed_form(Network& network, const PreparedRun& run, const Log& log,
                          TrainResult& result);

}  // namespace norn::run
