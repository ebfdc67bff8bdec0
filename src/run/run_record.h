// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"
#include "src/run/run_events.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// run.json: what a run was made of, enough to repeat it; docs/user/run_folder.md.
namespace norn::run {

struct DataSetRecord {
  std::string name;
  std::filesystem::path file;  ///< absolute; empty: in memory
  Index examples = 0;
  Index width = 0;
  RowOffset entries = 0;
  std::string checksum;  ///< of its contents
};

/// Reads all data sets once, for their checksums. Before they are moved to a GPU.
std::vector<DataSetRecord> record_sets(const DataBinding& data);

/// Where a run began.
struct OriginRecord {
  /// Initial weights of a descriptor or of a recipe, a model's weights, or a checkpoint of another
  /// run.
  enum class From { descriptor, recipe, weights, checkpoint };
  From from = From::descriptor;
  std::filesystem::path file;  ///< absolute; of a recipe its name
  std::string checksum;        ///< of the file; of a descriptor none: it is in the record

  bool has_file_of_weights() const { return from == From::weights || from == From::checkpoint; }
};

struct RunRecord {
  RunFacts facts;  ///< the model's path is absolute
  std::string started;
  std::string binary;  ///< checksum of the program
  JsonValue versions = JsonValue::object();
  std::vector<std::string> command;
  std::filesystem::path folder;  ///< where it was started
  std::string host;
  OriginRecord origin;
  std::filesystem::path checkpoints;  ///< absolute; what they are named after; not in the file
  std::vector<std::filesystem::path> inputs;   ///< absolute
  std::vector<std::filesystem::path> outputs;  ///< absolute
  std::vector<std::filesystem::path> validation_inputs;
  std::vector<std::filesystem::path> validation_outputs;
  std::optional<bool>
      trust_index;  ///< TrainOptions::trust_index; nothing in records of older versions
  std::vector<DataSetRecord> sets;             ///< those trained on
  std::vector<DataSetRecord> validation_sets;  ///< of files of their own
  std::string network;                         ///< effective descriptor, JSON
  JsonValue chosen;                            ///< Network::chosen(), or null
  JsonValue plan;
  JsonValue ops;     ///< what each op of a step took beside its plan; null: not measured
  JsonValue result;  ///< null until the run has ended
};

std::string run_record_json(const RunRecord& record);

/// Throws UsageError naming file and member when it is not what run_record_json writes.
RunRecord read_run_record(const std::filesystem::path& file);

/// The checksum of the running program's file and of the library's that it has loaded; empty where
/// they cannot be read.
std::string binary_checksum();

}  // namespace norn::run
