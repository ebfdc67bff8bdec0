// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes are a file with a seal that holds, one without, or a DataError.
// Nothing of a model is believed before.
#include "memory_file.h"
#include "norn/base/error.h"
#include "src/data/file_seal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    norn::check_seal(file.path(), file.path());
  } catch (const norn::DataError&) {
    // As promised for a seal that does not hold.
  }
  return 0;
}
