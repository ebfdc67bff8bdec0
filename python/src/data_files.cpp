// SPDX-License-Identifier: Apache-2.0
// Data sets: texts and files as arrays, arrays as files. Python's side is norn/dataset.py.
#include "norn/base/error.h"
#include "norn/run/data.h"
#include "python/src/arrays.h"
#include "python/src/parts.h"
#include "src/data/first_line.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace norn::python {
namespace {

template <typename T>
std::span<const T> span_of(const Vector<T>& array) {
  return {array.data(), array.shape(0)};
}

// An array that keeps what it stands in.
template <typename T, typename Owner>
nb::object shared_array(const T* data, std::size_t size, std::shared_ptr<Owner> owner) {
  auto* kept = new std::shared_ptr<Owner>(std::move(owner));
  const nb::capsule capsule(
      kept, [](void* p) noexcept { delete static_cast<std::shared_ptr<Owner>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(const_cast<T*>(data), {size}, capsule));
}

template <typename T>
nb::object vector_array(std::vector<T> values) {
  const std::size_t size = values.size();
  return array_of(std::move(values), {size});
}

// None for no elements.
template <typename T>
nb::object array_or_none(std::vector<T> values) {
  return values.empty() ? nb::object(nb::none()) : vector_array(std::move(values));
}

// Labels cross as one text of lines: a label has no line feed.
std::vector<std::string_view> lines_of(const nb::bytes& text) {
  std::vector<std::string_view> lines;
  std::string_view rest(text.c_str(), text.size());
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    lines.push_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return lines;
}

nb::bytes bytes_of(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

template <typename Labels>
nb::bytes lines_text(const Labels& label_of, Index count) {
  std::string text;
  for (Index number = 0; number < count; ++number) (text += label_of(number)) += '\n';
  return bytes_of(text);
}

nb::bytes labels_text(const LabelIndex& labels) {
  return lines_text([&](Index number) { return labels.label(number); }, labels.size());
}

// None: nothing is known of the units, or but a checksum.
nb::object labels_text(const LabelTable& labels) {
  if (!labels.has_words() || labels.are_numbers()) return nb::none();
  const LabelList list = labels.list();
  return lines_text([&](Index number) { return list[number]; }, list.size());
}

LabelTable table_of(const std::optional<nb::bytes>& labels, Index width) {
  if (!labels) return LabelTable::numbers(width);
  LabelIndex index;
  for (const std::string_view label : lines_of(*labels)) {
    const Index before = index.size();
    if (index.add(label) < before)
      throw DataError("`feature_labels`: \"" + std::string(label) +
                      "\" is there twice; name features apart");
  }
  return LabelTable::of(index);
}

run::ImportOptions options_of(const nb::dict& given) {
  run::ImportOptions options;
  const auto text = [&](const char* name, std::string& member) {
    if (given.contains(name)) member = nb::cast<std::string>(given[name]);
  };
  const auto path = [&](const char* name, std::filesystem::path& member) {
    if (given.contains(name)) member = nb::cast<std::string>(given[name]);
  };
  path("input", options.input);
  path("output", options.output);
  path("target", options.target);
  path("scratch", options.scratch);
  text("name", options.name);
  text("format", options.format);
  text("size", options.size);
  text("type", options.type);
  text("header", options.header);
  text("example_column", options.example_column);
  text("feature_column", options.feature_column);
  text("value_column", options.value_column);
  text("time_column", options.time_column);
  text("libsvm_labels", options.libsvm_labels);
  text("duplicates", options.duplicates);
  text("empty_rows", options.empty_rows);
  text("split", options.split);
  text("split_by", options.split_by);
  if (given.contains("skip_malformed"))
    options.skip_malformed = nb::cast<Index>(given["skip_malformed"]);
  if (given.contains("seed")) options.seed = nb::cast<std::uint64_t>(given["seed"]);
  return options;
}

// Ctrl-C ends what takes long.
void heed_signals(const ImportProgress&) {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

nb::tuple read_entries(const nb::dict& settings) {
  run::ImportOptions options = options_of(settings);
  options.on_progress = heed_signals;
  run::TextEntries entries;
  {
    const nb::gil_scoped_release released;
    entries = run::read_entries(options);
  }
  return nb::make_tuple(
      vector_array(std::move(entries.examples)), vector_array(std::move(entries.features)),
      array_or_none(std::move(entries.values)), array_or_none(std::move(entries.times)),
      labels_text(entries.example_labels), labels_text(entries.feature_labels),
      entries.first_line_doubt, entries.time_doubt);
}

Index import_files(const nb::dict& settings) {
  run::ImportOptions options = options_of(settings);
  options.on_progress = heed_signals;
  const nb::gil_scoped_release released;
  return run::import_files(options).malformed;
}

nb::tuple share_out(const nb::dict& settings, const Vector<std::int64_t>& row_begin,
                    const Vector<std::uint32_t>& columns, const nb::bytes& labels,
                    const std::optional<Vector<std::int64_t>>& times) {
  const MemorySet rows{.row_begin = span_of(row_begin), .columns = span_of(columns)};
  const run::SharedOut out =
      run::share_out(options_of(settings), rows, lines_of(labels),
                     times ? span_of(*times) : std::span<const Microseconds>{});
  return nb::make_tuple(out.parts, out.by_entry, vector_array(out.part));
}

// Of each line the time, and whether it is one.
nb::tuple parse_times(const nb::bytes& lines) {
  std::vector<Microseconds> times;
  std::vector<std::uint8_t> known;
  for (const std::string_view line : lines_of(lines)) {
    const std::optional<Microseconds> time = parse_time(line);
    times.push_back(time.value_or(0));
    known.push_back(time.has_value());
  }
  return nb::make_tuple(vector_array(std::move(times)), vector_array(std::move(known)));
}

nb::dict dictionary_of(const MemorySet& set, const std::vector<std::string>& examples) {
  nb::dict all;
  all["name"] = nb::cast(set.name);
  all["width"] = nb::cast(set.width);
  const auto add = [&]<typename T>(const char* name, std::span<const T> values) {
    all[name] = values.empty() ? nb::object(nb::none())
                               : shared_array(values.data(), values.size(), set.owner);
  };
  all["row_begin"] =
      vector_array(std::vector<RowOffset>(set.row_begin.begin(), set.row_begin.end()));
  add("columns", set.columns);
  add("values", set.values);
  add("dense", set.dense);
  add("weights", set.weights);
  all["own_units"] = nb::cast(set.own_units);
  all["feature_labels"] = labels_text(set.unit_labels);
  all["example_labels"] =
      examples.empty()
          ? nb::object(nb::none())
          : lines_text([&](Index i) { return examples[std::size_t(i)]; }, Index(examples.size()));
  return all;
}

nb::list read_sets(const std::string& file) {
  run::FileSets found;
  {
    const nb::gil_scoped_release released;
    found = run::read_sets(file);
  }
  nb::list all;
  for (std::size_t i = 0; i < found.sets.size(); ++i)
    all.append(dictionary_of(found.sets[i], found.example_labels[i]));
  return all;
}

MemorySet set_of(const nb::dict& given) {
  MemorySet set;
  set.name = nb::cast<std::string>(given["name"]);
  set.width = nb::cast<Index>(given["width"]);
  set.own_units = nb::cast<bool>(given["own_units"]);
  // The caller's dictionary keeps them.
  set.row_begin = span_of(nb::cast<Vector<std::int64_t>>(given["row_begin"]));
  set.columns = span_of(nb::cast<Vector<std::uint32_t>>(given["columns"]));
  if (!given["values"].is_none()) set.values = span_of(nb::cast<Vector<float>>(given["values"]));
  std::optional<nb::bytes> labels;
  if (!given["feature_labels"].is_none()) labels = nb::cast<nb::bytes>(given["feature_labels"]);
  set.unit_labels = table_of(labels, set.width);
  return set;
}

void write_sets(const std::string& file, const nb::list& sets, const nb::bytes& example_labels) {
  std::vector<MemorySet> given;
  for (const nb::handle set : sets) given.push_back(set_of(nb::cast<nb::dict>(set)));
  const std::vector<std::string_view> labels = lines_of(example_labels);
  const nb::gil_scoped_release released;
  run::write_sets(file, given, labels);
}

void write_index(const std::string& file, const nb::bytes& labels) {
  LabelIndex index;
  for (const std::string_view label : lines_of(labels)) index.add(label);
  write_label_index(file, index);
}

std::string describe_file(const std::string& file) {
  const nb::gil_scoped_release released;
  return run::describe_file(file);
}

}  // namespace

void add_data_files(nb::module_& m) {
  m.def("read_entries", &read_entries, nb::arg("settings"),
        "Of a text: examples, features (uint32, numbered as they appear), values, times or None, "
        "labels of examples, labels of features, and what to say of the first line, or None.");
  m.def(
      "text_format",
      [](const nb::dict& settings) { return run::text_format(options_of(settings)); },
      nb::arg("settings"), "The format of a text, found out where it is to be: \"csv\".");
  m.def(
      "first_line_doubt",
      [](bool is_names, const std::vector<std::pair<std::string, std::string>>& lines,
         bool is_example, bool is_feature) {
        const FirstLine line{is_names, lines.at(0).first, lines.at(0).second};
        return first_line_doubt(line, lines, is_example, is_feature);
      },
      nb::arg("is_names"), nb::arg("lines"), nb::arg("is_example"), nb::arg("is_feature"),
      "What to say of the first line of text in columns, or None. Of the first lines, itself among "
      "them, an example and a feature each; whether other lines have its example, or its feature.");
  m.def("import_files", &import_files, nb::arg("settings"),
        "What the program importer does. Lines or images that were passed over.");
  m.def("share_out", &share_out, nb::arg("settings"), nb::arg("row_begin").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("labels"), nb::arg("times").noconvert().none(),
        "Names of parts, whether entries are shared out, and the part of each entry or example.");
  m.def("parse_times", &parse_times, nb::arg("lines"),
        "Of each line the microseconds since 1970, and 1 where it is a time, else 0.");
  m.def("read_sets", &read_sets, nb::arg("file"), "The data sets of a file, a dictionary each.");
  m.def("write_sets", &write_sets, nb::arg("file"), nb::arg("sets"), nb::arg("example_labels"),
        "Writes data sets of the same examples as the program importer does.");
  m.def(
      "read_label_index",
      [](const std::string& file) { return labels_text(read_label_index(file, LabelBytes::utf8)); },
      nb::arg("file"),
      "The labels of an index file in the order of their numbers; those that are no UTF-8 are "
      "refused.");
  m.def("write_label_index", &write_index, nb::arg("file"), nb::arg("labels"),
        "Writes labels, a line each, as an index file.");
  m.def("describe_file", &describe_file, nb::arg("file"),
        "What a model or a file of data sets is, as JSON.");
}

}  // namespace norn::python
