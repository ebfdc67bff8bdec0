// SPDX-License-Identifier: Apache-2.0
// Parameters of maths values in words.
#include "kernels/parameter.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {

std::string SharedParameter::default_text() const {
  const float first = defaults.front().second;
  if (std::ranges::all_of(defaults, [&](const auto& each) { return each.second == first; }))
    return fmt::format("{:g}", first);
  std::string text;
  for (const auto& [name, standard] : defaults)
    text += fmt::format("{}{:g} ({})", text.empty() ? "" : ", ", standard, name);
  return text;
}

}  // namespace norn
