// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/evaluator.h"
#include "tools/common/program.h"
#include "tools/common/run_options.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// The evaluator: its options and what it does with them.
namespace norn::tools {

struct EvaluatorOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> data;
  std::vector<std::filesystem::path> exclude;
  std::filesystem::path popularity;  ///< training data, to compare with its popularity ranking
  std::filesystem::path features;
  std::string layer;
  std::string top = "10,20,100";
  bool keep_seen = false;
  bool trust_index = false;
  std::string propensity;  ///< "A,B"; empty: not asked for
  std::string format = "table";
  Index batch = 1024;
  std::string data_memory = "8G";
  RunOptions run;

  void add_to(CommandLine& line);
  /// Values that no evaluation can have.
  void check(OptionFaults& faults) const;
};

CommandLine evaluator_command_line(EvaluatorOptions& options);

/// "10,20,100" as numbers. Throws UsageError.
std::vector<Index> parse_ks(const std::string& text);

/// "0.55,1.5": the two numbers of propensities. Throws UsageError.
std::pair<double, double> parse_propensity(const std::string& text);

/// Metrics as a table or as JSON; `names` has one entry for each evaluation: "model", "popularity".
std::string evaluation_table(const std::vector<std::string>& names,
                             const std::vector<Evaluation>& evaluations);
std::string evaluation_json(const std::vector<std::string>& names,
                            const std::vector<Evaluation>& evaluations);

int run_evaluation(const EvaluatorOptions& options, MpiSession& session);

}  // namespace norn::tools
