// SPDX-License-Identifier: Apache-2.0
// Metrics of held-out units.
#include "norn/run/evaluate.h"
#include "python/src/data.h"
#include "python/src/model.h"
#include "python/src/parts.h"
#include "python/src/reports.h"

#include <string>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

nb::dict evaluate(HeldModel& model, const nb::list& sets, const std::vector<Index>& top,
                  const std::string& layer, bool keep_seen) {
  run::EvaluateOptions options;
  options.sets = sets_of(sets);
  options.top = top;
  options.layer = layer;
  options.seen = keep_seen ? SeenUnits::keep : SeenUnits::leave_out;
  SignalCheck check;
  options.on_batch = [&](Index, Index) { check(); };
  return dictionary_of(model.with([&](run::Model& m) { return run::evaluate(m, options); }).model);
}

}  // namespace

void add_evaluation(nb::module_& m) {
  m.def("evaluate", &evaluate, "model"_a, "sets"_a, "top"_a, "layer"_a = "", "keep_seen"_a = false,
        "The metrics of lists of these lengths.");
  m.def("metric_names", &metric_names, "Metrics that there are.");
}

}  // namespace norn::python
