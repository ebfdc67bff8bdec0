// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/evaluate.h"
#include "src/base/atomic_file.h"
#include "src/engine/predict/example_values.h"
#include "tools/common/program.h"
#include "tools/common/run_options.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The evaluator: its options and what it does with them.
namespace norn::tools {

struct EvaluatorOptions : run::EvaluateOptions {
  std::filesystem::path model;
  std::string lengths = "10,20,100";  ///< `top` as it is shown
  std::string rarity;                 ///< `propensity` as it is shown
  bool keep_seen = false;
  bool trust_index = false;
  std::string format = "table";
  std::filesystem::path per_example;
  std::filesystem::path confusion_file;
  std::optional<double> interval;           ///< level of the intervals beside the means
  std::filesystem::path compare;            ///< model to compare with
  std::vector<std::filesystem::path> runs;  ///< folders of two, to compare instead
  Resampling resampling;                    ///< its level is `interval`, where that is given
  Index batch = 1024;
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

/// How well one ranked: "model", "popularity" or "other".
struct Ranking {
  std::string name;
  Evaluation evaluation;
  ExampleValues::Columns examples = {};  ///< where they were asked for
  std::vector<Interval> intervals = {};  ///< [examples.names], or none
};

/// Differences of `other` to `model`.
struct Comparison {
  std::vector<ExampleValues::Name> names;
  std::vector<Difference> differences;  ///< [names]
};

struct EvaluationResult {
  std::vector<Ranking> rankings;
  std::optional<Comparison> comparison;
  Resampling resampling;
};

std::string evaluation_table(const EvaluationResult& result);
std::string evaluation_json(const EvaluationResult& result);
/// Of two runs, the first of which is the model; `examples` count.
std::string comparison_table(const EvaluationResult& result, Index examples);
std::string comparison_json(const EvaluationResult& result, Index examples);

/// A row for each true class and a column for each that examples were taken for, with tabs between
/// and the classes' labels in front and above; numbers where there are none.
std::string confusion_table(const ConfusionMatrix& matrix);

/// Values of single examples as lines of text with tabs between, the first of which names the
/// columns: ranking, example, K, and the metrics that are means over examples. Numbers are written
/// so that reading them gives the same again.
class ExampleTable {
 public:
  /// Throws DataError for a file that cannot be written.
  explicit ExampleTable(const std::filesystem::path& file) : file_(file) {}
  void add(std::string_view ranking, Index example, const MetricsAtK& values);
  /// The file is there, whole. Throws DataError (disk full).
  void commit();

 private:
  AtomicFile file_;
  std::string text_;  // that is not written yet
  bool has_head_ = false;
};

int run_evaluation(const EvaluatorOptions& options, MpiSession& session);

}  // namespace norn::tools
