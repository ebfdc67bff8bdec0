// SPDX-License-Identifier: Apache-2.0
// Compares descriptors member by member; the maths values in them have no operator==.
#pragma once

#include "src/nn/descriptor.h"

#include <list>
#include <type_traits>

#include <gtest/gtest.h>

namespace norn::test {

template <typename Value>
std::list<float> parameters_of(const Value& value) {
  std::list<float> all;
  visit_parameters(value, [&](const ParameterKey&, float parameter) { all.push_back(parameter); });
  if constexpr (requires { value.scale; }) all.push_back(value.scale);
  if constexpr (requires { value.exponent; }) all.push_back(value.exponent);
  return all;
}

template <typename... T>
void expect_equal_values(const std::variant<T...>& a, const std::variant<T...>& b) {
  ASSERT_EQ(a.index(), b.index());
  const auto parameters = [](const auto& each) { return parameters_of(each); };
  EXPECT_EQ(std::visit(parameters, a), std::visit(parameters, b));
}

inline void expect_equal_activations(const LayerActivation& a, const LayerActivation& b) {
  ASSERT_EQ(a.index(), b.index());
  if (const Activation* f = std::get_if<Activation>(&a))
    expect_equal_values(*f, std::get<Activation>(b));
}

inline void expect_equal(const SparsenessPenalty& a, const SparsenessPenalty& b) {
  EXPECT_EQ(a.p, b.p);
  EXPECT_EQ(a.beta, b.beta);
}

inline void expect_equal(const LayerDescriptor& a, const LayerDescriptor& b) {
  SCOPED_TRACE(a.name);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.extent, b.extent);
  EXPECT_EQ(a.dimensions, b.dimensions);
  EXPECT_EQ(a.auto_size, b.auto_size);
  EXPECT_EQ(a.dataset, b.dataset);
  EXPECT_EQ(a.sources, b.sources);
  EXPECT_EQ(a.skips, b.skips);
  EXPECT_EQ(a.sparse, b.sparse);
  EXPECT_EQ(a.dropout, b.dropout);
  EXPECT_EQ(a.normalize, b.normalize);
  expect_equal_values(a.input_weighting, b.input_weighting);
  EXPECT_EQ(a.entry_weights, b.entry_weights);
  EXPECT_EQ(a.factored.rule, b.factored.rule);
  EXPECT_EQ(a.factored.rate, b.factored.rate);
  EXPECT_EQ(a.factored.damping, b.factored.damping);
  EXPECT_EQ(a.factored.fold_every, b.factored.fold_every);
  EXPECT_EQ(a.augment, b.augment);
  expect_equal_activations(a.activation, b.activation);
  expect_equal_values(a.init.scheme, b.init.scheme);
  EXPECT_EQ(a.init.bias, b.init.bias);
  EXPECT_EQ(a.weight_norm, b.weight_norm);
  EXPECT_EQ(a.delta_norm, b.delta_norm);
  ASSERT_EQ(a.shared_weights.size(), b.shared_weights.size());
  for (std::size_t i = 0; i < a.shared_weights.size(); ++i) {
    EXPECT_EQ(a.shared_weights[i].input_layer, b.shared_weights[i].input_layer);
    EXPECT_EQ(a.shared_weights[i].source_input_layer, b.shared_weights[i].source_input_layer);
    EXPECT_EQ(a.shared_weights[i].source_output_layer, b.shared_weights[i].source_output_layer);
    EXPECT_EQ(a.shared_weights[i].transposed, b.shared_weights[i].transposed);
  }
  EXPECT_EQ(a.batch_normalization, b.batch_normalization);
  ASSERT_EQ(a.sparseness.has_value(), b.sparseness.has_value());
  if (a.sparseness) expect_equal(*a.sparseness, *b.sparseness);
  EXPECT_EQ(a.function, b.function);
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_EQ(a.stride, b.stride);
  EXPECT_EQ(a.kernel_dimensions, b.kernel_dimensions);
}

/// Everything but computed padding, which a text does not give.
inline void expect_equal(const NetworkDescriptor& a, const NetworkDescriptor& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind, b.kind);
  expect_equal_values(a.loss, b.loss);
  EXPECT_EQ(a.target_weight, b.target_weight);
  EXPECT_EQ(a.shuffle, b.shuffle);
  expect_equal(a.sparseness, b.sparseness);
  EXPECT_EQ(a.denoising, b.denoising);
  EXPECT_EQ(a.boost_one, b.boost_one);
  EXPECT_EQ(a.boost_zero, b.boost_zero);
  EXPECT_EQ(a.lrn.k, b.lrn.k);
  EXPECT_EQ(a.lrn.n, b.lrn.n);
  EXPECT_EQ(a.lrn.alpha, b.lrn.alpha);
  EXPECT_EQ(a.lrn.beta, b.lrn.beta);
  EXPECT_EQ(a.maxout_k, b.maxout_k);
  EXPECT_EQ(a.decay, b.decay);
  expect_equal_values(a.training.optimizer, b.training.optimizer);
  EXPECT_EQ(a.training.rate, b.training.rate);
  EXPECT_EQ(a.training.batch, b.training.batch);
  EXPECT_EQ(a.training.epochs, b.training.epochs);
  EXPECT_EQ(a.training.last_epoch, b.training.last_epoch);
  EXPECT_EQ(a.training.refit, b.training.refit);
  EXPECT_EQ(a.training.schedule.kind, b.training.schedule.kind);
  EXPECT_EQ(a.training.schedule.warm_up, b.training.schedule.warm_up);
  EXPECT_EQ(a.training.validation.stop_from, b.training.validation.stop_from);
  EXPECT_EQ(a.training.lambda, b.training.lambda);
  EXPECT_EQ(a.training.lambda1, b.training.lambda1);
  EXPECT_EQ(a.training.seed, b.training.seed);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) expect_equal(a.layers[i], b.layers[i]);
}

}  // namespace norn::test
