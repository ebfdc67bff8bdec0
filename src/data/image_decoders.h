// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/image.h"

#include <optional>
#include <string>

/// The formats that decode_image() knows. Each says in a word what is wrong, or gives the image.
namespace norn {

struct Decoded {
  Image image;
  std::string fault;  ///< empty: `image` is whole
};

bool is_png(std::span<const std::uint8_t> bytes);
bool is_jpeg(std::span<const std::uint8_t> bytes);
Decoded decode_png(std::span<const std::uint8_t> bytes);
Decoded decode_jpeg(std::span<const std::uint8_t> bytes);

/// What is wrong with a size that a file claims, if anything. `most_pixels`: as many as its bytes
/// can stand for.
std::string size_fault(std::uint64_t width, std::uint64_t height, double most_pixels);

}  // namespace norn
