// SPDX-License-Identifier: Apache-2.0
// Labels that are not UTF-8, in every format of text.
#include "norn/data/text_reader.h"
#include "support.h"

#include <gtest/gtest.h>

namespace norn {
namespace {

TextOptions of_format(const char* format) {
  TextOptions options;
  options.format = TextFormat::named(format);
  return options;
}

int rows_of(const std::string& text, const TextOptions& options) {
  TextReader reader("t.txt", text, options);
  TextRow row;
  int rows = 0;
  while (reader.next(row)) ++rows;
  return rows;
}

/// The second line is refused, passed over, or taken as it is.
void expect(const char* format, const std::string& text, const std::string& words) {
  TextOptions options = of_format(format);
  EXPECT_EQ(message_of([&] { rows_of(text, options); }),
            "t.txt:2: " + words +
                " is no UTF-8; convert the text first, for example with iconv -f latin1 -t utf-8, "
                "or pass over malformed lines with `skip_malformed` N");
  options.skip_malformed = 1;
  EXPECT_EQ(rows_of(text, options), 1) << text;
  options = of_format(format);
  options.any_bytes = true;
  EXPECT_EQ(rows_of(text, options), 2) << text;
}

TEST(Utf8Text, NamesLineLabelAndByteOfWhatIsNone) {
  expect("csv", "gr\xC3\xBCn,x\ngr\xFCn,x\n", "\"gr\\xfcn\": the byte 0xfc");
  expect("csv", "a,x\na,caf\xE9\n", "\"caf\\xe9\": the byte 0xe9");
  expect("tsv", "a\tx\na\t\"\xE9\"\n", "\"\"\\xe9\"\": the byte 0xe9");
  expect("dsstne", "a\tx\nb\tx:\xC3\xA9:caf\xE9,2:y\n", "\"caf\\xe9\": the byte 0xe9");
  expect("list", "a x1\n\xE9 x1\n", "\"\\xe9\": the byte 0xe9");
  expect("libsvm", "a 0:1\n\xE9 0:1\n", "\"\\xe9\": the byte 0xe9");
}

TEST(Utf8Text, AColumnThatNobodyReadsMayBeInOtherLetters) {
  EXPECT_EQ(rows_of("a,x,caf\xE9\n", of_format("csv")), 1);
}

}  // namespace
}  // namespace norn
