// SPDX-License-Identifier: Apache-2.0
// The journal of a search as text.
#include "src/run/automatic/journal.h"

#include "norn/base/error.h"
#include "src/base/checksum.h"
#include "src/data/contents_checksum.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string checksum_of(const std::string& text) {
  return checksum_text(checksum(text.data(), text.size()));
}

Candidate candidate_of(const JsonValue& value) {
  Candidate candidate;
  candidate.recipe = recipe_named(value["recipe"].text_or("")).value_or(RecipeKind::sigmoid);
  candidate.rate = value["rate"].number_or(1.0);
  candidate.length = value["length"].number_or(1.0);
  candidate.width = value["width"].number_or(1.0);
  candidate.lambda = value["lambda"].number_or(1.0);
  return candidate;
}

JsonValue json_of(const ExampleColumn& column) {
  JsonValue values = JsonValue::array();
  for (const double one : column) values.push(one);
  return values;
}

ExampleColumn column_of(const JsonValue& values) {
  ExampleColumn column;
  for (const JsonValue& one : values.entries()) column.push_back(one.number_or(kNone));
  return column;
}

JsonValue json_of(const Finding& finding) {
  JsonValue value = JsonValue::object();
  value.set("candidate", to_json(finding.candidate)).set("value", finding.value);
  value.set("failed", finding.failed).set("failure", finding.failure);
  value.set("earlier", finding.earlier);
  value.set("values", json_of(finding.values));
  if (!(finding.ease_weight > 0.0)) return value;
  value.set("ease_weight", finding.ease_weight).set("ease_lambda", finding.ease_lambda);
  value.set("ease_value", finding.ease_value);
  return value.set("ease_values", json_of(finding.ease_values));
}

Finding finding_of(const JsonValue& value) {
  Finding finding;
  finding.candidate = candidate_of(value["candidate"]);
  finding.value = value["value"].number_or(kNone);
  finding.failed = value["failed"].bool_or(false);
  finding.failure = value["failure"].text_or("");
  finding.earlier = value["earlier"].number_or(kNone);
  finding.values = column_of(value["values"]);
  finding.ease_weight = value["ease_weight"].number_or(0.0);
  if (!(finding.ease_weight > 0.0)) return finding;
  finding.ease_lambda = value["ease_lambda"].number_or(0.0);
  finding.ease_value = value["ease_value"].number_or(kNone);
  finding.ease_values = column_of(value["ease_values"]);
  return finding;
}

}  // namespace

JsonValue to_json(const Candidate& candidate) {
  JsonValue value = JsonValue::object();
  value.set("recipe", recipe_names()[std::size_t(candidate.recipe)]);
  if (!candidate.is_network()) return value.set("lambda", candidate.lambda);
  value.set("rate", candidate.rate).set("length", candidate.length);
  return value.set("width", candidate.width);
}

fs::path journal_of(const fs::path& model) {
  fs::path path = model;
  path.replace_filename(model.stem().string() + ".search.json");
  return path;
}

std::string journal_text(const Journal& journal) {
  JsonValue body = JsonValue::object();
  body.set("origin", journal.origin);
  JsonValue findings = JsonValue::array();
  for (const Finding& finding : journal.findings) findings.push(json_of(finding));
  body.set("findings", findings);
  if (journal.earlier) body.set("earlier", *journal.earlier);
  const std::string line = body.line();
  JsonValue head = JsonValue::object();
  head.set("format", kFormat).set("checksum", checksum_of(line));
  return head.line() + "\n" + line + "\n";
}

Journal parse_journal(const std::string& text, const fs::path& file) {
  const auto damaged = [&] {
    return DataError(fmt::format(
        "{}: the journal of a search is damaged; begin the search anew with `force`, which "
        "replaces it",
        file.string()));
  };
  const std::size_t end = text.find('\n');
  if (end == std::string::npos || text.back() != '\n') throw damaged();
  const std::string line = text.substr(end + 1, text.size() - end - 2);
  JsonValue head, body;
  try {
    head = parse_json(text.substr(0, end), file.string());
    if (head["checksum"].text_or("") != checksum_of(line)) throw damaged();
    body = parse_json(line, file.string());
  } catch (const UsageError&) {
    throw damaged();
  }
  if (const std::int64_t format = head["format"].integer_or(0); format != kFormat)
    throw DataError(
        fmt::format("{}: the journal of a search has format {}, this program reads {}; begin the "
                    "search anew with `force`",
                    file.string(), format, kFormat));
  Journal journal;
  journal.origin = body["origin"];
  for (const JsonValue& finding : body["findings"].entries())
    journal.findings.push_back(finding_of(finding));
  if (!body["earlier"].is_null()) journal.earlier = body["earlier"].number_or(kNone);
  return journal;
}

}  // namespace norn::run
