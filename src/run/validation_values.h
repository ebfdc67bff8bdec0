// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/predict/certainty.h"
#include "src/engine/train/trainer.h"
#include "src/engine/train/watched_metric.h"

#include <filesystem>
#include <vector>

/// The watched metric of each held-out example, in a file of a run's folder:
/// docs/user/run_folder.md.
namespace norn::run {

inline constexpr const char* kValidationValues = "validation_values.tsv";

/// Throws UsageError where the run watches something that single examples have no value of.
void require_values(const NetworkDescriptor& network, const Validation& validation);

/// Evaluates the network once more as validations do, and writes the file on rank 0; a file that
/// cannot be written is warned of. All ranks call it together.
void write_validation_values(Network& network, const Validation& validation,
                             const std::filesystem::path& folder);

/// What a run has written.
struct ValidationValues {
  WatchedMetric metric;
  std::vector<Index> examples;  ///< that have targets, ascending
  ExampleColumn values;         ///< [examples]
};

/// Throws DataError for a file that is not there or is not what a run has written.
ValidationValues read_validation_values(const std::filesystem::path& folder);

}  // namespace norn::run
