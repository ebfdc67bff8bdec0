// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/model.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

/// Models whose weights come from elsewhere: from another program's file, or from arrays.
namespace norn::run {

/// What a model consists of. Ranks give the same.
struct ModelParts {
  std::string network;  ///< a descriptor as JSON, in which every N is a number
  /// All that Model::parameters() of such a network gives, in any order. `owner` need not be set;
  /// without `stride` rows follow one another. Nothing of them is kept.
  std::vector<Parameter> parameters;
  /// By layer, of Input and Output layers; where they are not known they are left out.
  std::map<std::string, LabelTable> unit_labels;
};

/// The descriptor as models hold it: names and sources filled in, keys in one spelling, sizes as
/// they are given. Throws ProblemsError.
std::string canonical_network(const std::string& network);

/// A model with these weights, without the state of a training: a file of it can be used, and begin
/// a new training, as any model's. Throws ProblemsError for whatever is wrong with the descriptor,
/// or for all parameters that are missing, too many, of another extent or not finite and all labels
/// that do not fit; DeviceError where memory does not suffice. All ranks call it together.
std::unique_ptr<Model> model_from_parameters(const ModelParts& parts, ModelOptions options);

}  // namespace norn::run
