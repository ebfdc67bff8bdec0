// SPDX-License-Identifier: Apache-2.0
// Compares instruction sets. Compiled for the oldest x86-64: no templates and nothing of the
// standard library, whose copies in the program may come from files that were compiled for a newer
// one.
#include "tools/common/cpu_features.h"

namespace norn::tools {
namespace {

#define NORN_NAME(name, macro) name,
constexpr const char* kNames[] = {NORN_CPU_FEATURES(NORN_NAME)};
constexpr int kCount = int(sizeof(kNames) / sizeof(kNames[0]));
static_assert(kCount <= 64);

bool equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

struct Text {
  char* at;
  std::size_t left;  // with the zero at the end

  void add(const char* words) {
    for (; *words != 0 && left > 1; ++words, --left) *at++ = *words;
    if (left > 0) *at = 0;
  }
};

bool has_all(CpuFeatures present, const char* const* names, int count) {
  for (int i = 0; i < count; ++i)
    if ((present & cpu_feature(names[i])) == 0) return false;
  return true;
}

// The levels of the x86-64 psABI, by what this table knows of them.
const char* level_of(CpuFeatures present) {
  constexpr const char* kSecond[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
  constexpr const char* kThird[] = {"avx", "avx2", "fma", "bmi", "bmi2"};
  constexpr const char* kFourth[] = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"};
  if (!has_all(present, kSecond, 5)) return "x86-64";
  if (!has_all(present, kThird, 5)) return "x86-64-v2";
  return has_all(present, kFourth, 5) ? "x86-64-v4" : "x86-64-v3";
}

}  // namespace

CpuFeatures cpu_feature(const char* name) {
  for (int i = 0; i < kCount; ++i)
    if (equal(kNames[i], name)) return CpuFeatures(1) << i;
  return 0;
}

CpuFeatures present_cpu_features() {
  CpuFeatures present = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  CpuFeatures bit = 1;
#define NORN_ASK(name, macro)                       \
  if (__builtin_cpu_supports(name)) present |= bit; \
  bit <<= 1;
  NORN_CPU_FEATURES(NORN_ASK)
#endif
  return present;
}

bool describe_missing(CpuFeatures needed, CpuFeatures present, char* text, std::size_t size) {
  Text words{text, size};
  words.add("");
  const CpuFeatures missing = needed & ~present;
  if (missing == 0) return false;
  words.add("this processor lacks ");
  const char* between = "";
  for (int i = 0; i < kCount; ++i) {
    if ((missing >> i & 1) == 0) continue;
    words.add(between);
    words.add(kNames[i]);
    between = ", ";
  }
  words.add(", which Norn was built for; build it with -DNORN_ARCH=");
  words.add(level_of(present));
  words.add(", or on the oldest machine that is to run it");
  return true;
}

}  // namespace norn::tools
