// SPDX-License-Identifier: Apache-2.0
// Settings: the engine's table for Python, and from Python's values to options.
#include "python/src/settings.h"

#include "kernels/precisions.h"
#include "norn/base/error.h"
#include "python/src/data.h"
#include "python/src/parts.h"
#include "python/src/session.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/run/train_settings.h"

#include <filesystem>
#include <limits>
#include <type_traits>
#include <variant>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

template <typename T>
struct Plain {
  using type = T;
};
template <typename T>
struct Plain<std::optional<T>> {
  using type = T;
};

// "int", "float", "bool", "str", "path", "paths".
const char* kind_of(const run::SettingMember& where) {
  return std::visit(
      [](const auto* member) {
        using T = typename Plain<std::remove_cvref_t<decltype(*member)>>::type;
        if constexpr (std::is_same_v<T, bool>) return "bool";
        if constexpr (std::is_integral_v<T>) return "int";
        if constexpr (std::is_floating_point_v<T>) return "float";
        if constexpr (std::is_same_v<T, std::string>) return "str";
        return std::is_same_v<T, std::filesystem::path> ? "path" : "paths";
      },
      where);
}

// Throws UsageError for an integer that the setting cannot hold.
template <typename T>
T integer_of(const std::string& name, const nb::handle& value) {
  T number{};
  if (!nb::try_cast<T>(value, number))
    throw UsageError(fmt::format("`{}` {} is out of range: it must be from {} to {}", name,
                                 nb::repr(value).c_str(), std::numeric_limits<T>::min(),
                                 std::numeric_limits<T>::max()));
  return number;
}

void put(const run::SettingMember& where, const std::string& name, const nb::handle& value) {
  std::visit(
      [&](auto* member) {
        using T = typename Plain<std::remove_cvref_t<decltype(*member)>>::type;
        if constexpr (std::is_same_v<T, float>)
          *member = float(nb::cast<double>(value));
        else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
          *member = integer_of<T>(name, value);
        else
          *member = nb::cast<T>(value);
      },
      where);
}

nb::list settings_table() {
  nb::list all;
  run::TrainOptions options;
  for (const run::TrainSettings& group : run::train_settings())
    for (const run::TrainSetting& setting : group.settings) {
      nb::dict one;
      one["name"] = setting.name;
      one["kind"] = kind_of(setting.member(options));
      one["value"] = setting.value;
      one["group"] = group.title;
      one["help"] = setting.help;
      one["default"] = setting.default_text;
      one["words"] = setting.words;
      one["bare_value"] = setting.bare_value;
      one["key"] = setting.key;
      one["for_trials"] = setting.for_trials;
      all.append(one);
    }
  return all;
}

bool put_setting(run::TrainOptions& options, const std::string& name, const nb::handle& value) {
  for (const run::TrainSettings& group : run::train_settings())
    for (const run::TrainSetting& setting : group.settings)
      if (setting.name == name) {
        put(setting.member(options), name, value);
        return true;
      }
  return false;
}

struct Device {
  std::string kind = "auto", precision = "tf32";
  int threads = 0;
};

bool put_device(Device& device, const std::string& name, const nb::handle& value) {
  if (name == "device") device.kind = nb::cast<std::string>(value);
  if (name == "precision") device.precision = nb::cast<std::string>(value);
  if (name == "threads") device.threads = integer_of<int>(name, value);
  return name == "device" || name == "precision" || name == "threads";
}

// What the table does not hold.
bool put_other(run::TrainOptions& options, const std::string& name, const nb::handle& value) {
  const auto take = [&](auto& member) {
    member = nb::cast<std::remove_cvref_t<decltype(member)>>(value);
    return true;
  };
  if (name == "config") return take(options.config);
  if (name == "recipe") return take(options.recipe);
  if (name == "network") return take(options.network);
  if (name == "input") return take(options.inputs);
  if (name == "output_data") return take(options.outputs);
  if (name == "model") return take(options.model);
  if (name == "resume") return take(options.resume);
  if (name == "same_run") return take(options.same_run);
  if (name == "other_data") return take(options.other_data);
  if (name == "run_dir") return take(options.run_dir);
  if (name == "memory_bytes") return take(options.memory_bytes);
  if (name == "trust_index") return take(options.trust_index);
  if (name == "sets") options.sets = sets_of(value);
  if (name == "validation_sets") options.validation.sets = sets_of(value);
  return name == "sets" || name == "validation_sets";
}

}  // namespace

DeviceChoice device_of(const std::string& device, int threads, const std::string& precision) {
  DeviceChoice choice;
  if (device == "cpu") {
    choice.kind = DeviceChoice::Kind::cpu;
  } else if (device.starts_with("cuda")) {
    choice.kind = DeviceChoice::Kind::cuda;
    const long long number =
        device.starts_with("cuda:") ? parse_integer(device.substr(5)).value_or(-1) : -1;
    if (device != "cuda" && (number < 0 || number > std::numeric_limits<int>::max()))
      throw UsageError(fmt::format(
          "`device` {}: after cuda: comes the number of a GPU, such as cuda:0", device));
    if (number >= 0) choice.gpu = int(number);
  } else if (device != "auto") {
    throw UsageError(fmt::format(
        "`device` {}: there is no such device; choose of: auto, cpu, cuda, cuda:0", device));
  }
  if (threads < 0)
    throw UsageError(fmt::format("`threads` {} is out of range: it must be at least 0", threads));
  choice.threads = threads;
  const auto named = precision_named(precision);
  if (!named)
    throw UsageError(fmt::format("`precision` {}: there is no such choice; choose of: {}",
                                 precision, join(precision_names())));
  choice.gpu_options.precision = *named;
  return choice;
}

run::TrainOptions train_options_of(const nb::dict& settings) {
  run::TrainOptions options;
  Device device;
  for (const auto [key, value] : settings) {
    const std::string name = nb::cast<std::string>(key);
    try {
      if (!put_setting(options, name, value) && !put_device(device, name, value) &&
          !put_other(options, name, value))
        throw UsageError(fmt::format("`{}`: there is no such setting", name));
    } catch (const nb::cast_error&) {
      throw UsageError(fmt::format("`{}` {} is out of range, or of another type than expected",
                                   name, nb::repr(value).c_str()));
    }
  }
  options.device = device_of(device.kind, device.threads, device.precision);
  options.ranks = world();
  return options;
}

std::string read_network(const std::filesystem::path& config, const std::string& network) {
  // What a recipe fills in waits for the data.
  const RecipeSource any{[](const auto&, const auto&) { return RecipeFacts(); }, {}};
  const NetworkDescriptor parsed = network.empty()
                                       ? read_network_json(config, {}, &any)
                                       : parse_network_json(network, "network", {}, &any);
  return to_json(parsed);
}

void add_settings(nb::module_& m) {
  m.def("settings_table", &settings_table,
        "The engine's table: a dictionary for each setting of a run.");
  m.def("read_network", &read_network, "config"_a = "", "network"_a = "",
        "The descriptor of a file or a text, complete, as JSON. Raises UsageError with problems.");
  m.def("recipe_names", &recipe_names, "Recipes that there are.");
}

}  // namespace norn::python
