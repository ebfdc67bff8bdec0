// SPDX-License-Identifier: Apache-2.0
// Which decoder a file is for.
#include "src/data/image_decoders.h"

#include "norn/base/error.h"

#include <utility>

#include <fmt/format.h>

namespace norn {

std::string size_fault(std::uint64_t width, std::uint64_t height, double most_pixels) {
  if (width == 0 || height == 0) return "is an image without pixels";
  if (width > std::uint64_t(kLongestImageSide) || height > std::uint64_t(kLongestImageSide) ||
      width * height > std::uint64_t(kMostImagePixels))
    return fmt::format("is an image of {} x {} pixels, at most {} are read", width, height,
                       kMostImagePixels);
  if (double(width) * double(height) > most_pixels)
    return fmt::format("says that it has {} x {} pixels, more than its bytes can hold", width,
                       height);
  return {};
}

Image decode_image(std::span<const std::uint8_t> bytes) {
  if (!is_png(bytes) && !is_jpeg(bytes))
    throw DataError("is neither PNG nor JPEG; convert it, or remove it");
  Decoded decoded = is_png(bytes) ? decode_png(bytes) : decode_jpeg(bytes);
  if (!decoded.fault.empty()) throw DataError(decoded.fault + "; replace it, or remove it");
  return std::move(decoded.image);
}

}  // namespace norn
