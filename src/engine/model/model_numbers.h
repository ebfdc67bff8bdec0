// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/descriptor.h"

#include <cstdint>
#include <string>

/// The numbers by which DSSTNE's model files name choices, and our values for them.
namespace norn {

std::uint32_t loss_number(const Loss& loss);
Loss loss_of_number(std::int64_t number, const std::string& where);

std::uint32_t activation_number(const LayerActivation& activation);
/// Throws DataError for numbers that stand for nothing that DSSTNE could compute. SoftPlus,
/// SoftSign, ReluMax and LinearMax were computed as Linear there, so models that say so are read as
/// Linear.
LayerActivation activation_of_number(std::int64_t number, const std::string& where);

Initializer initializer_of_number(std::int64_t number, float scale, const std::string& where);
float initializer_scale(const Initializer& initializer);

}  // namespace norn
