// SPDX-License-Identifier: Apache-2.0
// What a build needs of a processor, compared with what processors have.
#include "tools/common/cpu_features.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::tools {
namespace {

using testing::HasSubstr;

std::string missing(CpuFeatures needed, CpuFeatures present) {
  char text[1024] = "not written";
  const bool any = describe_missing(needed, present, text, sizeof(text));
  EXPECT_EQ(any, text[0] != 0);
  return text;
}

CpuFeatures all_of(std::initializer_list<const char*> names) {
  CpuFeatures features = 0;
  for (const char* name : names) {
    EXPECT_NE(cpu_feature(name), 0u) << name;
    features |= cpu_feature(name);
  }
  return features;
}

const CpuFeatures kSecondLevel = all_of({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"});
const CpuFeatures kThirdLevel = kSecondLevel | all_of({"avx", "avx2", "fma", "bmi", "bmi2"});
const CpuFeatures kFourthLevel =
    kThirdLevel | all_of({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"});

TEST(CpuFeatures, OfAnOlderProcessorAreNamedWithWhatToBuildFor) {
  EXPECT_EQ(
      missing(kFourthLevel, kThirdLevel),
      "this processor lacks avx512f, avx512cd, avx512bw, avx512dq, avx512vl, which Norn was built "
      "for; build it with -DNORN_ARCH=x86-64-v3, or on the oldest machine that is to "
      "run it");
  EXPECT_THAT(missing(kThirdLevel, kSecondLevel), HasSubstr("-DNORN_ARCH=x86-64-v2,"));
  EXPECT_THAT(missing(kSecondLevel, 0), HasSubstr("-DNORN_ARCH=x86-64,"));
  EXPECT_THAT(missing(kFourthLevel | cpu_feature("gfni"), kFourthLevel),
              HasSubstr("lacks gfni, which Norn was built for; build it with "
                        "-DNORN_ARCH=x86-64-v4,"));
}

TEST(CpuFeatures, ThatAProcessorHasMoreOfAreNoTrouble) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  EXPECT_EQ(missing(0, 0), "");
  for (int i = 0; i < 200; ++i) {
    const CpuFeatures needed = random() & random();
    EXPECT_EQ(missing(needed, needed | random()), "");
  }
}

TEST(CpuFeatures, OfThisProcessorAreThoseThatTheBuildNeeds) {
  EXPECT_EQ(missing(kNeededCpuFeatures, present_cpu_features()), "");
  EXPECT_EQ(cpu_feature("steam"), 0u);
#ifdef __AVX2__
  EXPECT_NE(kNeededCpuFeatures & cpu_feature("avx2"), 0u);
#else
  EXPECT_EQ(kNeededCpuFeatures & cpu_feature("avx2"), 0u);
#endif
#ifdef __AVX512F__
  EXPECT_NE(kNeededCpuFeatures & cpu_feature("avx512f"), 0u);
#else
  EXPECT_EQ(kNeededCpuFeatures & cpu_feature("avx512f"), 0u);
#endif
}

TEST(CpuFeatures, AreCutWhereThereIsNoRoom) {
  char text[12];
  EXPECT_TRUE(describe_missing(kFourthLevel, 0, text, sizeof(text)));
  EXPECT_STREQ(text, "this proces");
}

}  // namespace
}  // namespace norn::tools
