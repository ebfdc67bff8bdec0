// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/named_variant.h"
#include "tests/support/gradient_check.h"

#include <string>
#include <vector>

/// What the gradient checks go through: every activation and loss that the variants list, and the
/// kinds of data.
namespace norn::test {

/// Names of all activations, SoftMax included.
inline std::vector<std::string> activation_names() {
  std::vector<std::string> names = names_of<Activation>();
  names.emplace_back(SoftMax::name);
  return names;
}

inline LayerActivation activation_named(const std::string& name) {
  if (name == SoftMax::name) return SoftMax{};
  Activation f = *find_named<Activation>(name);
  if (auto* leaky = std::get_if<LeakyRelu>(&f)) leaky->relu_slope = 0.3f;  // far from 0 and 1
  if (auto* elu = std::get_if<Elu>(&f)) elu->alpha = 0.8f;
  return f;
}

/// A loss whose parameters, where it has any, all make a difference.
inline Loss loss_named(const std::string& name) {
  Loss loss = *find_named<Loss>(name);
  std::visit(
      [](auto& l) {
        if constexpr (requires { l.one_target; }) {
          l.one_target = 0.7f;
          l.zero_target = 0.25f;
          l.one_scale = 1.5f;
          l.zero_scale = 0.6f;
        }
      },
      loss);
  return loss;
}

inline bool is_cross_entropy(const Loss& loss) {
  return name_of(loss).find("CrossEntropy") != std::string_view::npos;
}

/// Kinds of targets that suit a loss: cross entropies are of targets above 0.
inline std::vector<DataKind> target_kinds(const Loss& loss) {
  const float low = is_cross_entropy(loss) ? 0.1f : -1.0f;
  std::vector<DataKind> kinds = {
      {.name = "sparse boolean"},
      {.name = "sparse valued", .valued = true, .low = low},
      {.name = "sparse boolean weighted", .weighted = true},
      {.name = "sparse valued weighted", .valued = true, .weighted = true, .low = low},
      {.name = "sparse boolean, zeros ignored", .ignore_absent = true},
      {.name = "sparse valued weighted, zeros ignored",
       .valued = true,
       .weighted = true,
       .ignore_absent = true,
       .low = low},
      {.name = "dense labels", .labels = true},
      {.name = "dense of 0, 1/2 and 1", .sparse = false, .halves = true},
      {.name = "dense of 0, 1/2 and 1, weighted",
       .sparse = false,
       .halves = true,
       .weighted = true},
  };
  // It counts dense targets of exactly 0 and 1 only.
  if (std::holds_alternative<ScaledMarginalCrossEntropy>(loss)) return kinds;
  kinds.push_back({.name = "dense", .sparse = false, .low = low});
  kinds.push_back({.name = "dense weighted", .sparse = false, .weighted = true, .low = low});
  return kinds;
}

/// Kinds of inputs.
inline std::vector<DataKind> input_kinds() {
  return {
      {.name = "sparse boolean"},
      {.name = "sparse valued", .valued = true},
      {.name = "sparse boolean weighted", .weighted = true},
      {.name = "sparse valued weighted", .valued = true, .weighted = true},
      {.name = "dense", .sparse = false},
      {.name = "dense weighted", .sparse = false, .weighted = true},
  };
}

}  // namespace norn::test
