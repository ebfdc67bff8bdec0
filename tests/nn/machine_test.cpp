// SPDX-License-Identifier: Apache-2.0
// Descriptions of machines: what is read, and what is said of wrong ones.
#include "norn/nn/machine.h"

#include "norn/base/error.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

using testing::HasSubstr;

std::filesystem::path shipped(const char* name) {
  return std::filesystem::path(NORN_SOURCE_DIR) / "configs/machines" / name;
}

// The shipped description with one piece of text replaced.
std::string with(const std::string& before, const std::string& after,
                 const char* file = "cpu_cluster.json") {
  std::ifstream stream(shipped(file));
  std::ostringstream contents;
  contents << stream.rdbuf();
  std::string text = contents.str();
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return at == std::string::npos ? text : text.replace(at, before.size(), after);
}

std::string error_of(const std::string& text) {
  try {
    parse_machine_json(text, "machine.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Machine, ShippedDescriptionsAreRead) {
  const MachineDescription h200 = read_machine_json(shipped("h200.json"));
  EXPECT_EQ(h200.ranks_per_node, 8);
  EXPECT_TRUE(h200.device.is_gpu);
  EXPECT_DOUBLE_EQ(h200.device.gigabytes, 4290);
  EXPECT_DOUBLE_EQ(h200.products_in(Precision::tf32).teraflops, 395);
  EXPECT_DOUBLE_EQ(h200.products_in(Precision::bf16).product_share, 0.915);
  ASSERT_EQ(h200.inside_node.size(), 1u);
  EXPECT_DOUBLE_EQ(h200.inside_node[0].start_microseconds, 7);
  ASSERT_EQ(h200.between_nodes.size(), 2u);
  EXPECT_EQ(h200.overlap, 0.5);
  const MachineDescription cpu = read_machine_json(shipped("cpu_cluster.json"));
  EXPECT_FALSE(cpu.device.is_gpu);
  EXPECT_EQ(cpu.device.threads, 64);
  EXPECT_EQ(cpu.device.products.size(), 1u);
}

TEST(Machine, TheOneThatNeedsNoFileIsTheShippedH200) {
  EXPECT_EQ(h200_machine(), read_machine_json(shipped("h200.json")));
}

TEST(Machine, ErrorsSayWhereAndWhatIsKnown) {
  EXPECT_EQ(error_of(with("\"MemoryGiB\"", "\"MemoryGib2\"")),
            "machine.json:6: Device: MemoryGiB is missing; expected a number above 0\n"
            "machine.json:9: Device: unknown key \"MemoryGib2\"; did you mean \"MemoryGiB\"?");
  EXPECT_THAT(error_of(with("\"Kind\": \"CPU\"", "\"Kind\": \"TPU\"")),
              HasSubstr("machine.json:7: Device: Kind \"TPU\" is unknown"));
  EXPECT_THAT(error_of(with("\"RowShare\": 0.5", "\"RowShare\": 1.5")),
              HasSubstr("machine.json:12: Device: RowShare 1.5 is out of range; expected a number "
                        "above 0 and of at most 1"));
  EXPECT_THAT(error_of(with("\"Overlap\"", "\"Clouds\"")),
              HasSubstr("machine.json:19: unknown key \"Clouds\". Known: $schema, Name,"));
  EXPECT_THAT(
      error_of(with("\"GBPerSecond\": 11", "\"GBPerSecond\": \"fast\"")),
      HasSubstr("machine.json:18: BetweenNodes: GBPerSecond \"fast\" is a string; expected a "
                "number above 0"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("machine.json:1: [1] is not a machine"));
  EXPECT_THAT(error_of("{"), HasSubstr("not JSON"));
}

TEST(Machine, ProductsMustFitTheDevice) {
  EXPECT_THAT(error_of(with("\"fp32\"", "\"bf16\"")),
              HasSubstr("machine.json:15: Device: Products: a CPU computes in fp32, not in bf16"));
  EXPECT_THAT(error_of(with("\"tf32\"", "\"fp32\"", "h200.json")),
              HasSubstr("Device: Products: fp32 is given twice"));
  EXPECT_EQ(error_of(with("{ \"Precision\": \"fp32\", \"TFLOPPerSecond\": 4, \"OutputShare\": 0.8, "
                          "\"ProductShare\": 0.8, \"UpdateShare\": 0.7 }",
                          "[]")),
            "machine.json:15: Device: Products is empty; expected an entry for each precision");
  EXPECT_THAT(error_of(with("\"Overlap\": 0", "\"Overlap\": 0, \"InsideNode\": []")),
              HasSubstr("InsideNode is empty; expected one way or several"));
}

TEST(Machine, APrecisionThatItDoesNotHaveIsRefused) {
  const MachineDescription cpu = read_machine_json(shipped("cpu_cluster.json"));
  EXPECT_EQ(cpu.products_in(Precision::fp32).teraflops, 4.0);
  try {
    cpu.products_in(Precision::bf16);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "`precision` bf16: the machine \"CPU nodes of 64 cores, 100 Gb/s between them (not "
        "measured)\" has no Products in that precision; it has: fp32");
  }
}

TEST(Machine, AFileThatIsNotThereIsRefused) {
  EXPECT_THROW(read_machine_json("/nonexistent/machine.json"), UsageError);
}

}  // namespace
}  // namespace norn
