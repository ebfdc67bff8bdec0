// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace norn {

/// A format of numbers; tf32 is what is left of a float32 with 10 bits of fraction.
enum class NumberFormat { float32, tf32, bfloat16 };

/// What dense products on a GPU compute with: how their operands are stored, what is multiplied of
/// these, and what sums are in. Weights are updated in float32 in each.
struct Precision {
  NumberFormat store = NumberFormat::float32;
  NumberFormat multiply = NumberFormat::float32;
  NumberFormat sum = NumberFormat::float32;

  static const Precision fp32, tf32, bf16;

  friend constexpr bool operator==(const Precision&, const Precision&) = default;
  /// Products read copies in bfloat16.
  constexpr bool casts_operands() const { return store == NumberFormat::bfloat16; }
  /// Gradients read DenseOperand::transposed: tensor cores read tf32 along the sum alone.
  constexpr bool transposes_operands() const { return multiply == NumberFormat::tf32; }
  /// Tensor cores multiply.
  constexpr bool rounds() const { return multiply != NumberFormat::float32; }
};
inline constexpr Precision Precision::fp32 = {};
inline constexpr Precision Precision::tf32 = {.multiply = NumberFormat::tf32};
inline constexpr Precision Precision::bf16 = {.store = NumberFormat::bfloat16,
                                              .multiply = NumberFormat::bfloat16};

/// "fp32", "tf32" or "bf16".
std::string_view name_of(Precision precision);
/// Nothing for other words.
std::optional<Precision> precision_named(std::string_view name);

}  // namespace norn
