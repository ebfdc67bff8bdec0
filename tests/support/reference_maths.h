// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "tests/support/reference_network.h"

/// The formulas of one unit and of one SoftMax row in float64, by name. A name that is not here
/// throws, so a new activation or loss has to be written down a second time before it passes.
namespace norn::reference {

double activation_value(const Activation& f, double z);
/// Whether its derivative jumps at z = 0.
bool bends_at_zero(const Activation& f);

/// What one unit of one example is to be.
struct Target {
  double value = 0.0;
  bool stored = false;  ///< of a sparse set; dense targets count as stored
  double weight = 1.0;  ///< of the entry
};

/// The targets of one example, by unit.
struct TargetRow {
  std::vector<Target> unit;
  bool sparse = true;
  bool valued = false;  ///< of a sparse set
  bool weighted = false;
  double weight = 1.0;
  bool ignore_absent = false;
  double stored() const;  ///< how many entries of a sparse set
};
TargetRow target_row(const HostBatch& batch, Index example, Index units, bool ignore_absent);
/// Of a layer, whose data may have weights of entries in the place of values.
TargetRow target_row(const LayerDescriptor& layer, const HostBatch& batch, Index example,
                     bool ignore_absent);

/// Cost of one unit, not weighted. `stored`: the entry is stored in a sparse set.
double unit_cost(const Loss& loss, double y, const Target& target, bool sparse);
/// Cost of a row of independent units, weighted.
double row_cost(const Loss& loss, const Row& y, const TargetRow& target);
/// Cost of a row of SoftMax outputs.
double softmax_cost(const Loss& loss, TargetWeight target_weight, const Row& y,
                    const TargetRow& target);
/// Cost of a row of an output layer, whichever of both it has.
double output_cost(const NetworkDescriptor& network, const LayerDescriptor& layer, const Row& y,
                   const TargetRow& target);
/// How near the outputs of a row come to a point where the loss bends or jumps.
double loss_kink_distance(const Loss& loss, const Row& y, const TargetRow& target);

}  // namespace norn::reference
