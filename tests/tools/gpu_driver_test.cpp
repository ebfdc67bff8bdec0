// SPDX-License-Identifier: Apache-2.0
// What is read from the driver's management library, by a library that answers in its place.
#include "kernels/gpu_driver.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

using testing::HasSubstr;

TEST(GpuDriver, ReadsEveryFact) {
  const auto driver = open_gpu_driver(NORN_FAKE_NVML);
  const DriverFacts facts = driver->facts();
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.version, "580.10.01");
  EXPECT_EQ(facts.cuda, 13000);
  ASSERT_EQ(facts.gpus.size(), 2U);
  const GpuFacts& a = facts.gpus[0];
  EXPECT_EQ(a.name, "Fake GPU A");
  EXPECT_EQ(a.pci, "0000:17:00.0");
  EXPECT_EQ(a.persistence, true);
  EXPECT_EQ(a.pcie_generation_most, 4U);
  EXPECT_EQ(a.pcie_generation_card, 5U);
  EXPECT_EQ(a.pcie_width_most, 16U);
  EXPECT_EQ(a.core_mhz_most, 1980U);
  EXPECT_EQ(a.memory_mhz_most, 3201U);
  EXPECT_EQ(a.ecc, true);
  EXPECT_EQ(a.ecc_corrected, 30U);
  EXPECT_EQ(a.ecc_uncorrected, 2U);
  EXPECT_EQ(a.rows_remapped, 3U);
  EXPECT_EQ(a.rows_pending, true);
  EXPECT_EQ(a.rows_failed, false);
  EXPECT_FALSE(a.pages_retired);
  EXPECT_EQ(a.power_limit, 500.0);
  EXPECT_EQ(a.power_limit_default, 700.0);
  EXPECT_EQ(a.celsius_slowdown, 87U);
  EXPECT_FALSE(a.mig);
  EXPECT_EQ(a.compute_mode, ComputeMode::one_process);
  EXPECT_EQ(a.bar1_bytes, 1ULL << 28);
  EXPECT_EQ(a.memory_bytes, 1ULL << 34);
  ASSERT_TRUE(a.processes);
  ASSERT_EQ(a.processes->size(), 2U);
  EXPECT_EQ((*a.processes)[1].process, 4712U);
  EXPECT_EQ((*a.processes)[1].bytes, 2ULL << 30);
  ASSERT_EQ(a.links.size(), 2U);
  EXPECT_TRUE(a.links[0].active);
  EXPECT_FALSE(a.links[1].active);
  EXPECT_EQ(a.links[0].version, 4U);
  EXPECT_EQ(a.links[0].other_end, "0000:65:00.0");
  const GpuFacts& b = facts.gpus[1];
  EXPECT_EQ(b.ecc, false);
  EXPECT_FALSE(b.ecc_corrected);
  EXPECT_EQ(b.pages_retired, 12U);
  EXPECT_TRUE(b.links.empty());
}

TEST(GpuDriver, AMomentIsOfTheGpuAtThatAddress) {
  const auto driver = open_gpu_driver(NORN_FAKE_NVML);
  const GpuMoment now = driver->moment("00000000:65:00.0");
  EXPECT_EQ(now.pcie_generation, 4U);
  EXPECT_EQ(now.pcie_width, 8U);
  EXPECT_EQ(now.core_mhz, 345U);
  EXPECT_EQ(now.memory_mhz, 2619U);
  EXPECT_EQ(now.slowed_by, SlowedBy::kPowerLimit);  // that it is idle is no reason
  EXPECT_EQ(now.celsius, 41U);
  EXPECT_EQ(now.watts, 75.5);
  EXPECT_FALSE(driver->moment("0000:99:00.0").core_mhz);
}

TEST(GpuDriver, SaysWhyThereAreNoFacts) {
  EXPECT_THAT(open_gpu_driver("libno-such-library.so.1")->facts().error, HasSubstr("is not there"));
  for (const auto& [code, text, mismatch] : {std::tuple{"9", "kernel module is not loaded", false},
                                             {"18", "NVML says: Fake error (error 18)", true},
                                             {"4", "NVML says: Fake error (error 4)", false}}) {
    setenv("FAKE_NVML", code, 1);
    const auto driver = open_gpu_driver(NORN_FAKE_NVML);
    unsetenv("FAKE_NVML");
    const DriverFacts facts = driver->facts();
    EXPECT_THAT(facts.error, HasSubstr(text));
    EXPECT_EQ(facts.mismatch, mismatch);
    EXPECT_TRUE(facts.gpus.empty());
    EXPECT_FALSE(driver->moment("0000:17:00.0").core_mhz);
  }
}

TEST(GpuDriver, WritesPciAddressesInOneWay) {
  EXPECT_EQ(plain_pci_address("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(plain_pci_address("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(plain_pci_address(""), "");
}

}  // namespace
}  // namespace norn
