// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cmath>
#include <vector>

/// Why a unit has its score: what the entries of an example's input bring to it.
namespace norn {

/// One entry of an example's sparse inputs, and what it does to the score of a unit.
struct EntryEffect {
  int input = 0;        ///< which of the network's Input layers, counted from 0
  Column unit = 0;      ///< of that layer
  float effect = 0.0f;  ///< the unit's score, less its score without this entry
};

/// One unit of one example.
struct Explanation {
  Index unit = -1;                   ///< of the output layer; -1: nothing was asked
  float score = std::nanf("");       ///< of the whole example
  std::vector<EntryEffect> effects;  ///< the largest sizes first, whatever their sign
};

}  // namespace norn
