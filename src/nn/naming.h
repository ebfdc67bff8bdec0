// SPDX-License-Identifier: Apache-2.0
// Names, sources and sizes that a descriptor may leave out.
#pragma once

#include "src/nn/descriptor.h"

#include <string>

namespace norn {

/// Input<i>, Hidden<i>, Output<i>, Target<i>.
std::string default_layer_name(LayerKind kind, std::size_t index);

/// Gives layers without a name the default one, and layers without a source the layer before them.
void fill_names_and_sources(NetworkDescriptor& network);

/// Why a layer's extent cannot be, or nothing: no units, or more than column numbers can name.
std::string extent_fault(const LayerDescriptor& layer);

/// "32 x 32 x 3".
std::string extent_text(const Index* extent, int dimensions);

}  // namespace norn
