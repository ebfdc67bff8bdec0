// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/training_report.h"
#include "src/engine/network/network.h"

#include <cstdint>
#include <string>
#include <vector>

/// Whether a network's gradients are the slopes of its cost, on data of its user.
namespace norn {

/// Makes a descriptor one whose gradients are slopes of its cost: without dropout, denoising,
/// augmentation, penalties, DeltaBoost, DeltaNorm and WeightNorm; plain SGD of rate 1. Returns what
/// was left out.
/// Throws UsageError for batch normalisation, whose statistics differ between a step and a cost.
std::vector<std::string> prepare_gradient_check(NetworkDescriptor& network);

/// Compares gradients of a batch with central differences of its cost, for up to `most` parameters
/// of each group, drawn from the seed. The network is one of prepare_gradient_check(), for
/// training, in main memory, of one process; its parameters are as they were afterwards.
std::vector<CheckedGroup> check_gradients(Network& network, const BoundBatch& batch, Index most,
                                          std::uint64_t seed);

}  // namespace norn
