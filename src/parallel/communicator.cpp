// SPDX-License-Identifier: Apache-2.0
// Collectives that are made of the others, the same for every kind of communicator.

#include "norn/parallel/communicator.h"

#include <array>

namespace norn {

bool Communicator::any(bool mine) {
  std::array<std::int64_t, 1> count{mine ? 1 : 0};
  all_reduce_sum(count);
  return count[0] != 0;
}

FixedSum Communicator::all_reduce(const FixedSum& mine) {
  std::array<std::int64_t, 3> words{mine.high(), mine.low(), mine.magnitude()};
  all_reduce_sum(words);
  return FixedSum::from_words(words[0], words[1], words[2]);
}

}  // namespace norn
