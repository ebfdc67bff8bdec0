// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window.h"

#include <vector>

/// Rows of units in the arrangement of other rows.
namespace norn {

/// Unit c * places + p of files stands at p * channels + c.
struct Arrangement {
  Index places = 1;
  Index channels = 1;

  static Arrangement of(const Window& window, UnitOrder order) {
    const Index units = window.places() * window.channels;
    if (order == UnitOrder::file || window.places() == 1) return {units, 1};
    return {window.places(), window.channels};
  }
  static Arrangement of(const Window& window) { return of(window, window.order); }
  bool operator==(const Arrangement&) const = default;
};

/// Rows in another arrangement, one at a time.
class Arranger {
 public:
  Arranger(const Arrangement& from, const Arrangement& to)
      : from_(from), to_(to), row_(std::size_t(from == to ? 0 : to.places * to.channels)) {}

  /// The row itself where both are one, else a copy that the next call overwrites.
  const float* operator()(const float* row) {
    if (from_ == to_) return row;
    for (Index p = 0; p < to_.places; ++p)
      for (Index c = 0; c < to_.channels; ++c) {
        const Index unit = c * to_.places + p;
        row_[std::size_t(p * to_.channels + c)] =
            row[unit % from_.places * from_.channels + unit / from_.places];
      }
    return row_.data();
  }

 private:
  Arrangement from_;
  Arrangement to_;
  std::vector<float> row_;
};

}  // namespace norn
