// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/predict/certainty.h"
#include "src/nn/json_value.h"
#include "src/run/automatic/search_rules.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// What a search of the recipe "auto" has found so far, in a file beside its model, so that it can
/// be gone on with: two lines of JSON, the first with the checksum of the second.
namespace norn::run {

/// A candidate that was trained.
struct Finding : Tried {
  std::string failure;   ///< why there is no value
  ExampleColumn values;  ///< of each held-back example; kept of the first and of the best
  /// The same with EASE's scores beside its own, the best number of times; 0: not tried.
  double ease_weight = 0.0;
  double ease_lambda = 0.0;
  double ease_value = 0.0;
  ExampleColumn ease_values;
};

struct Journal {
  JsonValue origin;  ///< what the search is of: data, settings, budget
  std::vector<Finding> findings;
  /// Of the candidate that is being trained.
  std::optional<double> earlier;
};

/// NAME.search.json of NAME.nc.
std::filesystem::path journal_of(const std::filesystem::path& model);

std::string journal_text(const Journal& journal);
/// Throws DataError naming the file where it is not what journal_text() made.
Journal parse_journal(const std::string& text, const std::filesystem::path& file);

JsonValue to_json(const Candidate& candidate);

}  // namespace norn::run
