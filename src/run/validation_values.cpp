// SPDX-License-Identifier: Apache-2.0
// Values of held-out examples.
#include "src/run/validation_values.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/engine/train/validating.h"

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kHead = "example\t";
constexpr std::size_t kMostBytes = std::size_t(16) << 30;

DataError no_values(const fs::path& file, Index line) {
  return DataError(
      fmt::format("{}:{}: is no line of an example and its value; train the run again with "
                  "`validation_values`",
                  file.string(), line));
}

// "12\t0.25": the example, which comes after `last`, and its value.
std::pair<Index, double> parse_value(const std::string& line, Index last, const fs::path& file,
                                     Index number) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) throw no_values(file, number);
  const auto example = parse_integer(line.substr(0, tab));
  const auto value = parse_double(line.substr(tab + 1));
  if (!example || *example <= last || !value || !std::isfinite(*value))
    throw no_values(file, number);
  return {Index(*example), *value};
}

// "example\tndcg@10".
WatchedMetric parse_head(const std::string& line, const fs::path& file) {
  if (!line.starts_with(kHead)) throw no_values(file, 1);
  try {
    const WatchedMetric metric = parse_watched_metric(line.substr(kHead.size()));
    if (metric.has_examples()) return metric;
  } catch (const UsageError&) {  // nobody has given it: the file is another one
  }
  throw no_values(file, 1);
}

}  // namespace

void require_values(const NetworkDescriptor& network, const Validation& validation) {
  const WatchedMetric watched = validation_criterion(network, validation).watched;
  if (watched.has_examples()) return;
  throw UsageError(
      fmt::format("`validation_values`: single examples have no value of {}; watch another metric "
                  "with `keep_best`, or leave it out",
                  watched.name));
}

void write_validation_values(Network& network, const Validation& validation,
                             const fs::path& folder) {
  const ValidationCriterion criterion = validation_criterion(network.descriptor(), validation);
  const WatchedMetric& watched = criterion.watched;
  EvaluationSettings settings = evaluation_settings(validation, criterion);
  std::string text = fmt::format("{}{}\n", kHead, watched.name);
  settings.on_example = [&](Index example, const MetricsAtK& values) {
    if (values.k != watched.k) return;
    text += fmt::format("{}\t{}\n", example, values.values[watched.place()]);
  };
  evaluate(network, *validation.data->data, settings);
  if (network.context().communicator.rank() != 0) return;
  try {
    write_file(folder / kValidationValues, text);
  } catch (const Error& error) {
    network.context().log.warning(fmt::format("{}; the run ends without it", error.what()));
  }
}

ValidationValues read_validation_values(const fs::path& folder) {
  const fs::path file = folder / kValidationValues;
  const std::optional<std::string> whole =
      path_exists(file) ? read_text_file(file, kMostBytes) : std::nullopt;
  if (!whole)
    throw DataError(
        fmt::format("{}: is not there, or cannot be read; train the run with "
                    "`validation_values`",
                    file.string()));
  const std::string& text = *whole;
  ValidationValues found;
  Index number = 0, last = -1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) throw no_values(file, number);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (number == 1) {
      found.metric = parse_head(line, file);
      continue;
    }
    const auto [example, value] = parse_value(line, last, file, number);
    last = example;
    found.examples.push_back(example);
    found.values.push_back(value);
  }
  if (number == 0) throw no_values(file, 1);
  return found;
}

}  // namespace norn::run
