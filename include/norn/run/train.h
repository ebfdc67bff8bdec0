// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/memory_set.h"
#include "norn/engine/device_choice.h"
#include "norn/engine/training_report.h"
#include "norn/run/model.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Training as a program does it: from a descriptor and data to a model, with validation,
/// checkpoints, resuming and records. docs/user/library.md shows it.
///
/// Messages name settings as `batch` and `validation_split`, in backquotes: the members below, with
/// `input`, `output_data`, `validation_input` and `validation_output` for data sets.
namespace norn {
class OptionFaults;
struct TrainingDescriptor;
}  // namespace norn

namespace norn::run {

/// How the learning rate changes, and clipping. What is not set is the descriptor's.
struct RateSettings {
  std::string kind;  ///< "constant", "step", "cosine", "plateau"; empty: the descriptor's
  std::optional<float> warm_up;
  std::optional<Index> interval;
  std::optional<float> multiplier;
  std::optional<Index> patience;
  std::optional<float> minimum;
  std::optional<float> clip_gradient;
};

/// Validating while training, with data of their own or a part of the training data.
struct ValidationSettings {
  std::vector<std::filesystem::path> inputs;
  std::vector<std::filesystem::path> outputs;  ///< none: those of `inputs`
  std::vector<MemorySet> sets;

  // What is not set is the descriptor's.
  std::optional<float> split;
  std::string by;  ///< "user", "entry"
  std::optional<std::uint64_t> seed;
  std::optional<Index> every;
  std::string metrics_at;  ///< "10,20,100"
  std::string early_stop;  ///< "ndcg@20", "loss"; "none": not by the descriptor's
  std::string keep_best;   ///< the same; "auto": by the metric that is watched anyway
  std::optional<Index> patience;
  std::optional<float> min_delta;
  std::optional<float> stop_from;
  bool refit = false;  ///< of the run as a whole

  bool has_data() const { return !inputs.empty() || !sets.empty(); }
};

struct Recorder;

struct TrainOptions {
  // The network: one of the three.
  std::filesystem::path config;  ///< descriptor (JSON), or a model to go on from
  std::string recipe;            ///< name of a recipe; "auto": measurements choose one
  std::string network;           ///< the text of a descriptor

  /// Of `recipe` "auto": what its search and the training of what it chose may cost together, in
  /// trainings of the recipe "sigmoid"; 6 where it is not set.
  std::optional<double> budget;

  // The data: files, sets in memory, or both.
  std::vector<std::filesystem::path> inputs;
  std::vector<std::filesystem::path> outputs;  ///< none: those of `inputs`
  std::vector<MemorySet> sets;
  std::int64_t memory_bytes = std::int64_t(8) << 30;  ///< files of more are read batch by batch
  DataOnGpu data_place = DataOnGpu::automatic;
  bool trust_index =
      false;  ///< takes unit u of the data for unit u of a model, whatever labels say

  std::filesystem::path model;  ///< where the model goes; empty: it is returned alone

  // What is not set is the descriptor's, or the built-in default.
  std::optional<Index> batch;
  bool batch_may_shrink = false;  ///< to the examples of the data, though `batch` is set
  std::optional<Index> epochs;
  std::optional<Index> last_epoch;
  std::optional<float> rate;
  std::optional<float> lambda;
  std::optional<float> lambda1;
  std::string optimizer;
  std::map<std::string, std::optional<float>> rule;  ///< its parameters: rule["Mu"], rule["Mu1"]
  std::optional<std::uint64_t> seed;
  std::string shuffle;  ///< "yes", "no"; empty: the descriptor's
  /// What values of targets are: "none", or their weights by "value", "linear" or "log", in all
  /// output layers; empty: the descriptor's.
  std::string entry_weights;
  std::optional<float> entry_alpha;
  std::optional<float> entry_epsilon;
  /// The data set with the features of the units of all Output layers: JSON's "Features"; empty:
  /// the descriptor's.
  std::string item_features;
  RateSettings schedule;
  ValidationSettings validation;

  std::string resume;  ///< empty: no; "auto": the newest checkpoint; else a file
  /// Nothing is resumed with another network, other settings or other data than the checkpoint's:
  /// UsageError names them. More epochs, and when to end and what to keep, are the same run. False:
  /// warnings of `config` and the data.
  bool same_run = false;
  /// The checkpoint goes on with data that are others on purpose, any number of examples: nothing
  /// is said of that, an epoch that had begun is left, and what validation held back, watched and
  /// chose for the data before does not count.
  bool other_data = false;
  bool force = false;  ///< replaces `model` and its checkpoints
  /// Between two checkpoints; 0: none. Where neither is given they take at most a twentieth of the
  /// time: one is written when 20 times as long has passed as the last one took, and ten seconds.
  std::optional<Index> checkpoint_epochs;
  std::optional<double> checkpoint_minutes;
  int keep = 3;
  std::filesystem::path checkpoint_name;     ///< empty: checkpoints are named after the model
  std::filesystem::path run_dir;             ///< empty: nothing is recorded
  bool validation_values = false;            ///< of each held-out example, into `run_dir`
  std::filesystem::path repeat;              ///< run.json of a run to make again; empty: none
  Index verify = 0;                          ///< every Nth step is computed twice; 0: none
  std::string program = "norn";              ///< that trains, for records
  std::shared_ptr<const Recorder> recorder;  ///< of Norn's own programs; null: none

  DeviceChoice device;
  std::shared_ptr<Communicator> ranks;  ///< of this run; null: one process
  Log log;                              ///< of this rank
  /// Not null: the run stops after the step during which it becomes true on any rank, and a
  /// checkpoint is written where there is a model to resume. An observer may set it.
  const std::atomic<bool>* stop = nullptr;

  /// Throws UsageError for settings that contradict each other or that no run can have, all that
  /// is wrong at once.
  void check() const;
  void check(OptionFaults& faults) const;
  /// Puts what is set into the descriptor; what has no effect with its update rule is warned of.
  void apply_to(TrainingDescriptor& training, const Log& log) const;
  /// Whether the run's data and origin are read for their checksums.
  bool records() const { return !run_dir.empty() || !repeat.empty(); }
  /// What checkpoints are named after.
  std::filesystem::path checkpoint_base() const;
  /// The same of the part of a run that trains on everything, after validation chose the length.
  std::filesystem::path refit_base() const;
};

/// A run of epochs that begins; a run that trains on everything at last has two of them.
struct RunBeginning {
  std::int64_t epochs = 0;
  Index examples = 0;        ///< of an epoch
  Index first_examples = 0;  ///< trained on before this run, when it was resumed
};

/// Whoever wants to know how a run goes. Called on every rank.
struct TrainObserver : TrainingObserver {
  std::function<void(const RunBeginning&)> on_begin;
  std::function<void()> on_end;  ///< also where an error ends it
};

struct TrainResult {
  TrainingEnd end = TrainingEnd::completed;
  std::int64_t step = 0;   ///< updates that the model has had
  std::int64_t epoch = 0;  ///< epochs that it has been trained for; with a metric those of the best
  std::string watched;     ///< what the best model was chosen by, "ndcg@20"; empty: nothing
  double best = 0.0;       ///< its value
  std::string speed;       ///< "1,234 examples in 5.6 s, 220 examples/s"
  std::unique_ptr<Model> model;  ///< on the device that it was trained on
};

/// Trains. Files of `model` are complete or absent. Throws the classes of norn/base/error.h.
TrainResult train(const TrainOptions& options, const TrainObserver& observer = {});

/// Whether the gradients of a run are slopes of its cost.
struct GradientCheck {
  std::vector<CheckedGroup> groups;
  std::vector<std::string> left_out;  ///< of the descriptor: what makes a step more than its slope
  Index wrong() const;                ///< parameters whose gradients are no slopes
};

/// Compares gradients of the first batch with central differences of its cost, on the CPU, for up
/// to `most` parameters of each matrix and of each layer's biases. Weights are those that a run
/// would begin with. For one process: UsageError for several ranks, and for batch normalisation.
GradientCheck check_gradients(const TrainOptions& options, Index most = 200);

/// The complete descriptor that would be trained, as JSON: recipes, names of data sets and settings
/// filled in. Reads what the data are, and no contents.
std::string effective_descriptor(const TrainOptions& options);

}  // namespace norn::run
