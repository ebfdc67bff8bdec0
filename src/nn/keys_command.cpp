// SPDX-License-Identifier: Apache-2.0
// The table of keys: DSSTNE's command files.
#include "src/nn/key_builders.h"

namespace norn::keys {
namespace {

Key required(Key key) {
  key.required = true;
  return key;
}

// The path of a file, which may not be empty.
template <typename Access>
Key file_key(std::string name, Access access, std::string help) {
  return text_key(std::move(name), access, std::move(help));
}

std::vector<Key> rate_keys() {
  std::vector<Key> keys;
  keys.push_back(number_key(
      "Alpha", [](auto& d) -> auto& { return d.command.rate; }, above(0), "Learning rate."));
  keys.push_back(integer_key(
      "AlphaInterval", [](auto& d) -> auto& { return d.command.rate_interval; },
      from_to(0, kMostUnits),
      "Epochs after which the learning rate is multiplied by AlphaMultiplier, again and again; 0: "
      "it stays."));
  keys.push_back(number_key(
      "AlphaMultiplier", [](auto& d) -> auto& { return d.command.rate_multiplier; }, above(0),
      "Factor of the learning rate."));
  keys.push_back(by_default(number_key(
                                "mu", [](auto& d) -> auto& { return d.command.mu; },
                                from_to_below(0, 1), std::string(kMu.help)),
                            "0.9"));
  keys.push_back(by_default(number_key(
                                "mu1", [](auto& d) -> auto& { return d.command.mu1; },
                                from_to_below(0, 1), std::string(kMu1.help) + " Norn's own."),
                            "0.999"));
  keys.push_back(number_key(
      "lambda", [](auto& d) -> auto& { return d.command.lambda; }, at_least(0),
      "L2 regularisation of weights, not of biases."));
  keys.push_back(number_key(
      "lambda1", [](auto& d) -> auto& { return d.command.lambda1; }, at_least(0),
      "L1 regularisation of weights, not of biases. Norn's own."));
  return keys;
}

std::vector<Key> training_keys() {
  std::vector<Key> keys;
  keys.push_back(by_default(integer_key(
                                "Epochs", [](auto& d) -> auto& { return d.command.epochs; },
                                from_to(1, kMostUnits), "Passes over the data."),
                            "none: Command Train needs it"));
  keys.push_back(integer_key(
      "MiniBatch", [](auto& d) -> auto& { return d.command.batch; }, from_to(1, kMostUnits),
      "Examples of a step. DSSTNE documents it and refuses it."));
  for (Key& key : rate_keys()) keys.push_back(std::move(key));
  keys.push_back(variant_key<UpdateRule>(
      "Optimizer", [](auto& d) -> auto& { return d.command.optimizer; },
      "Update rule of all weights. DSSTNE knows SGD and Nesterov."));
  keys.push_back(by_default(
      boolean_key(
          "ShuffleIndices", [](auto& d) -> auto& { return d.command.shuffle; },
          "Whether every epoch visits the examples in a new random order. DSSTNE documents it and "
          "refuses it."),
      "the network's"));
  keys.push_back(integer_key(
      "CheckpointInterval", [](auto& d) -> auto& { return d.command.checkpoint_interval; },
      from_to(0, kMostUnits), "Epochs between checkpoints; 0: none are written."));
  keys.push_back(file_key(
      "CheckpointName", [](auto& d) -> auto& { return d.command.checkpoint_name; },
      "Checkpoints are files of this name with .epochN.nc behind it."));
  keys.push_back(file_key(
      "Results", [](auto& d) -> auto& { return d.command.results; },
      "Where the trained model goes."));
  return keys;
}

std::vector<Key> prediction_keys() {
  std::vector<Key> keys;
  keys.push_back(integer_key(
      "MiniBatch", [](auto& d) -> auto& { return d.command.prediction_batch; },
      from_to(1, kMostUnits), "Examples of a step."));
  keys.push_back(file_key(
      "Results", [](auto& d) -> auto& { return d.command.prediction_results; },
      "A file for what is printed, beside stdout."));
  return keys;
}

Key version_key() {
  Key key;
  key.name = "Version";
  key.type = ValueType::number;
  key.help = "Version of the format. Not read.";
  key.set = [](Draft&, const Json::Value&) {};
  return key;
}

std::vector<Key> make_command_keys() {
  std::vector<Key> keys;
  keys.push_back(version_key());
  keys.push_back(required(enum_key<CommandKind>(
      "Command",
      {{"Train", CommandKind::train},
       {"Predict", CommandKind::predict},
       {"Validate", CommandKind::validate}},
      [](auto& d) -> auto& { return d.command.kind; },
      "What to do. Validate compares the gradients with differences of the cost.")));
  keys.push_back(required(file_key(
      "Network", [](auto& d) -> auto& { return d.command.network; },
      "The network's descriptor (JSON); with Command Predict a trained model (NetCDF).")));
  keys.push_back(required(file_key(
      "Data", [](auto& d) -> auto& { return d.command.data; },
      "The file with the data sets that the network names.")));
  keys.push_back(by_default(integer_key(
                                "RandomSeed", [](auto& d) -> auto& { return d.command.seed; },
                                from_to_below(0, 0x1p64), "Seed of all random numbers."),
                            "12134 (DSSTNE takes the time of day)"));
  keys.push_back(
      object_key("TrainingParameters", training_keys(), "How to train, with Command Train."));
  keys.push_back(object_key("PredictionParameters", prediction_keys(),
                            "How to predict, with Command Predict. DSSTNE documents it and refuses "
                            "it."));
  return keys;
}

}  // namespace

const std::vector<Key>& command_keys() {
  static const std::vector<Key> keys = make_command_keys();
  return keys;
}

}  // namespace norn::keys
