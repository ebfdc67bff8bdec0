// SPDX-License-Identifier: Apache-2.0
// Looks into data before a search.
#include "src/run/automatic/data_facts.h"

#include "norn/base/error.h"
#include "src/engine/train/ease.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace norn::run {
namespace {
constexpr Index kMostEaseItems = 20'000;
constexpr Index kExamples = 4096;  // that are read at a time
}  // namespace

bool are_for_ease(Dataset& input, Dataset& target) {
  const Index items = target.info().width();
  if (items > kMostEaseItems || input.info().width() != items ||
      !input.info().gives_sparse_batches() || !target.info().gives_sparse_batches())
    return false;
  try {
    const EaseData read(input, target, items);
    return true;
  } catch (const DataError&) {   // other targets
  } catch (const UsageError&) {  // weights
  }
  return false;
}

bool hides_entries(Dataset& known, Dataset& all) {
  HostBatch some, whole;
  const Index examples = all.info().examples;
  for (Index first = 0; first < examples; first += kExamples) {
    std::vector<Index> numbers(std::size_t(std::min(kExamples, examples - first)));
    std::iota(numbers.begin(), numbers.end(), first);
    known.gather(numbers, some);
    all.gather(numbers, whole);
    if (some.csr().entries() != whole.csr().entries()) return true;
  }
  return false;
}

}  // namespace norn::run
