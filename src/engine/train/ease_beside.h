// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/train/ease.h"

#include <memory>
#include <string>
#include <vector>

/// EASE's scores added to those of a trained network, in one network: its output layer has the
/// input as one more source, by weights that no step has changed.
namespace norn {

/// Whether a network has them already.
bool has_ease_beside(const NetworkDescriptor& network);

/// The network that was trained, of one that may have them.
NetworkDescriptor without_ease_beside(NetworkDescriptor network);

/// Throws UsageError, naming `where`, for one that has: steps would change both.
void require_no_ease_beside(const NetworkDescriptor& network, const std::string& where);

/// Throws UsageError, naming `where`, for a network that cannot have them: it needs one sparse
/// Input, and one Output layer that is not fed by it and has weights of its own.
void require_ease_beside(const NetworkDescriptor& network, const std::string& where);

/// The trained network with such an edge, whose weights are 0, for prediction. `shapes`: of its
/// data. All ranks call it together.
std::unique_ptr<Network> with_ease_beside(Network& trained, const std::vector<DatasetShape>& shapes,
                                          const std::string& where);

/// The weights of that edge: EASE's, as ease_inverse() gives P to rank 0, times `weight`, so that
/// the input's entries count as their values say, whatever InputWeighting makes of them. All ranks
/// call it together.
void weigh_ease_beside(const Matrix<double>& inverse, double weight, Executor& executor,
                       Network& network);

}  // namespace norn
