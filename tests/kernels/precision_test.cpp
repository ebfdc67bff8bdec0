// SPDX-License-Identifier: Apache-2.0
// The precisions of a GPU's products and their names.
#include "kernels/precisions.h"

#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(Precisions, AreFoundByTheirNames) {
  EXPECT_EQ(precision_names(), (std::vector<std::string>{"fp32", "tf32", "bf16"}));
  for (const NamedPrecision& named : kPrecisions) {
    EXPECT_EQ(name_of(named.precision), named.name);
    EXPECT_EQ(precision_named(named.name), named.precision);
  }
  for (const char* word : {"", "fp", "BF16", "fp32 "}) EXPECT_FALSE(precision_named(word)) << word;
}

TEST(Precisions, WithoutANameAreValuesLikeOthers) {
  Precision both = Precision::tf32;
  both.store = NumberFormat::bfloat16;
  EXPECT_EQ(name_of(both), "");
  EXPECT_TRUE(both.casts_operands() && both.transposes_operands());
}

TEST(Precisions, SayWhatProductsRead) {
  EXPECT_TRUE(Precision::bf16.casts_operands());
  EXPECT_FALSE(Precision::tf32.casts_operands() || Precision::fp32.casts_operands());
  EXPECT_TRUE(Precision::tf32.transposes_operands());
  EXPECT_FALSE(Precision::bf16.transposes_operands() || Precision::fp32.transposes_operands());
  EXPECT_TRUE(Precision::tf32.rounds() && Precision::bf16.rounds());
  EXPECT_FALSE(Precision::fp32.rounds());
}

}  // namespace
}  // namespace norn
