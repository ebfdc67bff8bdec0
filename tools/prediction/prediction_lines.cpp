// SPDX-License-Identifier: Apache-2.0
// DSSTNE's lines, tables and lines of JSON.
#include "tools/prediction/prediction_lines.h"

#include "norn/base/error.h"
#include "src/nn/json_value.h"

#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace norn::tools {
namespace {

class Lines : public PredictionLines {
 public:
  Lines(const ScoreFormat& format, const LabelIndex* units, std::vector<InputUnits> inputs)
      : format_(format), units_(units), inputs_(std::move(inputs)) {}

 protected:
  std::string name_of(Index unit) const {
    return units_ ? std::string(units_->label(unit)) : std::to_string(unit);
  }
  const InputUnits& input_of(const EntryEffect& entry) const {
    return inputs_[std::size_t(entry.input)];
  }
  bool names_inputs() const { return inputs_.size() > 1; }
  std::string name_of(const EntryEffect& entry) const {
    const LabelIndex* const labels = input_of(entry).labels.get();
    const bool known = labels && Index(entry.unit) < labels->size();
    return known ? std::string(labels->label(entry.unit)) : std::to_string(entry.unit);
  }
  ScoreFormat format_;
  const LabelIndex* units_;
  std::vector<InputUnits> inputs_;
};

class DsstneLines final : public Lines {
 public:
  using Lines::Lines;

  void add_ranked(std::string_view example, std::span<const Index> units,
                  std::span<const float> scores, std::span<const Explanation> why,
                  std::string& text) const override {
    require(why.empty(), "DsstneLines: the text has no place for what explains a recommendation");
    text += example;
    text += '\t';
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units_)
        text += units_->label(units[i]);
      else
        fmt::format_to(std::back_inserter(text), "{}", units[i]);
      text += ',';
      format_.append(scores[i], text);
      text += ':';
    }
    text += '\n';
  }

  void add_values(std::string_view example, std::span<const float> values,
                  std::string& text) const override {
    text += example;
    for (std::size_t i = 0; i < values.size(); ++i) {
      text += i == 0 ? '\t' : ' ';
      format_.append(values[i], text);
    }
    text += '\n';
  }
};

class TabLines final : public Lines {
 public:
  using Lines::Lines;

  void add_ranked(std::string_view example, std::span<const Index> units,
                  std::span<const float> scores, std::span<const Explanation> why,
                  std::string& text) const override {
    for (std::size_t i = 0; i < units.size(); ++i) {
      add_name(example, text);
      fmt::format_to(std::back_inserter(text), "\t{}\t", i + 1);
      add_name(name_of(units[i]), text);
      text += '\t';
      format_.append(scores[i], text);
      if (!why.empty()) add_entries(why[i], text);
      text += '\n';
    }
  }

  void add_values(std::string_view example, std::span<const float> values,
                  std::string& text) const override {
    add_name(example, text);
    for (float value : values) {
      text += '\t';
      format_.append(value, text);
    }
    text += '\n';
  }

 private:
  void add_entries(const Explanation& one, std::string& text) const {
    for (const EntryEffect& entry : one.effects) {
      if (names_inputs()) {
        text += '\t';
        add_name(input_of(entry).name, text);
      }
      text += '\t';
      add_name(name_of(entry), text);
      text += '\t';
      format_.append(entry.effect, text);
    }
  }

  // Names of data sets may hold anything; a line stays a line and a column a column.
  static void add_name(std::string_view name, std::string& text) {
    for (char c : name) {
      if (c == '\t')
        text += "\\t";
      else if (c == '\n')
        text += "\\n";
      else if (c == '\r')
        text += "\\r";
      else
        text += c;
    }
  }
};

class JsonLines final : public Lines {
 public:
  using Lines::Lines;

  void add_ranked(std::string_view example, std::span<const Index> units,
                  std::span<const float> scores, std::span<const Explanation> why,
                  std::string& text) const override {
    const std::string begin =
        fmt::format("{{\"example\": {}, \"rank\": ", JsonValue(std::string(example)).line());
    for (std::size_t i = 0; i < units.size(); ++i) {
      fmt::format_to(std::back_inserter(text), "{}{}, \"feature\": {}, \"score\": ", begin, i + 1,
                     JsonValue(name_of(units[i])).line());
      add_number(scores[i], text);
      if (!why.empty()) add_entries(why[i], text);
      text += "}\n";
    }
  }

  void add_values(std::string_view example, std::span<const float> values,
                  std::string& text) const override {
    fmt::format_to(std::back_inserter(text), "{{\"example\": {}, \"values\": [",
                   JsonValue(std::string(example)).line());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text += ", ";
      add_number(values[i], text);
    }
    text += "]}\n";
  }

 private:
  void add_entries(const Explanation& one, std::string& text) const {
    text += ", \"entries\": [";
    for (const EntryEffect& entry : one.effects) {
      if (&entry != one.effects.data()) text += ", ";
      text += '{';
      if (names_inputs())
        fmt::format_to(std::back_inserter(text), "\"input\": {}, ",
                       JsonValue(input_of(entry).name).line());
      fmt::format_to(std::back_inserter(text),
                     "\"feature\": {}, \"effect\": ", JsonValue(name_of(entry)).line());
      add_number(entry.effect, text);
      text += '}';
    }
    text += ']';
  }

  // As few digits as give the same float again.
  static void add_number(float value, std::string& text) {
    if (std::isfinite(value))
      fmt::format_to(std::back_inserter(text), "{}", value);
    else
      text += "null";
  }
};

}  // namespace

TextForm text_form(std::string_view word) {
  if (word == "tsv") return TextForm::tsv;
  return word == "jsonl" ? TextForm::json_lines : TextForm::dsstne;
}

void require_plain_labels(const LabelIndex& units, Index count) {
  for (Index unit = 0; unit < count; ++unit) {
    const std::string_view label = units.label(unit);
    const std::size_t at = label.find_first_of(":,");
    if (at == std::string_view::npos) continue;
    throw UsageError(fmt::format(
        "--format text: the feature \"{}\" has a {} in its name, which separates features and "
        "scores in that text; take --format tsv or jsonl",
        label, label[at] == ':' ? "colon" : "comma"));
  }
}

std::unique_ptr<PredictionLines> make_prediction_lines(TextForm form, const ScoreFormat& format,
                                                       const LabelIndex* units,
                                                       std::vector<InputUnits> inputs) {
  if (form == TextForm::tsv) return std::make_unique<TabLines>(format, units, std::move(inputs));
  if (form == TextForm::json_lines)
    return std::make_unique<JsonLines>(format, units, std::move(inputs));
  return std::make_unique<DsstneLines>(format, units, std::move(inputs));
}

}  // namespace norn::tools
