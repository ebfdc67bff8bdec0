// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes are either an index whose labels find their numbers, or a DataError.
#include "memory_file.h"
#include "norn/base/error.h"
#include "norn/data/label_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norn;
  const MemoryFile file(data, size);
  try {
    const LabelIndex index = read_label_index(file.path());
    for (Index i = 0; i < index.size(); ++i)
      if (index.find(index.label(i)) != i) std::abort();
  } catch (const DataError&) {
    // As promised for what is no index.
  }
  return 0;
}
