// SPDX-License-Identifier: Apache-2.0
// Importing as a program asks for it: words, defaults, and what is wrong with them.
#include "norn/run/import.h"

#include "norn/base/error.h"
#include "norn/base/problem.h"
#include "tests/data/support.h"
#include "tests/support/message_of.h"

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::HasSubstr;

class ImportText : public testing::Test {
 protected:
  ImportOptions import_of(const std::string& text) const {
    write_text(folder_ / "text.txt", text);
    ImportOptions options;
    options.input = folder_ / "text.txt";
    options.output = folder_ / "data.nc";
    options.name = "shop";
    return options;
  }

  TempDir folder_;
};

TEST_F(ImportText, WritesOneFileOrItsParts) {
  ImportOptions options = import_of("a\tx:y:z\nb\ty:w\nc\tx:w\nd\tz\n");
  EXPECT_EQ(import_files(options).files.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data.nc"));
  options.split = "ratio:1/1/2";
  options.split_by = "example";
  Index examples = 0;
  const ImportReport report = import_files(options);
  for (const ImportReport::File& file : report.files) examples += file.examples;
  EXPECT_EQ(report.files.size(), 3u);
  EXPECT_EQ(examples, 4);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data.validation.nc"));
}

TEST_F(ImportText, TakesTheLastLineOfAnExampleWhereRowsFollowAnIndexOfExamples) {
  ImportOptions options = import_of("a\tx:y\nb\ty\na\tz\n");
  EXPECT_THAT(message_of<DataError>([&] { import_files(options); }), HasSubstr("\"a\""));
  options.repeated_examples = "merge";
  EXPECT_EQ(import_files(options).files[0].input_entries, 4);
  options.repeated_examples = "auto";
  options.samples = folder_ / "samples";
  options.features = folder_ / "features";
  options.new_features = true;
  EXPECT_EQ(import_files(options).files[0].input_entries, 2);
  options.repeated_examples = "error";
  EXPECT_THAT(message_of<DataError>([&] { import_files(options); }), HasSubstr("\"a\""));
}

TEST_F(ImportText, TakesEveryWordThatItNames) {
  ImportOptions options = import_of("a\tx:y:z\nb\ty:w\n");
  const auto imports_with = [&](std::string ImportOptions::*member, const char* setting) {
    for (const std::string& word : import_words(setting)) {
      ImportOptions one = options;
      one.*member = word;
      EXPECT_EQ(import_files(one).files[0].input_entries, 5) << setting << " " << word;
    }
  };
  imports_with(&ImportOptions::duplicates, "duplicates");
  imports_with(&ImportOptions::empty_rows, "empty_rows");
  imports_with(&ImportOptions::repeated_examples, "repeated_examples");
  imports_with(&ImportOptions::missing_examples, "missing_examples");
  imports_with(&ImportOptions::feature_labels, "feature_labels");
}

TEST_F(ImportText, TellsOfAColumnOfValuesThatNobodyReads) {
  ImportOptions options = import_of("user,item,rating\na,x,2.5\na,y,0.5\n");
  std::vector<std::string> warnings;
  options.log = Log([&](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) warnings.push_back(message);
  });
  options.format = "csv";
  options.header = "yes";
  import_files(options);
  EXPECT_TRUE(warnings.empty());
  options.value_column = "rating";
  import_files(options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "`value_column` rating: the values are left out, as neither `type` nor `target_type` "
            "is analog");
  options.type = "analog";
  import_files(options);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(ImportText, SaysAllThatIsWrongWithSettingsAtOnce) {
  ImportOptions options = import_of("a\tx\n");
  options.duplicates = "keep";
  options.split = "half";
  options.skip_malformed = -1;
  options.samples = folder_ / "samples";
  const std::string all = message_of<UsageError>([&] { import_files(options); });
  EXPECT_THAT(all, HasSubstr("`duplicates` keep: there is no such choice; choose of: error, sum, "
                             "first"));
  EXPECT_THAT(all, HasSubstr("`split` half: expected ratio:0.8/0.1/0.1"));
  EXPECT_THAT(all, HasSubstr("`skip_malformed` -1 is out of range"));
  EXPECT_THAT(all, HasSubstr("`samples` needs `features`, too"));
  EXPECT_THAT(all, HasSubstr("`samples` writes one data set"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data.nc"));
}

}  // namespace
}  // namespace norn::run
