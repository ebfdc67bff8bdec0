// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/tools/doctor_scene.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Checks of the doctor, each in each of its states.
namespace norn::tools {

struct Case {
  const char* check;
  Health health;
  const char* said;  ///< a part of the value, the expectation or the advice
  std::function<void(Scene&)> arrange;
};

/// The findings of one check of a table on a scene; of GPU checks on its first GPU.
inline std::vector<Finding> findings_of(std::span<const Check> checks, const std::string& name,
                                        const Scene& scene) {
  Findings findings;
  for (const Check& check : checks) {
    findings.begin(check.area, check.name);
    if (check.name == name) check.look(scene.machine, findings);
  }
  return findings.all;
}
inline std::vector<Finding> findings_of(std::span<const GpuCheck> checks, const std::string& name,
                                        const Scene& scene) {
  Findings findings;
  for (const GpuCheck& check : checks) {
    findings.begin("GPU 0", check.name);
    if (check.name == name) check.look(scene.machine.gpus.at(0), scene.machine, findings);
  }
  return findings.all;
}

/// Every case gives one finding that is as it says; every check of the table has a case where all
/// is well and one where not.
template <typename Checks>
void expect_cases(Checks checks, const std::vector<Case>& cases) {
  std::set<std::string> well;
  std::set<std::string> off;
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.check) + ": " + one.said);
    Scene scene;
    one.arrange(scene);
    const std::vector<Finding> found = findings_of(checks, one.check, scene);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_STREQ(word_of(found[0].health), word_of(one.health)) << found[0].value;
    EXPECT_THAT(found[0].value + " | " + found[0].expected + " | " + found[0].advice,
                testing::HasSubstr(one.said));
    const bool is_off = one.health == Health::warning || one.health == Health::problem;
    EXPECT_EQ(!found[0].advice.empty(), is_off);
    EXPECT_TRUE(!is_off || !found[0].expected.empty());
    EXPECT_FALSE(found[0].value.empty());
    if (one.health == Health::ok) well.insert(one.check);
    if (is_off) off.insert(one.check);
  }
  for (const auto& check : checks) {
    EXPECT_EQ(well.count(check.name), 1U) << check.name << " has no case where all is well";
    EXPECT_EQ(off.count(check.name), 1U) << check.name << " has no case where something is off";
  }
}

}  // namespace norn::tools
