// SPDX-License-Identifier: Apache-2.0
// Names of the precisions of a GPU's products.
#include "kernels/cuda.h"
#include "kernels/precisions.h"

namespace norn {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
  }
  return "";
}

std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision precision : kPrecisions)
    if (name == name_of(precision)) return precision;
  return std::nullopt;
}

}  // namespace norn
