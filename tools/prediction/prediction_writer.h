// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/select.h"
#include "norn/data/label_table.h"
#include "norn/engine/explanation.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Where predictions go: files that are complete or absent.
namespace norn::tools {

/// A printf format of one floating point number, with or without its percent sign: "%4.3f", "4.3f".
class ScoreFormat {
 public:
  /// Throws UsageError for anything else.
  explicit ScoreFormat(const std::string& format);
  void append(float score, std::string& text) const;

 private:
  std::string format_;
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  /// The best units of each example, best first.
  void write_ranked(std::span<const std::string> labels, const TopK& best) {
    write_ranked(labels, best, {});
  }
  /// The same with what explains them, [examples x K]; empty: nothing does.
  virtual void write_ranked(std::span<const std::string> labels, const TopK& best,
                            std::span<const Explanation> why) = 0;
  /// The activations of a layer, [B x units].
  virtual void write_values(std::span<const std::string> labels,
                            MatrixView<const float> values) = 0;
  virtual void commit() = 0;
};

/// How predictions stand in text. Entries that explain them follow in the last two: in columns, or
/// as "entries", a list of {"feature", "effect"}; of several inputs with the input's name first.
enum class TextForm {
  dsstne,     ///< `example<TAB>feature,score:feature,score:`, `example<TAB>value value ...`
  tsv,        ///< `example<TAB>rank<TAB>feature<TAB>score`, `example<TAB>value<TAB>value ...`
  json_lines  ///< {"example", "rank", "feature", "score"}, {"example", "values"}
};
/// "text", "tsv" or "jsonl".
TextForm text_form(std::string_view word);

/// An input whose entries explain something.
struct InputUnits {
  std::string name;
  std::shared_ptr<const LabelIndex> labels;  ///< of the first units, as far as they are known
};

/// Ranked units or values in that form. Without an index units are written as numbers. `path` "-":
/// stdout. `inputs`: those that explanations are of.
std::unique_ptr<PredictionWriter> make_text_writer(const std::filesystem::path& path,
                                                   const ScoreFormat& format,
                                                   const LabelIndex* units,
                                                   TextForm form = TextForm::dsstne,
                                                   std::vector<InputUnits> inputs = {});

/// One data set `name` of `width` units: sparse with values, best first, for ranked units, dense
/// for values; `labels` are those of the units. Results are kept in a file without a name beside
/// `path` until their number is known.
std::unique_ptr<PredictionWriter> make_netcdf_writer(const std::filesystem::path& path,
                                                     const std::string& name, Index width,
                                                     const LabelTable& labels);

}  // namespace norn::tools
