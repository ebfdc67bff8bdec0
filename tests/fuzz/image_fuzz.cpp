// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes are either an image whose pixels are all there, or a DataError.
#include "norn/base/error.h"
#include "src/data/image.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norn;
  try {
    const Image image = decode_image({data, size});
    if (Index(image.pixels.size()) != image.size.bytes() || image.size.bytes() == 0) std::abort();
    if (image.size.channels != 1 && image.size.channels != 3) std::abort();
  } catch (const DataError&) {
    // As promised for what is no image.
  }
  return 0;
}
