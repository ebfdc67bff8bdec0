// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/edges/features_edge.h"
#include "src/step/edges/skip.h"

#include <type_traits>
#include <variant>

/// The kinds of edges from unit to unit that steps are made of.
namespace norn::step {

using EdgeRoom = std::variant<SkipEdge, FeaturesEdge>;

/// body(std::type_identity<Room>()) for a kind of edge. Whether there is one.
template <typename Body>
bool with_edge(EdgeKind kind, const Body& body) {
  const auto try_all = [&]<typename... Rooms>(const std::variant<Rooms...>*) {
    return ((Rooms::kKind == kind && (body(std::type_identity<Rooms>()), true)) || ...);
  };
  return try_all(static_cast<const EdgeRoom*>(nullptr));
}

}  // namespace norn::step
