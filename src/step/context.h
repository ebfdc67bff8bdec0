// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "src/data/dataset.h"
#include "src/nn/connection.h"
#include "src/parallel/collectives.h"

#include <memory>
#include <vector>

/// What a step is given: where it computes, and its examples.
namespace norn {

/// What a run computes with, passed to everything that needs it. Nothing is global.
struct Context {
  Compute compute;
  Communicator& communicator;                ///< for what stands in main memory
  std::shared_ptr<Collectives> collectives;  ///< for what stands in the device's
  Log log;
};

/// One step's examples, for each layer that is bound to a data set (null for the others).
struct BoundBatch {
  std::vector<const HostBatch*> of_layer;
  std::vector<bool> ignore_absent;  ///< by layer: the data set says SparseIgnoreZero
  Index examples = 0;
};

}  // namespace norn
