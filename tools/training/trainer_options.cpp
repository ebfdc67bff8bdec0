// SPDX-License-Identifier: Apache-2.0
// The trainer's options and how they change a descriptor.
#include "tools/training/trainer_options.h"

#include "src/base/text.h"
#include "src/nn/recipe.h"
#include "src/run/train_settings.h"
#include "tools/common/setting_names.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr int kMostRanks = 1 << 20;  // that a plan is made for

void add_data_options(TrainerOptions& options, CommandLine& line) {
  line.section("Network, data and model", true);
  // First of all, so that the others are set after it and win.
  Option& cdl =
      line.option("--cdl", "", "FILE", options.cdl,
                  "do what a command file of DSSTNE says (docs/user/dsstne_compatibility.md); "
                  "the options beside it win over the file");
  cdl.stands_alone = true;
  cdl.may_differ = false;
  cdl.set = [&options](const std::string& file) { read_commands(file, options); };
  Option& config =
      line.option("--config", "-c", "FILE", options.config,
                  "network descriptor (JSON), or a model (.nc) to go on from with its weights");
  config.required = true;
  config.may_differ = false;
  Option& recipe = line.choice(
      "--recipe", "", run_recipe_names(), options.recipe,
      "instead of --config: a network whose size, rate, length and the rest follow from the data; "
      "auto: a few of them are measured on held-back entries, and the best is trained on "
      "everything (docs/user/recipes.md)");
  recipe.spares = "--config";
  recipe.may_differ = false;
  Option& print = line.toggle("--print-recipe", "", options.print_recipe,
                              "print the complete descriptor that would be trained, for --config, "
                              "and exit");
  print.spares = "--model";
  Option& input =
      line.option("--input", "-i", "FILE", options.inputs, "NetCDF data sets of the input layers");
  input.required = true;
  input.set = files_of_line(options.inputs);
  line.option("--output-data", "-o", "FILE", options.outputs,
              "NetCDF data sets of the output layers; without it those of --input");
  line.option("--model", "-n", "FILE", options.model,
              "where the trained model goes; must not exist yet, except with --force or --resume")
      .required = true;
  line.option("--dataset-name", "-d", "NAME", options.dataset_name,
              "accepted for DSSTNE's scripts and without effect: the descriptor names data sets")
      .for_trials = true;
  add_trust_index(line, options.trust_index);
  line.size("--data-memory", options.memory_bytes,
            "data sets that take more are read from their files batch by batch; the results are "
            "the same")
      .for_trials = true;
  line.choice("--data-on-gpu", "",
              {{"auto", DataOnGpu::automatic}, {"yes", DataOnGpu::yes}, {"no", DataOnGpu::no}},
              options.data_place,
              "copy the data sets to the GPU once and gather batches there, the results being the "
              "same; auto: where they fit beside everything else")
      .for_trials = true;
}

// DSSTNE's spellings, which the library does not know.
std::string flag_of(const std::string& setting) {
  if (setting == "batch") return "-b";
  if (setting == "epochs") return "-e";
  if (setting == "rate") return "-alpha";
  for (const char* same : {"lambda", "lambda1", "mu", "mu1"})
    if (setting == same) return fmt::format("-{}", same);
  return {};
}

Option& add_setting(const run::TrainSetting& setting, run::TrainOptions& options,
                    CommandLine& line) {
  std::string name = "--" + setting.name;
  std::ranges::replace(name, '_', '-');
  const std::string help = with_options(setting.help);
  return std::visit(
      [&]<typename T>(T* member) -> Option& {
        if constexpr (std::is_same_v<T, bool>)
          return line.toggle(name, "", *member, help);
        else if constexpr (std::is_same_v<T, std::string>)
          if (!setting.words.empty()) return line.choice(name, "", setting.words, *member, help);
        if constexpr (!std::is_same_v<T, bool>)
          return line.option(name, flag_of(setting.name), setting.value, *member, help);
      },
      setting.member(options));
}

void add_settings(run::TrainOptions& options, CommandLine& line) {
  for (const run::TrainSettings& group : run::train_settings()) {
    line.section(group.title);
    for (const run::TrainSetting& setting : group.settings) {
      Option& option = add_setting(setting, options, line);
      if (!setting.default_text.empty()) option.default_text = with_options(setting.default_text);
      option.bare_value = setting.bare_value;
      option.may_differ = setting.may_differ;
      option.for_trials = setting.for_trials;
    }
  }
}

void add_run_options(TrainerOptions& options, CommandLine& line) {
  Option& resume = line.option("--resume", "", "FILE", options.resume,
                               "go on from this checkpoint; without a file, or with auto, from "
                               "the newest of --model that is whole, or from the start when there "
                               "is none yet");
  resume.bare_value = "auto";
  line.section("Records", true);
  line.option("--run-dir", "", "FOLDER", options.run_dir,
              "record the run there: log.jsonl with its events, a line each, run.json, enough to "
              "repeat it, and events for TensorBoard; docs/user/run_folder.md");
  line.toggle("--validation-values", "", options.validation_values,
              "with --run-dir: write there what each held-out example has of the watched metric by "
              "the model that is kept, which evaluator --compare-runs reads");
  Option& log_format =
      line.choice("--log-format", "", {"text", "dsstne"}, options.log_format,
                  "the line an epoch on stdout: text, for people; dsstne, which scripts of "
                  "DSSTNE's users read (docs/user/dsstne_compatibility.md)");
  log_format.default_text = "text; dsstne with --cdl, -d, -alpha, -lambda, -lambda1, -mu or -mu1";
  Option& repeat = line.option(
      "--repeat", "", "FILE", options.repeat,
      "make the run again that this run.json records: the same settings and data, the same "
      "bytes of the model, on any number of ranks; give another --model, and --run-dir, "
      "--input or --output-data where files have moved");
  repeat.stands_alone = true;
  repeat.makes_again = true;
  line.section("Planning", true);
  line.toggle("--plan", "", options.plan,
              "print layers, memory and the predicted time of a step, and exit");
  line.toggle("--ops", "", options.ops,
              "with --plan: each op of a step too, with its work, what ranks exchange in it and "
              "its arrays; without: measure the ops of the run, and print at its end what each "
              "took beside what was planned");
  line.option(
      "--ranks", "", "N", options.plan_ranks,
      "with --plan: predict for so many ranks of a machine, stage by stage; neither they nor "
      "a GPU need be at hand");
  line.option("--nodes", "", "N", options.plan_nodes,
              "with --plan: nodes that the ranks stand on; without it as many as they fill");
  line.option("--machine", "", "FILE", options.machine,
              "with --plan: description of the machine (docs/user/machines.md), such as "
              "configs/machines/h200.json, which is also what --ranks takes without it");
  line.choice("--plan-format", "", {"table", "json"}, options.plan_format,
              "of a plan with --ranks or --machine on stdout");
}

void add_doctor_options(TrainerOptions& options, CommandLine& line) {
  line.section("Checking", true);
  line.toggle("--check-gradients", "", options.check_gradients,
              "compare gradients of the first batch with differences of its cost, on the CPU, "
              "print a table, and exit: 0, or 1 when one is wrong")
      .spares = "--model";
  line.toggle("--doctor", "", options.doctor,
              "check what makes training slow or wrong on this machine, say what to do, and exit: "
              "0, or 4 when there is a problem; needs no network or data, takes about 10 seconds, "
              "and changes nothing (docs/user/doctor.md)")
      .stands_alone = true;
  line.choice("--doctor-format", "", {"table", "json"}, options.doctor_format,
              "of the doctor's report on stdout");
}

}  // namespace

void TrainerOptions::add_to(CommandLine& line) {
  add_data_options(*this, line);
  add_settings(*this, line);
  add_run_options(*this, line);
  add_doctor_options(*this, line);
  run.add_to(line);
}

void TrainerOptions::check_plan(OptionFaults& faults) const {
  const auto only_with = [&](bool given, const char* option, bool other, const char* instead) {
    if (given && !other) faults.fail(fmt::format("{} {}", option, instead));
  };
  const char* with_plan = "belongs to --plan; give that too, or leave it out";
  only_with(plan_ranks.has_value(), "--ranks", plan,
            "plans for ranks that are not there: give --plan too; to train on several ranks start "
            "the trainer with mpirun -n N");
  only_with(plan_nodes.has_value(), "--nodes", plan, with_plan);
  only_with(!machine.empty(), "--machine", plan, with_plan);
  only_with(plan_format != "table", "--plan-format json", plan, with_plan);
  const bool elsewhere = !plan || plans_machine();
  only_with(plan_format != "table", "--plan-format json", elsewhere,
            "is for plans of a machine; give --ranks or --machine too");
  only_with(plan_nodes.has_value(), "--nodes", elsewhere,
            "is for plans of a machine; give --ranks or --machine too");
  for (const auto& [option, value] : {std::pair{"--ranks", plan_ranks}, {"--nodes", plan_nodes}})
    if (value)
      faults.require_range(*value >= 1 && *value <= kMostRanks, option, *value,
                           fmt::format("from 1 to {}", kMostRanks));
  if (plan && plan_ranks && machine.empty() && run.device == "cpu")
    faults.fail(
        "--ranks with --device cpu needs --machine: without it the plan is for NVIDIA H200; "
        "describe your nodes as configs/machines/cpu_cluster.json does");
}

void TrainerOptions::take(const run::RunRecord& recorded) {
  if (model.empty()) model = recorded.facts.model;
  if (!run.device_given) run.device = recorded.facts.device;
  if (!run.precision_given) run.precision = recorded.facts.precision;
}

void TrainerOptions::choose_log_format(const CommandLine& line) {
  if (!log_format.empty()) return;
  const bool as_dsstne = !cdl.empty() || !dataset_name.empty() || line.has_dsstnes_flag(called_as);
  log_format = as_dsstne ? "dsstne" : "text";
}

void TrainerOptions::settle() {
  batch_may_shrink = !cdl.empty();
  device = run.device_choice();
}

void TrainerOptions::check() const {
  OptionFaults faults;
  check(faults);
  faults.throw_any();
}

void TrainerOptions::check(OptionFaults& faults) const {
  const TrainOptions& given = *this;
  TrainOptions settings = given;  // what the library is asked for
  if (!recipe.empty() && !cdl.empty()) {
    faults.fail("--recipe does not go with --cdl, whose file names a network; give one of them");
    settings.recipe.clear();
  }
  settings.check(faults);
  run.check(faults);
  check_plan(faults);
  if (print_recipe && plan)
    faults.fail("--print-recipe prints a descriptor and --plan a plan: give one of the two");
  if (check_gradients && (only_shows() || !repeat.empty()))
    faults.fail(
        fmt::format("--check-gradients trains nothing and prints a table: give it without {}",
                    plan           ? "--plan"
                    : print_recipe ? "--print-recipe"
                                   : "--repeat"));
  if (doctor_format != "table" && !doctor)
    faults.fail("--doctor-format json belongs to --doctor; give that too, or leave it out");
  if (doctor && plan)
    faults.fail("--doctor looks at the machine and --plan at a network: give one of the two");
}

CommandLine trainer_command_line(TrainerOptions& options) {
  CommandLine line("trainer", "trains a network described in JSON on NetCDF data sets",
                   "trainer -c network.json -i input.nc -o output.nc -n model.nc [options]");
  options.add_to(line);
  line.checks([&options](OptionFaults& faults) { options.check(faults); });
  line.example("trainer -c configs/quickstart.json -i train.nc -o train.nc -n model.nc",
               "Train with the settings of the descriptor");
  line.example("trainer --cdl train.cdl", "As DSSTNE's encoder, with its command file");
  line.example("trainer -c config.json -i gl_input.nc -o gl_output.nc -n gl.nc -b 256 -e 10",
               "As DSSTNE's train");
  line.example(
      "trainer -c net.json -i train.nc -n model.nc --optimizer Adam --rate 0.001 --epochs 60",
      "Other settings than the descriptor's");
  line.example("trainer -c net.json -i train.nc -n model.nc --plan",
               "See memory and time of a step before training");
  line.example(
      "trainer -c net.json -i train.nc -n model.nc --plan --ranks 64 --nodes 8 --precision bf16",
      "What 64 H200 would do, and at which number of ranks more of them stop paying");
  line.example("trainer -c net.json -i train.nc -n model.nc --resume",
               "A job that may be stopped and started again: goes on where it was");
  line.example("mpirun -n 4 --bind-to none trainer --doctor --model /data/model.nc",
               "See what would slow this machine, its GPUs, ranks and disk down");
  line.example(
      "trainer -c net.json -i train.nc -n model.nc --validation-split 0.1 --early-stop ndcg@20",
      "Validate on a tenth of the examples, stop in time, and keep the best model");
  line.example("trainer --repeat runs/first/run.json --model again.nc",
               "The run again that --run-dir runs/first recorded: the same bytes");
  line.example("mpirun -n 4 trainer -c net.json -i train.nc -n model.nc --threads 4",
               "On four ranks; the model has the same bits as on one");
  line.remark(
      "SIGUSR1, SIGTERM, SIGINT and SIGHUP (a closed terminal, but for nohup) stop the run after "
      "the "
      "current step: a checkpoint is written beside --model and the exit code is 75; the same "
      "command with --resume goes on as if it had never been stopped. Under mpirun use SIGUSR1, "
      "because mpirun kills its ranks about a second "
      "after SIGTERM. A second SIGINT ends at once.");
  line.remark(
      "On stdout stands one line an epoch, with --quiet none; costs are means over examples, "
      "summed over units. "
      "Everything else goes to stderr. Scripts read --run-dir's log.jsonl, not these lines.");
  return line;
}

}  // namespace norn::tools
