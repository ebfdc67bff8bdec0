// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace norn {

/// What dense products on a GPU compute with; sums are in float32 always.
enum class Precision {
  fp32,  ///< float32 operands
  tf32,  ///< float32 operands of which the products see 10 bits of fraction
  bf16   ///< bfloat16 operands, float32 weights beside them
};
std::string_view name_of(Precision precision);
/// "fp32", "tf32" or "bf16"; nothing for other words.
std::optional<Precision> precision_named(std::string_view name);

}  // namespace norn
