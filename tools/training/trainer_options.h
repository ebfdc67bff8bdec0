// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "src/run/run_record.h"
#include "tools/cdl/command_file_options.h"
#include "tools/common/program.h"
#include "tools/common/run_options.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The trainer's options.
namespace norn::tools {

struct TrainerOptions : run::TrainOptions {
  std::filesystem::path cdl;  ///< DSSTNE's command file, whose settings stand in the members
  CommandKind command = CommandKind::train;
  std::vector<std::string> cdl_notes;  ///< remarks on it
  bool print_recipe = false;           ///< print the descriptor of the run, and nothing else
  std::string dataset_name;            ///< DSSTNE's -d, without effect there too
  bool plan = false;
  bool ops = false;               ///< of the plan, or of the steps of the run
  std::optional<int> plan_ranks;  ///< instead of those of the run
  std::optional<int> plan_nodes;
  std::filesystem::path machine;  ///< empty: none is named
  std::string plan_format = "table";
  bool check_gradients = false;  ///< of a batch, and nothing else
  bool doctor = false;
  std::string doctor_format = "table";
  RunOptions run;
  std::string log_format;              ///< "text", "dsstne"; empty: by the command
  std::vector<std::string> called_as;  ///< words of the command

  void add_to(CommandLine& line);
  /// Throws UsageError for values that no run can have.
  void check() const;
  /// The same, told by the command line beside what else is wrong with it.
  void check(OptionFaults& faults) const;
  /// With --repeat: takes the device and the model's name from the record where they were not
  /// given.
  void take(const run::RunRecord& recorded);
  /// Where none is given: DSSTNE's for commands that are written as for DSSTNE.
  void choose_log_format(const CommandLine& line);
  /// Puts what follows from several options into the members of TrainOptions.
  void settle();
  /// The descriptor is all that the run is for.
  bool only_shows() const { return plan || print_recipe; }
  /// Whether the plan is for a machine that is described, or on several ranks for their links.
  bool plans_machine() const { return plan && (plan_ranks || !machine.empty()); }

 private:
  void check_plan(OptionFaults& faults) const;
};

CommandLine trainer_command_line(TrainerOptions& options);

}  // namespace norn::tools
