// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/json_value.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace norn {
class Network;
struct PlanSettings;
}  // namespace norn

/// How Norn's own programs take part in recording a run.
namespace norn::run {

/// Takes the events of a run's log as they are written (docs/user/run_folder.md).
using EventSink = std::function<void(const JsonValue& event)>;

/// What a record says of the program that trains, and whoever else takes part in recording.
struct Recorder {
  std::string version;                       ///< empty: the library's
  JsonValue versions = JsonValue::object();  ///< of libraries, by name
  std::vector<std::string> called_as;        ///< words of the command
  /// Opens a sink beside the log of a run that goes on after so many steps. `trouble` is to be told
  /// what cannot be written.
  std::function<EventSink(const std::filesystem::path& folder, std::int64_t steps_done,
                          const std::function<void(const std::string&)>& trouble)>
      open_sink;
  /// Not null: ops are measured, and every rank calls it when the steps of a run have been made.
  /// What it returns on rank 0 is recorded as `ops`, unless it is null.
  std::function<JsonValue(Network& network, const PlanSettings& settings)> on_ops;
  /// Not null: set to what records a failure once there is a record, for a program of several ranks
  /// of which one tells. Null: a failure is recorded by the rank that it strikes.
  std::function<void(const std::string& message, int exit_code)>* record_failure = nullptr;
};

}  // namespace norn::run
