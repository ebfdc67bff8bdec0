// SPDX-License-Identifier: Apache-2.0
// Requests from text.
#include "tools/prediction/request_source.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "tools/prediction/request_text.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

class TextRequests final : public RequestSource {
 public:
  explicit TextRequests(const TextRequestSettings& settings)
      : settings_(settings),
        text_(options(settings)),
        text_rows_(settings.file, text_, settings.features),
        rows_(text_.values != TextValues::ignore) {}

  void begin(const Network& network) override { batch_ = network.batch(); }

  bool next(RequestBatch& batch) override {
    rows_.clear();
    batch.labels.clear();
    batch.seen.clear();
    while (Index(batch.labels.size()) < batch_ && text_rows_.next(row_)) {
      batch.labels.emplace_back(row_.example);
      if (row_.features.empty())
        add_numbers(batch);
      else
        add_features(batch);
      repeated_ += rows_.end_row();
      if (settings_.seen_units) batch.seen.end_row();
    }
    if (batch.labels.empty()) return false;
    bind(batch);
    return true;
  }

  void report(const Log& log) const override {
    if (text_rows_.passed_over())
      log.warning(fmt::format(
          "{}: the first line is taken for the names of columns: {}; say with --request-header no "
          "that it is a request, or yes, that it is none",
          text_rows_.place(), *text_rows_.passed_over()));
    if (unknown_ > 0)
      log.warning(fmt::format(
          "{} of the {} features of the requests are unknown to the model and were left out, first "
          "\"{}\" at {}",
          with_thousands(unknown_), with_thousands(features_), first_unknown_, first_place_));
    if (text_rows_.malformed() > 0)
      log.warning(fmt::format("{} malformed lines of the requests were passed over; the first: {}",
                              text_rows_.malformed(), text_rows_.first_malformed()));
    if (repeated_ > 0)
      log.warning(fmt::format("{} features stood twice in a request; the first one counts",
                              with_thousands(repeated_)));
  }

 private:
  static TextOptions options(const TextRequestSettings& settings) {
    TextOptions options = settings.text;
    options.format_option = "--request-format";
    options.values =
        settings.values == RequestValues::yes ? TextValues::require : TextValues::ignore;
    if (settings.values != RequestValues::automatic) return options;
    if (options.format.is_automatic()) options.format = TextReader(settings.file, options).format();
    if (options.format->valued) {
      options.values = TextValues::optional;
      options.missing_value = 1.0f;
    }
    return options;
  }

  float value(std::size_t i) const { return i < row_.values.size() ? row_.values[i] : 1.0f; }

  const LabelIndex& features() const {
    if (!settings_.features)
      throw UsageError(fmt::format(
          "{}: the requests name features, but their numbers are not known; give the feature index "
          "with --input-features (-i)",
          text_rows_.place()));
    return *settings_.features;
  }

  void add_features(RequestBatch& batch) {
    const LabelIndex& index = features();
    for (std::size_t i = 0; i < row_.features.size(); ++i) {
      add(index.find(row_.features[i]), i, row_.features[i]);
      if (!settings_.seen_units) continue;
      if (const auto seen = settings_.seen_units->find(row_.features[i]))
        batch.seen.add(Column(*seen));
    }
  }

  void add_numbers(RequestBatch& batch) {
    static const LabelIndex kNone;
    const bool labels = settings_.numbers == TextNumbers::labels;
    const LabelIndex& index = labels ? features() : kNone;
    for (std::size_t i = 0; i < row_.numbers.size(); ++i) {
      const Column number = row_.numbers[i];
      add(unit_of(number, settings_.numbers, index), i, std::to_string(number));
      if (!settings_.seen_units) continue;
      if (const auto seen = unit_of(number, settings_.seen_numbers, *settings_.seen_units))
        batch.seen.add(Column(*seen));
    }
  }

  void add(std::optional<Index> unit, std::size_t i, std::string_view feature) {
    ++features_;
    if (unit && *unit < settings_.input_units)
      rows_.add(Column(*unit), value(i));
    else
      note_unknown(feature);
  }

  void note_unknown(std::string_view feature) {
    if (unknown_++ > 0) return;
    first_unknown_ = feature;
    first_place_ = text_rows_.place();
  }

  void bind(RequestBatch& batch) {
    rows_.copy_to(host_.sparse, settings_.input_units);
    host_.examples = batch.examples();
    host_.width = settings_.input_units;
    host_.is_sparse = true;
    host_.example.clear();
    for (Index e = 0; e < batch.examples(); ++e) host_.example.push_back(first_ + e);
    first_ += batch.examples();
    batch.bound.of_layer.assign(settings_.layers, nullptr);
    batch.bound.of_layer[std::size_t(settings_.input_layer)] = &host_;
    batch.bound.ignore_absent.assign(settings_.layers, false);
    batch.bound.examples = batch.examples();
  }

  TextRequestSettings settings_;
  Index batch_ = 1;
  TextOptions text_;
  RequestText text_rows_;
  TextRow row_;
  SparseRows rows_;
  HostBatch host_;
  Index first_ = 0;
  Index features_ = 0;
  Index unknown_ = 0;
  Index repeated_ = 0;
  std::string first_unknown_;
  std::string first_place_;
};

}  // namespace

std::optional<Index> unit_of(Column number, TextNumbers numbers, const LabelIndex& index) {
  if (numbers == TextNumbers::units) return Index(number);
  return index.find(std::to_string(number));
}

std::unique_ptr<RequestSource> make_text_requests(const TextRequestSettings& settings) {
  return std::make_unique<TextRequests>(settings);
}

}  // namespace norn::tools
