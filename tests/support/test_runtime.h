// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/context.h"

/// What tests of the engine compute on. Each test program links one definition:
/// test_runtime_cpu.cpp, or test_runtime_cuda.cpp, so that one test text serves both.
namespace norn::test {

/// `threads`: of the CPU. `max_steps_in_flight`: of a GPU; 0 for tests that stop a run at an exact
/// step.
std::unique_ptr<Runtime> make_test_runtime(int threads, int max_steps_in_flight = 4);

/// How far costs and gradients may be from float64's, as a multiple of what the CPU needs: products
/// on a GPU round their operands unless the precision is fp32.
double tolerance_factor();

}  // namespace norn::test
