// SPDX-License-Identifier: Apache-2.0
// The engine's errors as the classes of norn/errors.py.
#include "norn/base/error.h"
#include "norn/base/problem.h"
#include "python/src/parts.h"

#include <exception>
#include <new>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace norn::python {
namespace {

// Messages quote what files say, which need not be UTF-8.
nb::object cast_any(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
}

nb::object cast_any(const auto& value) {
  return nb::cast(value);
}

nb::dict dictionary_of(const Problem& problem) {
  nb::dict known;
  const auto add = [&](const char* key, const auto& value, bool is_known) {
    if (is_known) known[key] = cast_any(value);
  };
  add("file", problem.file, !problem.file.empty());
  add("line", problem.line, problem.line > 0);
  add("column", problem.column, problem.column > 0);
  add("key", problem.key, !problem.key.empty());
  known["message"] = cast_any(problem.message);
  const std::string suggestion = problem.suggestion();
  add("suggestion", suggestion, !suggestion.empty());
  return known;
}

void raise(const Error& error, const std::vector<Problem>& problems) {
  nb::list all;
  for (const Problem& problem : problems) all.append(dictionary_of(problem));
  const nb::object made =
      nb::module_::import_("norn.errors")
          .attr("error_of")(cast_any(std::string(error.what())), error.exit_code(), all);
  PyErr_SetObject((PyObject*)Py_TYPE(made.ptr()), made.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ProblemsError& error) {
    raise(error, error.problems());
  } catch (const Error& error) {
    raise(error, {problem_of(error.what())});
  } catch (const std::bad_alloc&) {
    const DeviceError error(
        "there is not enough memory; ask for less at a time, a smaller `batch` or `N` or fewer "
        "rows, or use a larger machine");
    raise(error, {problem_of(error.what())});
  }
}

}  // namespace

void add_errors(nb::module_&) {
  nb::register_exception_translator(translate);
}

}  // namespace norn::python
