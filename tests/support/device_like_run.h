// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/device_like_memory.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <mutex>

namespace norn::test {

/// Some steps on the CPU, whatever other tests compute on: in main memory, or as on a device, with
/// its ways of sums, copies and collectives. What they leave, without outputs.
inline Outcome run_in(Memory& memory, const Recipe& recipe, int ranks) {
  constexpr std::int64_t kSteps = 7;
  Outcome outcome;
  std::mutex mutex;
  run_thread_group(ranks, [&](Communicator& communicator) {
    Executor executor(1);
    Kernels kernels = make_cpu_kernels(executor);
    kernels.block_rule = recipe.blocks;
    // Made, though nothing reads them. Bf16 ones would be all that ranks send each other.
    if (!memory.is_host()) kernels.precision.multiply = NumberFormat::tf32;
    if (!memory.is_host() && communicator.size() == 1)
      kernels.precision.store = NumberFormat::bfloat16;
    const Context context{Compute{executor, kernels, memory}, communicator,
                          make_staged_collectives(communicator, memory, *kernels.queue), Log()};
    Network network(make_graph(recipe.network, recipe.shapes(), recipe.name), recipe.shapes(),
                    context, recipe.network.training.batch, Pass::training, nullptr,
                    recipe.layers_by_example());
    network.initialise(recipe.network.training.seed);
    RecipeData data(recipe);
    std::vector<double> costs = train_steps(network, data, kSteps);
    std::vector<float> state = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) outcome = {std::move(state), {}, std::move(costs)};
  });
  return outcome;
}

}  // namespace norn::test
