// SPDX-License-Identifier: Apache-2.0
// Models of arrays, in Python.
#include "norn/run/from_parameters.h"

#include "python/src/data.h"
#include "python/src/model.h"
#include "python/src/parts.h"
#include "python/src/session.h"
#include "python/src/settings.h"

#include <memory>
#include <string>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

using Array = nb::ndarray<const float, nb::device::cpu>;

std::vector<run::Parameter> parameters_of(const nb::dict& arrays) {
  std::vector<run::Parameter> parameters;
  for (const auto& [name, value] : arrays) {
    const auto array = nb::cast<Array>(value, false);
    run::Parameter parameter;
    parameter.name = nb::cast<std::string>(name);
    for (std::size_t d = 0; d < array.ndim(); ++d) {
      parameter.extent.push_back(Index(array.shape(d)));
      parameter.stride.push_back(Index(array.stride(d)));
    }
    parameter.data = array.data();
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::unique_ptr<HeldModel> from_parameters(const std::string& network, const nb::dict& parameters,
                                           const nb::dict& labels, const std::string& device,
                                           int threads, const std::string& precision, Index batch) {
  run::ModelParts parts{network, parameters_of(parameters), {}};
  for (const auto& [layer, words] : labels)
    parts.unit_labels.emplace(nb::cast<std::string>(layer), nb::cast<Labels&>(words).table());
  const auto log = std::make_shared<LogQueue>();
  run::ModelOptions options{device_of(device, threads, precision), world(), log->log(), batch};
  std::unique_ptr<run::Model> model;
  {
    const nb::gil_scoped_release release;
    model = run::model_from_parameters(parts, std::move(options));
  }
  log->drain();
  return std::make_unique<HeldModel>(std::move(model), log);
}

}  // namespace

void add_from_parameters(nb::module_& m) {
  m.def("canonical_network", &run::canonical_network, "network"_a,
        "The descriptor as models hold it, as JSON.");
  m.def("from_parameters", &from_parameters, "network"_a, "parameters"_a, "labels"_a,
        "device"_a = "auto", "threads"_a = 0, "precision"_a = "tf32", "batch"_a = 1024,
        "The model of a descriptor, of arrays of float32 by name, and of Labels by layer.");
}

}  // namespace norn::python
