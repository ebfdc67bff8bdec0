// SPDX-License-Identifier: Apache-2.0
// JSON values: what is written is read again as it was.
#include "src/nn/json_value.h"

#include "norn/base/error.h"

#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

JsonValue everything() {
  JsonValue inner = JsonValue::array();
  inner.push(1).push(2.5).push("three").push(JsonValue()).push(JsonValue::object());
  JsonValue value = JsonValue::object();
  value.set("zero", false)
      .set("inner", inner)
      .set("least", std::numeric_limits<std::int64_t>::min());
  value.set("most", std::numeric_limits<std::uint64_t>::max()).set("tenth", 0.1).set("", "");
  return value;
}

TEST(JsonValue, KeepsTheOrderOfMembersAndReplacesInPlace) {
  JsonValue value = JsonValue::object();
  value.set("b", 1).set("a", 2).set("b", 3);
  EXPECT_EQ(value.line(), R"({"b": 3, "a": 2})");
}

TEST(JsonValue, ComesBackFromItsTextAsItWas) {
  const JsonValue value = everything();
  for (const std::string& text : {value.line(), value.text()}) {
    const JsonValue back = parse_json(text, "text");
    EXPECT_EQ(back["least"].integer_or(0), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(back["most"].line(), "18446744073709551615");
    EXPECT_EQ(back["most"].integer_or(-7), -7) << "does not fit";
    EXPECT_EQ(back["tenth"].number_or(0), 0.1);
    EXPECT_EQ(back["zero"].bool_or(true), false);
    EXPECT_EQ(back["inner"].entries().size(), 5u);
    EXPECT_EQ(back["inner"].entries()[2].text_or(""), "three");
    EXPECT_TRUE(back["inner"].entries()[3].is_null());
    EXPECT_TRUE(back["inner"].entries()[4].is_object());
    EXPECT_TRUE(back["missing"].is_null());
    EXPECT_EQ(back["missing"]["of it"].integer_or(4), 4);
  }
}

TEST(JsonValue, DoublesComeBackToTheBit) {
  for (const double number : {1.0 / 3.0, 1e-310, 1.7976931348623157e308, -0.0, 5.0, 1e21}) {
    JsonValue value = JsonValue::object();
    value.set("number", number);
    EXPECT_EQ(parse_json(value.line(), "text")["number"].number_or(1), number);
  }
}

TEST(JsonValue, HasNoNumbersThatAreNotFinite) {
  EXPECT_TRUE(JsonValue(std::numeric_limits<double>::quiet_NaN()).is_null());
  EXPECT_EQ(JsonValue(std::numeric_limits<double>::infinity()).line(), "null");
}

TEST(JsonValue, EscapesWhateverATextHolds) {
  const std::string odd =
      "a \"quote\", a \\, a\ttab, a\nline, \x01, Gr\xc3\xbc\xc3\x9f"
      "e, \xe2\x82\xac";
  const std::string line = JsonValue(odd).line();
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 127) << line;
  JsonValue value = JsonValue::object();
  value.set("odd", odd);
  EXPECT_EQ(parse_json(value.line(), "text")["odd"].text_or(""), odd);
  for (const char c : JsonValue("not \xff utf-8 \xc3").line()) EXPECT_TRUE(c >= ' ' && c < 127);
}

TEST(JsonValue, WhatIsNotUtf8IsReadAsItIsWritten) {
  const std::string no_letter = "\xef\xbf\xbd";
  for (const char* text :
       {"{\"\xf3\x8f\xbf\xbf\": 1, \"and\": 2, \"\xff\": \"\xc3\"}", "{\"\xfe\": 1, \"\xff\": 2}",
        "[\"\xf7\xbf\xbf\xbf\", \"\xed\xa0\x80\", \"\xc0\xaf\", \"\\udc00\"]"}) {
    const std::string line = parse_json(text, "text").line();
    EXPECT_EQ(parse_json(line, "line").line(), line);
  }
  const JsonValue value = parse_json("{\"\xfe\": 1, \"a\": \"b\xff\"}", "text");
  EXPECT_EQ(value[no_letter].integer_or(0), 1);
  EXPECT_EQ(value["a"].text_or(""), "b" + no_letter);
}

TEST(JsonValue, TakesOverTextThatIsJsonAlready) {
  JsonValue value = JsonValue::object();
  value.set("network", JsonValue::verbatim("{\n  \"b\": 1,\n  \"a\": [2]\n}\n"));
  EXPECT_EQ(value.text(), "{\n  \"network\": {\n    \"b\": 1,\n    \"a\": [2]\n  }\n}\n");
  EXPECT_EQ(parse_json(value.line(), "line")["network"]["a"].entries()[0].integer_or(0), 2);
}

TEST(JsonValue, TextIsIndentedWhereALineIsTooLong) {
  JsonValue value = JsonValue::object();
  JsonValue array = JsonValue::array();
  for (int i = 0; i < 3; ++i) array.push(std::string(40, 'x'));
  value.set("short", JsonValue::array().push(1).push(2)).set("long", array);
  const std::string x(40, 'x');
  EXPECT_EQ(value.text(), "{\n  \"short\": [1, 2],\n  \"long\": [\n    \"" + x + "\",\n    \"" + x +
                              "\",\n    \"" + x + "\"\n  ]\n}\n");
}

TEST(JsonValue, NamesLineAndColumnOfWhatIsNotJson) {
  try {
    parse_json("{\n  \"a\": 1\n  \"b\": 2\n}", "run.json");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("run.json:3:3: not JSON: "));
  }
  for (const char* path : {"/nowhere/run.json", "/"}) {
    try {
      read_json(path);
      FAIL();
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), fmt::format("{}: cannot be read; expected a file of JSON", path));
    }
  }
}

}  // namespace
}  // namespace norn
