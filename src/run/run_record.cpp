// SPDX-License-Identifier: Apache-2.0
// Records of runs as JSON.
#include "src/run/run_record.h"

#include "norn/base/error.h"
#include "norn/kernels/precision.h"
#include "src/base/checksum.h"
#include "src/data/contents_checksum.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;
using From = OriginRecord::From;

constexpr int kFormat = 1;
constexpr std::array<std::pair<From, const char*>, 4> kOrigins = {
    {{From::descriptor, "descriptor"},
     {From::recipe, "recipe"},
     {From::weights, "weights"},
     {From::checkpoint, "checkpoint"}}};

template <typename Text>
JsonValue json_of(const Text& text) {
  return text;
}

JsonValue json_of(const DataSetRecord& set) {
  JsonValue value = JsonValue::object();
  value.set("name", set.name).set("file", set.file).set("examples", set.examples);
  value.set("width", set.width).set("entries", set.entries);
  return value.set("checksum", set.checksum);
}

template <typename Entry>
JsonValue list_of(const std::vector<Entry>& entries) {
  JsonValue list = JsonValue::array();
  for (const Entry& entry : entries) list.push(json_of(entry));
  return list;
}

JsonValue json_of(const OriginRecord& origin) {
  JsonValue value = JsonValue::object();
  for (const auto& [from, name] : kOrigins)
    if (from == origin.from) value.set("from", name);
  value.set("file", origin.file);
  if (!origin.checksum.empty()) value.set("checksum", origin.checksum);
  return value;
}

// Members that must be there, and of the right type.
class RecordReader {
 public:
  explicit RecordReader(const fs::path& file) : file_(file), root_(read_json(file)) {}
  const JsonValue& root() const { return root_; }

  [[noreturn]] void fail(const std::string& name) const {
    throw UsageError(fmt::format(
        "{}: \"{}\" is missing or not as runs write it; give the run.json that a run wrote to its "
        "`run_dir`",
        file_.string(), name));
  }
  std::string text(const JsonValue& object, const std::string& name) const {
    if (!object[name].is_text()) fail(name);
    return object[name].text_or("");
  }
  template <typename T>
  T integer(const JsonValue& object, const std::string& name) const {
    const std::int64_t value = object[name].integer_or(-1);
    if (value < 0) fail(name);
    return T(value);
  }
  const JsonValue& list(const JsonValue& object, const std::string& name) const {
    if (!object[name].is_array()) fail(name);
    return object[name];
  }
  template <typename Text>
  std::vector<Text> texts(const JsonValue& object, const std::string& name) const {
    std::vector<Text> texts;
    for (const JsonValue& entry : list(object, name).entries()) {
      if (!entry.is_text()) fail(name);
      texts.emplace_back(entry.text_or(""));
    }
    return texts;
  }

 private:
  fs::path file_;
  JsonValue root_;
};

// What a run is made again by, or compared with.
RunFacts read_facts(const RecordReader& reader) {
  const JsonValue& root = reader.root();
  RunFacts facts;
  facts.program = reader.text(root, "program");
  facts.version = reader.text(root, "version");
  facts.model = reader.text(root, "model");
  facts.device = reader.text(root, "device");
  facts.device_name = reader.text(root, "device_name");
  facts.precision = reader.text(root, "precision");
  if (facts.device != "cpu" && facts.device != "cuda") reader.fail("device");
  if (!precision_named(facts.precision)) reader.fail("precision");
  return facts;
}

std::vector<DataSetRecord> read_sets(const RecordReader& reader, const std::string& name) {
  std::vector<DataSetRecord> sets;
  for (const JsonValue& set : reader.list(reader.root(), name).entries())
    sets.push_back({reader.text(set, "name"), reader.text(set, "file"),
                    reader.integer<Index>(set, "examples"), reader.integer<Index>(set, "width"),
                    reader.integer<RowOffset>(set, "entries"), reader.text(set, "checksum")});
  return sets;
}

OriginRecord read_origin(const RecordReader& reader) {
  const JsonValue& value = reader.root()["origin"];
  if (!value.is_object()) reader.fail("origin");
  OriginRecord origin;
  const std::string name = reader.text(value, "from");
  bool known = false;
  for (const auto& [from, word] : kOrigins) {
    if (name != word) continue;
    origin.from = from;
    known = true;
  }
  if (!known) reader.fail("from");
  origin.file = reader.text(value, "file");
  if (origin.has_file_of_weights()) origin.checksum = reader.text(value, "checksum");
  return origin;
}

}  // namespace

std::vector<DataSetRecord> record_sets(const DataBinding& data) {
  std::vector<DataSetRecord> records;
  for (Dataset* set : data.sets()) {
    const DatasetInfo& info = set->info();
    records.push_back({info.name, info.file.empty() ? fs::path() : fs::absolute(info.file),
                       info.examples, info.width(), info.entries,
                       checksum_text(contents_checksum(*set))});
  }
  return records;
}

std::string run_record_json(const RunRecord& record) {
  const RunFacts& facts = record.facts;
  JsonValue value = JsonValue::object();
  value.set("format", kFormat).set("program", facts.program).set("version", facts.version);
  value.set("versions", record.versions).set("binary", record.binary);
  value.set("started", record.started).set("host", record.host).set("folder", record.folder);
  value.set("command", list_of(record.command)).set("model", facts.model);
  value.set("origin", json_of(record.origin)).set("device", facts.device);
  value.set("device_name", facts.device_name).set("precision", facts.precision);
  value.set("ranks", facts.ranks).set("threads", facts.threads).set("seed", facts.seed);
  value.set("examples", facts.examples).set("weights", facts.weights);
  value.set("inputs", list_of(record.inputs)).set("outputs", list_of(record.outputs));
  value.set("sets", list_of(record.sets));
  value.set("validation_inputs", list_of(record.validation_inputs));
  value.set("validation_outputs", list_of(record.validation_outputs));
  value.set("validation_sets", list_of(record.validation_sets));
  value.set("trust_index", record.trust_index.value_or(false));
  value.set("network", JsonValue::verbatim(record.network));
  if (!record.chosen.is_null()) value.set("chosen", record.chosen);
  value.set("plan", record.plan);
  if (!record.ops.is_null()) value.set("ops", record.ops);
  value.set("result", record.result);
  return value.text();
}

RunRecord read_run_record(const fs::path& file) {
  const RecordReader reader(file);
  const JsonValue& root = reader.root();
  if (const int format = reader.integer<int>(root, "format"); format > kFormat)
    throw UsageError(
        fmt::format("{}: its format is {}, this program reads up to {}; use the program that "
                    "recorded the run",
                    file.string(), format, kFormat));
  RunRecord record;
  record.facts = read_facts(reader);
  record.binary = root["binary"].text_or("");
  record.versions = root["versions"];
  record.host = root["host"].text_or("");
  record.folder = root["folder"].text_or("");
  record.started = reader.text(root, "started");
  record.command = reader.texts<std::string>(root, "command");
  record.origin = read_origin(reader);
  record.inputs = reader.texts<fs::path>(root, "inputs");
  record.outputs = reader.texts<fs::path>(root, "outputs");
  record.validation_inputs = reader.texts<fs::path>(root, "validation_inputs");
  record.validation_outputs = reader.texts<fs::path>(root, "validation_outputs");
  if (!root["trust_index"].is_null()) record.trust_index = root["trust_index"].bool_or(false);
  record.sets = read_sets(reader, "sets");
  record.validation_sets = read_sets(reader, "validation_sets");
  if (!root["network"].is_object()) reader.fail("network");
  record.network = root["network"].text();
  record.chosen = root["chosen"];
  record.plan = root["plan"];
  record.ops = root["ops"];
  record.result = root["result"];
  return record;
}

std::string binary_checksum() {
  const fs::path program = "/proc/self/exe";
  std::array<std::uint64_t, 2> sums{};
  try {
    sums[0] = file_checksum(program);
    // What computes may stand in a library, beside which the program's own file is small.
    Dl_info library{};
    std::error_code none;
    if (::dladdr(reinterpret_cast<const void*>(&binary_checksum), &library) == 0 ||
        !library.dli_fname || fs::equivalent(library.dli_fname, program, none) || none)
      return checksum_text(sums[0]);
    sums[1] = file_checksum(library.dli_fname);
    return checksum_text(checksum(sums.data(), sizeof(sums)));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace norn::run
