// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cmath>

/// How many units the entries of a batch touch, where popular units are much more popular.
namespace norn {

struct RowTouches {
  double touched = 0.0;   ///< units with an entry
  double returned = 0.0;  ///< of them, those without one in the batch before
};

/// Expected values when unit i occurs as often as 1 / (i + 10), as in the probe of a step.
inline RowTouches expected_touches(double entries, Index units) {
  constexpr int kPieces = 4096;
  constexpr double kFirst = 10.0;
  const double top = std::log(double(units) / kFirst + 1.0);
  RowTouches touches;
  for (int piece = 0; piece < kPieces; ++piece) {
    const double rank = kFirst * std::exp((double(piece) + 0.5) / kPieces * top);
    const double units_here = rank * top / kPieces;
    const double touched = -std::expm1(-entries / (rank * top));
    touches.touched += units_here * touched;
    touches.returned += units_here * touched * (1.0 - touched);
  }
  return touches;
}

}  // namespace norn
