// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/common/program.h"
#include "tools/common/run_options.h"
#include "tools/prediction/score_filters.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The predictor's options.
namespace norn::tools {

struct PredictorOptions {
  std::filesystem::path cdl;           ///< DSSTNE's command file; its settings stand below
  std::vector<std::string> cdl_notes;  ///< remarks on it
  std::filesystem::path model;
  std::string dataset;  ///< DSSTNE's -d: the input layer reads <dataset>_input
  std::filesystem::path requests;
  std::vector<std::filesystem::path> data;
  std::string request_format = "auto";
  HeaderLine request_header = HeaderLine::automatic;
  RequestValues values = RequestValues::automatic;
  Index skip_malformed = 0;
  std::filesystem::path input_features;
  std::filesystem::path output_features;
  bool trust_index = false;

  std::string layer;
  Index k = 100;
  std::filesystem::path filter;
  std::string filter_format = "auto";
  HeaderLine filter_header = HeaderLine::automatic;
  FilterMode filter_mode = FilterMode::exclude;
  bool exclude_seen = false;
  std::filesystem::path allow;
  std::optional<Index> explanations;  ///< entries beside each recommendation

  std::filesystem::path output;
  std::string format = "text";
  std::string score_format;
  Index batch = 1024;
  std::int64_t memory_bytes = std::int64_t(8) << 30;
  RunOptions run;

  void add_to(CommandLine& line);
  /// Throws UsageError for options that contradict each other.
  void check(OptionFaults& faults) const;
};

CommandLine predictor_command_line(PredictorOptions& options);

}  // namespace norn::tools
