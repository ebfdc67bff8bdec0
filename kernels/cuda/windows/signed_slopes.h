// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"

#include <optional>

namespace norn::cuda {

/// The activation functions that kernels of windows apply, those whose slope follows the sign: z
/// itself, and below zero z times a factor. The others take a pass of their own.
struct SignedSlopes {
  float below = 1.0f;
  float above = 1.0f;  ///< of slopes, where they are multiplied by what dropout did
  bool drops = false;  ///< what is below zero, infinities too

  static std::optional<SignedSlopes> of(const Activation& f, float kept = 1.0f) {
    return std::visit(
        [kept]<typename F>(const F& function) -> std::optional<SignedSlopes> {
          if constexpr (F::slope_follows_sign && F::slope_from == SlopeFrom::y)
            return SignedSlopes{kept * function.slope(-1.0f), kept, F::flat_at_zero};
          return {};
        },
        f);
  }
  NORN_HD float value(float z) const {
    const float scaled = drops ? 0.0f : below * z;
    return z < 0.0f ? scaled : z;
  }
  NORN_HD float slope(float y) const { return y > 0.0f ? above : below; }
};

}  // namespace norn::cuda
