// SPDX-License-Identifier: Apache-2.0
// Models in Python.
#include "python/src/model.h"

#include "norn/base/error.h"
#include "python/src/arrays.h"
#include "python/src/data.h"
#include "python/src/parts.h"
#include "python/src/session.h"
#include "python/src/settings.h"
#include "src/run/model_access.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {

// With the GIL.
void HeldModel::come_to_this_process() {
  if (::getpid() == process_ || !model_) return;
  const bool interrupted = in_use_;
  if (interrupted || !run::ModelAccess::survives_fork(*model_))
    throw UsageError(fmt::format(
        "the model belongs to process {}, of which this one is a forked child: {}; load it here, "
        "or start processes by \"spawn\"",
        process_,
        interrupted ? "another thread used it at that moment"
                    : "what is on a GPU or several ranks does not come along"));
  (void)mutex_.release();  // perhaps a thread that is not here waits for it
  mutex_ = std::make_unique<std::mutex>();
  process_ = ::getpid();
}

void HeldModel::require_open() const {
  if (!model_) throw UsageError("the model is closed");
}

void HeldModel::close() {
  if (::getpid() != made_in_) {  // its folder and what it has of a device are its maker's
    (void)model_.release();
    return;
  }
  const nb::gil_scoped_release release;
  const std::lock_guard lock(*mutex_);
  model_.reset();
}

void SignalCheck::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(20)) return;
  last_ = now;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

namespace {

run::ModelOptions options_of(const std::string& device, int threads, const std::string& precision,
                             Index batch, bool trust_index, LogQueue& log) {
  if (batch < 1)
    throw UsageError(fmt::format("`batch` {} is out of range: it must be at least 1", batch));
  return {device_of(device, threads, precision), world(), log.log(), batch, trust_index};
}

template <typename Open>
std::unique_ptr<HeldModel> opened(const Open& open, const std::shared_ptr<LogQueue>& log) {
  std::unique_ptr<run::Model> model;
  {
    const nb::gil_scoped_release release;
    model = open();
  }
  log->drain();
  return std::make_unique<HeldModel>(std::move(model), log);
}

std::unique_ptr<HeldModel> load(const std::filesystem::path& file, const std::string& device,
                                int threads, const std::string& precision, Index batch,
                                bool trust_index) {
  const auto log = std::make_shared<LogQueue>();
  auto options = options_of(device, threads, precision, batch, trust_index, *log);
  return opened([&] { return std::make_unique<run::Model>(file, std::move(options)); }, log);
}

std::unique_ptr<HeldModel> from_bytes(const nb::bytes& bytes, const std::string& device,
                                      int threads, const std::string& precision, Index batch,
                                      bool trust_index) {
  const auto log = std::make_shared<LogQueue>();
  auto options = options_of(device, threads, precision, batch, trust_index, *log);
  const std::string_view view(bytes.c_str(), bytes.size());
  return opened([&] { return run::Model::from_bytes(view, std::move(options)); }, log);
}

// A view of NumPy that keeps what it views; nobody may write into it.
nb::object view_of(const run::Parameter& parameter) {
  std::vector<std::size_t> shape(parameter.extent.begin(), parameter.extent.end());
  std::vector<std::int64_t> strides(parameter.stride.begin(), parameter.stride.end());
  struct Owner {
    std::shared_ptr<const void> parameter;
    ::pid_t process = ::getpid();
  };
  const auto free = [](void* p) noexcept {
    auto* const owner = static_cast<Owner*>(p);
    if (owner->process != ::getpid()) return;  // a network whose threads are of another process
    delete owner;
  };
  const nb::capsule owner(new Owner{parameter.owner}, free);
  return nb::cast(nb::ndarray<nb::numpy, const float>(parameter.data, shape.size(), shape.data(),
                                                      owner, strides.data()));
}

nb::dict parameters(HeldModel& model) {
  const auto all = model.with([](run::Model& m) { return m.parameters(); });
  nb::dict by_name;
  for (const run::Parameter& parameter : all)
    by_name[nb::cast(parameter.name)] = view_of(parameter);
  return by_name;
}

// A copy, as what csr_matrix of SciPy takes; None for a layer without features.
nb::object features(HeldModel& model, const std::string& layer) {
  const auto table = model.with([&](run::Model& held) -> std::shared_ptr<const FeatureTable> {
    const auto& layers = run::ModelAccess::info(held).network.layers;
    const auto found = std::ranges::find(layers, layer, &LayerDescriptor::name);
    return found == layers.end() ? nullptr : found->feature_table;
  });
  if (!table) return nb::none();
  const auto array = [](auto values) {
    const std::size_t count = values.size();
    return array_of(std::move(values), {count});
  };
  std::vector<float> value = table->value;
  if (value.empty()) value.assign(table->column.size(), 1.0f);
  return nb::make_tuple(
      array(std::move(value)),
      array(std::vector<std::int64_t>(table->column.begin(), table->column.end())),
      array(std::vector<std::int64_t>(table->row_begin.begin(), table->row_begin.end())),
      table->features);
}

}  // namespace

void add_model(nb::module_& m) {
  nb::class_<HeldModel>(m, "Model", "A trained network in memory.")
      .def_static("load", &load, "file"_a, "device"_a = "auto", "threads"_a = 0,
                  "precision"_a = "tf32", "batch"_a = 1024, "trust_index"_a = false)
      .def_static("from_bytes", &from_bytes, "bytes"_a, "device"_a = "auto", "threads"_a = 0,
                  "precision"_a = "tf32", "batch"_a = 1024, "trust_index"_a = false)
      .def("network",
           [](HeldModel& self) {
             return self.with([](run::Model& held) { return held.network(); });
           })
      .def(
          "labels",
          [](HeldModel& self, const std::string& layer) -> nb::object {
            const LabelTable table =
                self.with([&](run::Model& held) { return held.unit_labels(layer); });
            return table.known() ? nb::cast(Labels(table)) : nb::none();
          },
          "layer"_a)
      .def(
          "save",
          [](HeldModel& self, const std::filesystem::path& file) {
            self.with([&](run::Model& held) { held.save(file); });
          },
          "file"_a)
      .def("bytes",
           [](HeldModel& self) {
             const std::string bytes = self.with([](run::Model& held) { return held.bytes(); });
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "epochs",
          [](HeldModel& self) {
            return self.with(
                [](run::Model& held) { return run::ModelAccess::info(held).state.epoch; });
          },
          "Epochs that it has been trained for.")
      .def(
          "has_state",
          [](HeldModel& self) {
            return self.with(
                [](run::Model& held) { return run::ModelAccess::info(held).has_training_state; });
          },
          "Whether a training can go on with it, not only with its weights.")
      .def(
          "chosen",
          [](HeldModel& self) { return self.with([](run::Model& held) { return held.chosen(); }); },
          "How a search chose its settings, JSON; empty: none did.")
      .def("parameters", &parameters)
      .def("features", &features, "layer"_a,
           "The features of an Output layer's units: values, columns, row offsets, and how many "
           "features there are; None: it has none.")
      .def("close", &HeldModel::close)
      .def_prop_ro("closed", &HeldModel::is_closed);
}

}  // namespace norn::python
