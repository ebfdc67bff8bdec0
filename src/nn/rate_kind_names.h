// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/text.h"

#include <string>
#include <vector>

namespace norn {

/// By RateKind, as descriptors have them.
inline constexpr const char* kRateKindNames[] = {"Constant", "Step", "Cosine", "Plateau"};

/// As settings have them: in small letters.
inline std::vector<std::string> rate_kind_words() {
  std::vector<std::string> words;
  for (const char* name : kRateKindNames) words.push_back(lower_case(name));
  return words;
}

}  // namespace norn
