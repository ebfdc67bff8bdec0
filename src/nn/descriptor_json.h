// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/recipe.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// Network descriptors in JSON. One table of keys (src/nn/key.h) drives the reader, the writer, the
/// schema and the docs.
namespace norn {

/// Reads a descriptor. Comments are allowed, keys and words of choice are matched without regard to
/// case, names are not. All errors of a text are reported at once, a line each, as
///   configs/x.json:14: layer "Hidden1": Activation "Tahn" is unknown; did you mean "Tanh"? Known:
///   ...
/// in one UsageError. `source` names the text in messages; `note` receives remarks on accepted but
/// odd spellings. `data`: for texts that name a "Recipe"; null: these are refused.
NetworkDescriptor parse_network_json(const std::string& text, const std::string& source,
                                     const std::function<void(const std::string&)>& note = {},
                                     const RecipeSource* data = nullptr);
NetworkDescriptor read_network_json(const std::filesystem::path& file,
                                    const std::function<void(const std::string&)>& note = {},
                                    const RecipeSource* data = nullptr);

/// The descriptor as JSON that reads back to the same descriptor.
std::string to_json(const NetworkDescriptor& network);

/// Whether a layer of that kind and type may have the key of that name ("Kernel").
bool is_layer_key(const std::string& name, LayerKind kind, LayerType type);

/// docs/user/descriptor.md and configs/schema/network.schema.json, from the table of keys.
std::string descriptor_reference_markdown();
std::string descriptor_json_schema();

}  // namespace norn
