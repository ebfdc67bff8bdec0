// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/descriptor.h"

#include <vector>

/// Convolution and pooling in float64, written from the formulas with plain loops and none of the
/// engine's code: rows have their units in the order of files, x fastest and the channel slowest.
namespace norn::reference {

using Row = std::vector<double>;

/// The extent of a Convolutional or Pooling layer from its sources, into the layer.
void infer_size(LayerDescriptor& layer, const std::vector<const LayerDescriptor*>& sources);

/// Units of a layer that have one bias and one set of statistics: those of a channel of a
/// Convolutional layer, else one.
std::size_t units_of_a_channel(const LayerDescriptor& layer);

/// Weights from a source to a layer.
std::size_t weight_count(const LayerDescriptor& layer, const LayerDescriptor& source);

/// z += the cross-correlation of x with the filters.   w [K][C][z][y][x]
void convolve(const LayerDescriptor& layer, const LayerDescriptor& source, const Row& w,
              const Row& x, Row& z);

/// What a Pooling layer gives of one example of its sources.
Row pool(const LayerDescriptor& layer, const LocalResponseNormalization& lrn,
         const std::vector<const LayerDescriptor*>& sources, const std::vector<const Row*>& x);

/// How far the largest units of windows and sources are above the next ones; equal ones do not
/// count: they are zeros behind Relu, which small changes leave equal.
double distance_to_ties(const LayerDescriptor& layer,
                        const std::vector<const LayerDescriptor*>& sources,
                        const std::vector<const Row*>& x);

}  // namespace norn::reference
