// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "tests/support/device_like_memory.h"
#include "tests/support/recipes.h"

namespace norn::test {

/// What is said of a network that is to be trained in memory that is not the host's.
inline std::string refusal_on_a_device(const Recipe& recipe) {
  Executor executor(1);
  Kernels kernels = make_cpu_kernels(executor);
  DeviceLikeMemory memory;
  const auto one = make_single_process();
  const Context context{{executor, kernels, memory}, *one, make_host_collectives(*one), Log()};
  try {
    const Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(),
                          context, 37, Pass::training, nullptr, recipe.layers_by_example());
    return "runs";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace norn::test
