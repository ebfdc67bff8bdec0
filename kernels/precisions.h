// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/precision.h"

#include <string>
#include <vector>

namespace norn {

/// The precisions that have a name. Options, schemas, documents and messages have theirs from here.
struct NamedPrecision {
  const char* name;
  Precision precision;
};
inline constexpr NamedPrecision kPrecisions[] = {
    {"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}};

std::vector<std::string> precision_names();

}  // namespace norn
