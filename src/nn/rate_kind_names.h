// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace norn {

/// By RateKind, as descriptors have them; settings have them in small letters.
inline constexpr const char* kRateKindNames[] = {"Constant", "Step", "Cosine", "Plateau"};

}  // namespace norn
