// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

/// How much of what tensor cores multiply for a convolution is of use: tiles have whole boxes of
/// channels and whole columns of filters, and narrow ones multiply at a part of the speed.
namespace norn::step {

enum class WindowProduct { outputs, input_delta, gradient };

/// The share of full tiles' FLOP that a product of an edge's windows is; 1 where the device does
/// not compute it in tiles of its own.
double tiles_filled(const StepFacts& facts, int edge, WindowProduct product);

}  // namespace norn::step
