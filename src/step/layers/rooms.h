// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/layers/by_example.h"
#include "src/step/layers/dense.h"
#include "src/step/layers/factored.h"
#include "src/step/layers/pooling.h"

#include <type_traits>
#include <variant>

/// The kinds of layers that steps are made of.
namespace norn::step {

/// What a layer of the kind holds; nothing for a layer that takes no part. A layer is of the first
/// kind that says so.
using LayerRoom = std::variant<std::monostate, InputRoom, ExampleRoom, PoolingRoom, HiddenRoom,
                               FactoredRoom, OutputRoom>;

/// body(std::type_identity<Room>()) for the kind of a layer. Whether there is one.
template <typename Body>
bool with_room(const StepFacts& facts, int layer, const Body& body) {
  const auto try_kind = [&]<typename Room>(std::type_identity<Room> kind) {
    if (!Room::is_of(facts, layer)) return false;
    body(kind);
    return true;
  };
  const auto try_all = [&]<typename... Rooms>(const std::variant<std::monostate, Rooms...>*) {
    return (try_kind(std::type_identity<Rooms>()) || ...);
  };
  return try_all(static_cast<const LayerRoom*>(nullptr));
}

}  // namespace norn::step
