// SPDX-License-Identifier: Apache-2.0
// Cuts a batch into canonical runs of examples and deals them to ranks.
#include "src/tensor/example_partition.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {

ExamplePartition ExamplePartition::make(Index examples) {
  require(examples >= 0, "ExamplePartition: a batch cannot have fewer than 0 examples");
  ExamplePartition partition;
  partition.examples_ = examples;
  return partition;
}

Range ExamplePartition::examples(Index run) const {
  require(run >= 0 && run < kRuns, "ExamplePartition: there is no run of that number");
  return {std::min(run * run_length(), examples_), std::min((run + 1) * run_length(), examples_)};
}

Range ExamplePartition::runs_of(int rank, int ranks) {
  return dealt(kRuns, rank, ranks);
}

Range ExamplePartition::examples_of(int rank, int ranks) const {
  const Range runs = runs_of(rank, ranks);
  return {std::min(runs.begin * run_length(), examples_),
          std::min(runs.end * run_length(), examples_)};
}

Index ExamplePartition::most_of(int rank, int ranks) const {
  return std::min(runs_of(rank, ranks).count() * run_length(), examples_);
}

}  // namespace norn
