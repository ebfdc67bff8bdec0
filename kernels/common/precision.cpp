// SPDX-License-Identifier: Apache-2.0
// Names of the precisions of a GPU's products.
#include "kernels/precisions.h"

#include <algorithm>
#include <iterator>

namespace norn {

// What is said of them all wherever one is chosen.
static_assert(std::ranges::all_of(kPrecisions, [](const NamedPrecision& named) {
  return named.precision.sum == NumberFormat::float32;
}));

std::string_view name_of(Precision precision) {
  const auto named = std::ranges::find(kPrecisions, precision, &NamedPrecision::precision);
  return named == std::end(kPrecisions) ? std::string_view() : named->name;
}

std::optional<Precision> precision_named(std::string_view name) {
  for (const NamedPrecision& named : kPrecisions)
    if (name == named.name) return named.precision;
  return std::nullopt;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const NamedPrecision& named : kPrecisions) names.emplace_back(named.name);
  return names;
}

}  // namespace norn
