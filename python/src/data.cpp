// SPDX-License-Identifier: Apache-2.0
// Data sets over arrays of NumPy, and labels.
#include "python/src/data.h"

#include "norn/base/error.h"
#include "python/src/arrays.h"
#include "python/src/parts.h"

#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {

namespace {

// Bytes that are no UTF-8, of old files, are lone surrogates in Python, as in names of its files.
std::string bytes_of(const nb::handle& word) {
  const auto bytes =
      nb::steal<nb::bytes>(PyUnicode_AsEncodedString(word.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {bytes.c_str(), bytes.size()};
}

nb::str text_of(std::string_view bytes) {
  auto text = nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "surrogateescape"));
  if (!text.is_valid()) throw nb::python_error();
  return text;
}

}  // namespace

Labels::Labels(const nb::iterable& words) {
  LabelIndex index;
  Index number = 0;
  for (const nb::handle word : words) {
    if (!nb::isinstance<nb::str>(word))
      throw UsageError(
          fmt::format("`labels`: number {} is {}, expected a str", number, nb::repr(word).c_str()));
    if (index.add(bytes_of(word)) != number)
      throw DataError(
          fmt::format("`labels`: number {} is \"{}\" again; each unit has a label of "
                      "its own",
                      number, bytes_of(word)));
    ++number;
  }
  table_ = LabelTable::of(index);
  index_ = std::move(index);
}

const LabelIndex& Labels::index() const {
  if (!index_) {
    if (!table_.has_words())
      throw DataError(
          "the model keeps the checksum of its labels alone, not the labels; name "
          "units by their numbers");
    index_ = table_.index();
  }
  return *index_;
}

nb::str Labels::at(Index number) const {
  if (number < 0 || number >= size())
    throw nb::index_error(fmt::format("label {} of {}", number, size()).c_str());
  // As many numbers as the file says there are, and no memory for them.
  if (table_.are_numbers()) return nb::str(std::to_string(number).c_str());
  return text_of(index().label(number));
}

std::vector<std::int64_t> Labels::find(const nb::list& words) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(words.size());
  for (const nb::handle given : words) {
    if (!nb::isinstance<nb::str>(given)) throw nb::type_error("labels are str");
    const std::string word = bytes_of(given);
    if (table_.are_numbers()) {
      const auto number = number_named(word);
      numbers.push_back(number && Index(*number) < size() ? Index(*number) : -1);
    } else {
      numbers.push_back(index().find(word).value_or(-1));
    }
  }
  return numbers;
}

namespace {

using FloatVector = std::optional<Vector<float>>;

std::span<const float> span_of(const FloatVector& values) {
  if (!values) return {};
  return {values->data(), values->size()};
}

// Columns of SciPy are signed; those that are not negative have the same bits as the engine's.
void require_not_negative(const std::string& name, std::span<const RowOffset> begin,
                          std::span<const std::int32_t> columns) {
  std::int32_t all = 0;
  for (const std::int32_t column : columns) all |= column;
  if (all >= 0) return;
  for (std::size_t row = 0; row + 1 < begin.size(); ++row)
    for (RowOffset i = begin[row]; i < begin[row + 1] && i < RowOffset(columns.size()); ++i)
      if (i >= 0 && columns[std::size_t(i)] < 0)
        throw DataError(fmt::format(
            "data set \"{}\": example {}: column {} is negative; columns are counted from 0", name,
            row, columns[std::size_t(i)]));
  throw DataError(fmt::format("data set \"{}\": a column is negative", name));
}

// Columns of 32 bits: SciPy's, which are signed, or the engine's.
template <typename T>
MemorySet sparse_set(std::string name, Index width, const Vector<RowOffset>& begin,
                     const Vector<T>& columns, const FloatVector& values, const Labels* labels,
                     bool ignore_absent, const FloatVector& weights) {
  MemorySet set{.name = std::move(name), .width = width};
  set.row_begin = {begin.data(), begin.size()};
  if constexpr (std::is_signed_v<T>)
    require_not_negative(set.name, set.row_begin, {columns.data(), columns.size()});
  static_assert(sizeof(Column) == sizeof(T));
  set.columns = {reinterpret_cast<const Column*>(columns.data()), columns.size()};
  set.values = span_of(values);
  set.weights = span_of(weights);
  if (labels) set.unit_labels = labels->table();
  set.ignore_absent = ignore_absent;
  set.owner = keep(begin, columns, values, weights);
  return set;
}

MemorySet dense_set(std::string name, const Matrix<float>& dense, const Labels* labels,
                    const FloatVector& weights) {
  MemorySet set{.name = std::move(name), .width = Index(dense.shape(1))};
  set.dense = {dense.data(), dense.size()};
  set.weights = span_of(weights);
  if (labels) set.unit_labels = labels->table();
  set.owner = keep(dense, weights);
  return set;
}

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

std::vector<MemorySet> sets_of(const nb::handle& list) {
  std::vector<MemorySet> sets;
  for (const nb::handle set : list) sets.push_back(nb::cast<const MemorySet&>(set));
  return sets;
}

void add_data(nb::module_& m) {
  nb::class_<Labels>(m, "Labels", "Labels of units in the order of their numbers.")
      .def(nb::init<const nb::iterable&>(), "words"_a)
      .def("__len__", &Labels::size)
      .def("__getitem__",
           [](const Labels& self, Index number) {
             return self.at(number < 0 ? number + self.size() : number);
           })
      .def("find", &Labels::find, "words"_a, "Their numbers; -1 for those that are unknown.")
      .def("has_words", [](const Labels& self) { return self.table().has_words(); })
      .def("are_numbers", [](const Labels& self) { return self.table().are_numbers(); })
      .def(
          "same_as",
          [](const Labels& self, const Labels& other) {
            return self.table().same_as(other.table());
          },
          "Whether all labels are the same, by their checksums.");
  nb::class_<MemorySet>(m, "MemorySet", "A data set over arrays, which it views and keeps.")
      .def_static("sparse", &sparse_set<std::int32_t>, "name"_a, "width"_a,
                  "row_begin"_a.noconvert(), "columns"_a.noconvert(),
                  "values"_a.noconvert().none() = nb::none(), "labels"_a.none() = nb::none(),
                  "ignore_absent"_a = false, "weights"_a.noconvert().none() = nb::none())
      .def_static("sparse", &sparse_set<Column>, "name"_a, "width"_a, "row_begin"_a.noconvert(),
                  "columns"_a.noconvert(), "values"_a.noconvert().none() = nb::none(),
                  "labels"_a.none() = nb::none(), "ignore_absent"_a = false,
                  "weights"_a.noconvert().none() = nb::none())
      .def_static("dense", &dense_set, "name"_a, "values"_a.noconvert(),
                  "labels"_a.none() = nb::none(), "weights"_a.noconvert().none() = nb::none())
      .def_ro("name", &MemorySet::name)
      .def_ro("width", &MemorySet::width)
      .def_prop_ro(
          "addresses",
          [](const MemorySet& set) {
            return nb::make_tuple(address(set.row_begin.data()), address(set.columns.data()),
                                  address(set.values.data()), address(set.dense.data()));
          },
          "Where offsets, columns, values and dense values are read; 0: none.");
}

}  // namespace norn::python
