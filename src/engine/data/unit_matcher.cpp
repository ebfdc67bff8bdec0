// SPDX-License-Identifier: Apache-2.0
// Features of data sets and units of layers, brought together by their labels.
#include "src/engine/data/unit_matcher.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <fmt/format.h>

namespace norn {
namespace {

LabelTable at(const std::vector<LabelTable>& tables, int layer) {
  return std::size_t(layer) < tables.size() ? tables[std::size_t(layer)] : LabelTable();
}

// DSSTNE makes layers as wide as their data, rounded up to a multiple of this.
constexpr Index kDsstnePadding = 128;

constexpr const char* kTrust = "or take unit numbers as they are with `trust_index`";

}  // namespace

LabelTable UnitMatcher::labels_of(const DatasetInfo& info, int layer) const {
  return info.unit_labels.known() ? info.unit_labels : at(units_->index_files, layer);
}

LabelTable UnitMatcher::units_of(int layer) const {
  return at(units_->labels, layer);
}

Index UnitMatcher::width_of(int layer) const {
  const bool given = units_ && std::size_t(layer) < units_->widths.size();
  const Index width = given ? units_->widths[std::size_t(layer)] : 0;
  return width > 0 ? width : network_.layers[std::size_t(layer)].units();
}

void UnitMatcher::refuse(const DatasetInfo& info, int layer) const {
  const LayerDescriptor& to = network_.layers[std::size_t(layer)];
  const LabelTable features = labels_of(info, layer), units = units_of(layer);
  if (features.known() && units.known())
    throw DataError(fmt::format(
        "{} has other features than layer \"{}\" of the model: the checksums of their labels are "
        "{:.8} and {:.8}, and the labels themselves are not kept on both sides; import the text "
        "with the model's index of features, {}",
        place(info), to.name, features.stored().sha256, units.stored().sha256, kTrust));
  throw DataError(fmt::format(
      "{} is {} wide and has {} labels of features, but layer \"{}\" of the model has {} units "
      "{} labels, so units cannot be matched; {}, {}",
      place(info), with_thousands(info.width()), features.known() ? "the" : "no", to.name,
      with_thousands(width_of(layer)), units.known() ? "with" : "without",
      units.known() ? "import the text with importer, which keeps labels"
                    : "import the text with the index of features that the model was trained with",
      kTrust));
}

UnitMatcher::Matched* UnitMatcher::match(const DatasetInfo& info, int layer) {
  if (!units_ || units_->trust_index) return nullptr;
  const LabelTable features = labels_of(info, layer), units = units_of(layer);
  const Index layer_units = width_of(layer);
  if (features.known() != units.known()) {
    const Index padded = (info.width() + kDsstnePadding - 1) / kDsstnePadding * kDsstnePadding;
    if (info.width() == layer_units || info.width() == units.size() ||
        (!units.known() && padded == layer_units))
      return nullptr;
    refuse(info, layer);
  }
  if (!features.known() || (features.same_as(units) && info.width() <= layer_units)) return nullptr;
  if (!features.has_words() || !units.has_words()) refuse(info, layer);
  for (const auto& known : matched_)
    if (known->file == info.file && known->width == info.width() &&
        known->features.same_as(features) && known->match->units.same_as(units))
      return known.get();
  matched_.push_back(std::make_unique<Matched>());
  Matched& added = *matched_.back();
  added.file = info.file;
  added.where = info.file.empty() ? place(info) : info.file.string();
  added.features = features;
  added.width = info.width();
  added.match = std::make_shared<const UnitMatch>(match_units(features, units));
  return &added;
}

template <typename Opened>
std::unique_ptr<Dataset> UnitMatcher::open_matched(const DatasetInfo& info, int layer,
                                                   const Opened& opened) {
  Matched* const matched = match(info, layer);
  if (!matched) return opened(nullptr);
  if (matched->match->unknown == matched->features.size())
    throw DataError(fmt::format(
        "{}: none of its {} features is one of the {} of layer \"{}\" of the model; give data of "
        "the same catalogue, {}",
        place(info), with_thousands(matched->features.size()),
        with_thousands(units_of(layer).size()), network_.layers[std::size_t(layer)].name, kTrust));
  auto set = opened(matched->match);
  matched->left_out += set->info().left_out;
  matched->entries += set->info().left_out + set->info().entries;
  return set;
}

std::unique_ptr<Dataset> UnitMatcher::open(const DatasetInfo& info, Residency residency, Role role,
                                           int layer) {
  return open_matched(info, layer, [&](std::shared_ptr<const UnitMatch> match) {
    return open_dataset(info, residency, role, std::move(match));
  });
}

std::unique_ptr<Dataset> UnitMatcher::open(const MemorySet& set, Role role, int layer) {
  return open_matched(describe(set), layer, [&](const std::shared_ptr<const UnitMatch>& match) {
    return open_memory_set(set, role, match);
  });
}

bool UnitMatcher::may_fit(const DatasetInfo& info, int layer) {
  const Matched* const matched = match(info, layer);
  if (matched) return matched->match->unknown < matched->features.size();
  return info.width() <= width_of(layer);
}

void UnitMatcher::report(const Log& log) const {
  for (const auto& matched : matched_) {
    const Index unknown = matched->match->unknown;
    if (unknown == 0) continue;
    log.warning(fmt::format(
        "{}: {} of {} features ({} {}, {:.2g} %) are not known to the model and were left out",
        matched->where, with_thousands(unknown), with_thousands(matched->features.size()),
        with_thousands(matched->left_out), matched->left_out == 1 ? "entry" : "entries",
        matched->entries > 0 ? 100.0 * double(matched->left_out) / double(matched->entries) : 0.0));
  }
}

}  // namespace norn
