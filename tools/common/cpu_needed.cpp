// SPDX-License-Identifier: Apache-2.0
// What this build uses. Unlike its neighbour this file is compiled as all others are; it holds no
// code.
#include "tools/common/cpu_features.h"

// 1 for a macro that is defined as 1, else 0: FIRST_1 puts another argument before the 1.
#define NORN_FIRST_1 0,
#define NORN_SECOND(a, b, ...) b
// NOLINTNEXTLINE(bugprone-macro-parentheses): arguments and a comma, not a value
#define NORN_IS_ONE(arguments) NORN_SECOND(arguments 1, 0, 0)
#define NORN_PASTED(value) NORN_IS_ONE(NORN_FIRST_##value)
#define NORN_DEFINED(macro) NORN_PASTED(macro)

namespace norn::tools {
namespace {

#define NORN_COUNT(name, macro) NORN_DEFINED(macro),
constexpr int kUsed[] = {NORN_CPU_FEATURES(NORN_COUNT)};

constexpr CpuFeatures used_features() {
  CpuFeatures features = 0;
#if defined(__x86_64__)
  CpuFeatures bit = 1;
  for (int used : kUsed) {
    if (used != 0) features |= bit;
    bit <<= 1;
  }
#endif
  return features;
}

}  // namespace

constinit const CpuFeatures kNeededCpuFeatures = used_features();

}  // namespace norn::tools
