// SPDX-License-Identifier: Apache-2.0
// What a run would be, before it is made.
#include "norn/run/plan.h"

#include "python/src/log_queue.h"
#include "python/src/parts.h"
#include "python/src/settings.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

// Without the GIL, with the messages on their way to Python.
template <typename Call>
auto planned(const nb::dict& settings, const Call& call) {
  const auto log = std::make_shared<LogQueue>();
  run::TrainOptions options = train_options_of(settings);
  options.log = log->log();
  const auto result = [&] {
    const nb::gil_scoped_release release;
    return call(options);
  }();
  log->drain();
  return result;
}

nb::dict plan(const nb::dict& settings) {
  const run::RunPlan plan =
      planned(settings, [](const run::TrainOptions& options) { return run::plan(options); });
  nb::dict all;
  all["weights"] = plan.weights;
  all["memory_bytes"] = plan.memory_bytes;
  all["available_bytes"] = plan.available_bytes;
  all["fits"] = plan.fits();
  return all;
}

std::string effective_descriptor(const nb::dict& settings) {
  return planned(settings, [](const run::TrainOptions& options) {
    return run::effective_descriptor(options);
  });
}

}  // namespace

void add_plan(nb::module_& m) {
  m.def("plan", &plan, "settings"_a, "Weights and memory of a run.");
  m.def("effective_descriptor", &effective_descriptor, "settings"_a,
        "The complete descriptor of a run, as JSON.");
}

}  // namespace norn::python
