// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/problem.h"

#include <string>

#include <gtest/gtest.h>

/// The engine's gradients against central differences of the float64 reference.
namespace norn::test {

struct Tolerance {
  /// Of the cost, relative.
  double cost = 2e-6;
  /// Of a gradient, relative to the largest of its matrix or vector; beside it stands the rounding
  /// of a parameter in float32, from whose change the gradient is read.
  double gradient = 5e-6;
  /// Beside both: what terms leave that cancel, as those of a bias before batch normalisation.
  double cancelled = 0.0;
};

/// Gradients of what training goes down, means over the batch and over the users of a matrix, by
/// central differences; DeltaBoost, SparseIgnoreZero and DeltaNorm of output layers enter through
/// the deltas of the outputs.
reference::Parameters expected_gradients(const reference::Network& network,
                                         const reference::Parameters& parameters,
                                         const BoundBatch& batch);

/// Parameters at which the objective neither bends nor jumps nearby. `seed` is moved on to the one
/// that gave them.
reference::Parameters parameters_off_kinks(const reference::Network& network,
                                           const BoundBatch& batch, std::uint64_t& seed);

/// The engine's gradients of one step: the change of every parameter by SGD of rate 1, and the cost
/// that it reports.
struct EngineStep {
  double cost = 0.0;
  reference::Parameters gradient;
  reference::Parameters after;
};
EngineStep engine_step(const Problem& problem, const reference::Parameters& parameters);

/// Compares group by group and says where the largest difference is.
testing::AssertionResult gradients_agree(const reference::Network& network,
                                         const reference::Parameters& expected,
                                         const reference::Parameters& parameters,
                                         const reference::Parameters& got,
                                         const Tolerance& tolerance = {});

/// Cost and all gradients of the problem at random parameters.
testing::AssertionResult engine_agrees(Problem problem, std::uint64_t seed,
                                       const Tolerance& tolerance = {});

}  // namespace norn::test
