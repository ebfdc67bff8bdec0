// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/memory_plan.h"
#include "norn/nn/descriptor.h"
#include "tools/cdl/command_file_options.h"
#include "tools/common/program.h"
#include "tools/common/run_options.h"
#include "tools/training/rate_options.h"
#include "tools/training/run_record.h"
#include "tools/training/validation_options.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The trainer's options.
namespace norn::tools {

struct TrainerOptions {
  std::filesystem::path cdl;  ///< DSSTNE's command file, whose settings stand in the members below
  CommandKind command = CommandKind::train;
  std::vector<std::string> cdl_notes;  ///< remarks on it
  std::filesystem::path config;
  std::string recipe;         ///< instead of a descriptor; empty: none
  bool print_recipe = false;  ///< print the descriptor of the run, and nothing else
  std::vector<std::filesystem::path> inputs;
  std::vector<std::filesystem::path> outputs;
  std::filesystem::path model;
  std::string dataset_name;  ///< DSSTNE's -d, without effect there too

  // Not given: the descriptor's "Training" block, or the built-in defaults.
  std::optional<Index> batch;
  std::optional<Index> epochs;
  std::optional<Index> last_epoch;
  std::optional<float> rate;
  std::optional<float> lambda;
  std::optional<float> lambda1;
  std::optional<float> mu;
  std::optional<float> mu1;
  std::string optimizer;
  std::optional<std::uint64_t> seed;
  std::string shuffle;  ///< "yes", "no"; empty: the descriptor's

  std::string resume;  ///< empty: no; "auto": the newest checkpoint; else a file
  bool force = false;
  Index checkpoint_epochs = 10;
  double checkpoint_minutes = 0.0;
  int keep = 3;
  std::filesystem::path checkpoint_name;  ///< empty: checkpoints are named after the model
  std::filesystem::path run_dir;          ///< empty: nothing is recorded
  std::filesystem::path repeat;           ///< run.json of a run to make again; empty: none
  std::vector<std::string> called_as;     ///< as the program was called
  Index verify = 0;
  bool trust_index = false;
  std::string data_memory = "8G";
  std::string data_on_gpu = "auto";
  bool plan = false;
  std::optional<int> plan_ranks;  ///< instead of those of the run
  std::optional<int> plan_nodes;
  std::filesystem::path machine;  ///< empty: none is named
  std::string plan_format = "table";
  bool doctor = false;
  std::string doctor_format = "table";
  RateOptions schedule;
  ValidationOptions validation;
  RunOptions run;

  void add_to(CommandLine& line);
  /// Throws UsageError for values that no run can have.
  void check() const;
  /// The same, told by the command line beside what else is wrong with it.
  void check(OptionFaults& faults) const;
  DataOnGpu data_place() const;
  /// Whether the run's data and origin are to be read for their checksums.
  bool records() const { return !only_shows() && !(run_dir.empty() && repeat.empty()); }
  /// With --repeat: takes from the record what was not given. Throws UsageError for data that would
  /// be matched in another way.
  void take(const RunRecord& recorded);
  /// The name that those of checkpoints are made of.
  std::filesystem::path checkpoint_base() const;
  /// The same of the part of a run that trains on everything, after validation chose the length.
  std::filesystem::path refit_base() const;
  /// The descriptor is all that the run is for.
  bool only_shows() const { return plan || print_recipe; }
  /// Whether the plan is for a machine that is described, or on several ranks for their links.
  bool plans_machine() const { return plan && (plan_ranks || !machine.empty()); }
  /// Puts the settings that were given into the descriptor; those that have no effect with its
  /// update rule are warned of.
  void apply_to(TrainingDescriptor& training, Console& console) const;

 private:
  void check_plan(OptionFaults& faults) const;
  void check_recipe(OptionFaults& faults) const;
  void check_checkpoint_name(OptionFaults& faults) const;
};

/// "8G", "512M", "1.5T", "1000000": bytes, in powers of 1024. Throws UsageError naming the option.
std::int64_t parse_bytes(const std::string& option, const std::string& text);

CommandLine trainer_command_line(TrainerOptions& options);

}  // namespace norn::tools
