// SPDX-License-Identifier: Apache-2.0
// The files that are made from the table of keys: up to date, and a schema that tells right from
// wrong.
#include "norn/nn/machine.h"
#include "src/nn/descriptor_json.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <sys/wait.h>

namespace norn {
namespace {

std::string contents(const char* file) {
  std::ifstream stream(std::filesystem::path(NORN_SOURCE_DIR) / file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(GeneratedFiles, ReferenceIsCurrent) {
  EXPECT_TRUE(contents("docs/user/descriptor.md") == descriptor_reference_markdown())
      << "docs/user/descriptor.md is stale; run tools/dev/write_reference.sh";
}

TEST(GeneratedFiles, SchemaIsCurrent) {
  EXPECT_TRUE(contents("configs/schema/network.schema.json") == descriptor_json_schema())
      << "configs/schema/network.schema.json is stale; run tools/dev/write_reference.sh";
}

TEST(GeneratedFiles, ReferenceAndSchemaOfMachinesAreCurrent) {
  EXPECT_TRUE(contents("docs/user/machines.md") == machine_reference_markdown())
      << "docs/user/machines.md is stale; run tools/dev/write_reference.sh";
  EXPECT_TRUE(contents("configs/schema/machine.schema.json") == machine_json_schema())
      << "configs/schema/machine.schema.json is stale; run tools/dev/write_reference.sh";
}

TEST(GeneratedFiles, ReferenceNamesWhatCanBeChosen) {
  const std::string text = descriptor_reference_markdown();
  for (const char* word : {"`LRelu` = `LeakyRectifiedLinear`", "`SoftMax`", "`RMSProp`",
                           "`CaffeXavier`", "`DataScaledMarginalCrossEntropy`", "`DotProduct`"})
    EXPECT_THAT(text, testing::HasSubstr(word));
}

// The schema accepts the files of these folders and refuses wrong copies of them.
void check_schema(const char* schema, std::initializer_list<const char*> folders) {
  const std::filesystem::path root = NORN_SOURCE_DIR;
  if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "/usr/bin/python3 is missing";
  std::string command = "/usr/bin/python3 '" + (root / "tests/nn/schema_check.py").string() +
                        "' '" + (root / "configs/schema" / schema).string() + "'";
  for (const char* folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(root / folder))
      if (entry.path().extension() == ".json") command += " '" + entry.path().string() + "'";
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  for (std::array<char, 4096> part; const std::size_t read = fread(part.data(), 1, 4096, pipe);)
    output.append(part.data(), read);
  const int status = pclose(pipe);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << output;
  EXPECT_EQ(WEXITSTATUS(status), 0) << output;
  EXPECT_THAT(output, testing::HasSubstr("wrong copies rejected"));
}

TEST(GeneratedFiles, SchemaAcceptsTheShippedNetworksAndRefusesWrongCopies) {
  check_schema("network.schema.json", {"configs", "configs/dsstne", "configs/recipes"});
}

TEST(GeneratedFiles, SchemaAcceptsTheShippedMachinesAndRefusesWrongCopies) {
  check_schema("machine.schema.json", {"configs/machines"});
}

}  // namespace
}  // namespace norn
