// SPDX-License-Identifier: Apache-2.0
// The table of text formats: names, endings, and what a text is taken for.

#include "norn/data/text_reader.h"
#include "src/base/text.h"
#include "support.h"

#include <regex>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

TEST(TextFormats, AreFoundByTheirNamesAndEndings) {
  for (const TextFormatInfo* format : text_formats()) {
    EXPECT_EQ(&TextFormat::named(format->name).info(), format);
    for (const std::string_view ending : format->endings) {
      if (ending.empty()) continue;
      EXPECT_EQ(&TextReader("x" + std::string(ending), "a\tb\n", {}).format().info(), format);
    }
  }
  EXPECT_TRUE(TextFormat::named("auto").is_automatic());
  EXPECT_EQ(TextFormat::words().front(), "auto");
  EXPECT_EQ(TextFormat::words().size(), text_formats().size() + 1);
  try {
    TextFormat::named("CSV");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(),
              "\"CSV\" is no text format; take auto or one of " + join(text_format_names()));
  }
}

// What a parser's file defines and the table lacks would be read by no one.
TEST(TextFormats, AreAllInTheTable) {
  const std::filesystem::path source = std::filesystem::path(NORN_SOURCE_DIR) / "src/data";
  const auto text_of = [](const std::filesystem::path& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string table = text_of(source / "text_formats.cpp");
  std::size_t defined = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = text_of(entry.path());
    const std::regex definition("const TextFormatInfo (k[A-Za-z]+) =");
    for (std::sregex_iterator i(text.begin(), text.end(), definition), end; i != end;
         ++i, ++defined)
      EXPECT_NE(table.find("&" + (*i)[1].str()), std::string::npos)
          << entry.path() << ": " << (*i)[1] << " has no line in src/data/text_formats.cpp";
  }
  EXPECT_EQ(defined, text_formats().size());
}

TEST(TextFormats, AreRecognised) {
  const auto format = [](const std::string& name, const std::string& text) {
    return std::string(TextReader(name, text, {}).format()->name);
  };
  EXPECT_EQ(format("x", "a\t1:2\n"), "dsstne");
  EXPECT_EQ(format("x", "a\tb\t3\n"), "tsv");
  EXPECT_EQ(format("x.tsv.gz", "a\tb\n"), "tsv");
  EXPECT_EQ(format("X.CSV", "a,b\n"), "csv");
  EXPECT_EQ(format("x", "a,b,3\n"), "csv");
  EXPECT_EQ(format("x", "3 10 5\n1,2 0:1\n"), "libsvm");
  EXPECT_EQ(format("x", "+1 1:0.5 7:1\n"), "libsvm");
  EXPECT_EQ(format("x", " 0:1\n"), "libsvm");
}

TEST(TextFormats, AreListsByTheAbsenceOfColons) {
  const auto format = [](const std::string& text) {
    return std::string(TextReader("x", text, {}).format()->name);
  };
  EXPECT_EQ(format("0 17 3 5\n1 4\n"), "list");
  EXPECT_EQ(format("0\n1 4 7\n"), "list") << "a user without items";
  EXPECT_EQ(format("17 3 5\n"), "list") << "three numbers are no header without features";
  EXPECT_EQ(format("3 10 5\n2\n1,2 0:1\n"), "libsvm") << "features come after the header";
  EXPECT_EQ(format("1 3 5\n1 2:1\n"), "libsvm");
  EXPECT_EQ(format("Ada i3 i5 \r\nBob i1\r\n"), "list");
  EXPECT_EQ(format("1,2 3 5\n"), "libsvm");
  EXPECT_EQ(format(" 3 5\n"), "libsvm") << "no label";
  for (const char* text : {"7\n8\n", "once upon a time\n", "u1 i2 i3\nnot a list\n"})
    EXPECT_THAT(message_of([&] { format(text); }), HasSubstr("follows no known format")) << text;
}

}  // namespace
}  // namespace norn
