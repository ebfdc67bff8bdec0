// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Images of one byte a channel, and what an import does to them.
namespace norn {

struct ImageSize {
  Index width = 0;
  Index height = 0;
  Index channels = 0;  ///< 1 grey; 3 red, green, blue
  Index bytes() const { return width * height * channels; }
  bool operator==(const ImageSize&) const = default;
};

/// "32x32x3"
std::string size_text(const ImageSize& size);

/// Pixels stand row by row from the top, the channels of one pixel together.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

constexpr Index kLongestImageSide = 65'535;                  ///< pixels
constexpr Index kMostImagePixels = Index(1) << 26;           ///< of one image
constexpr std::size_t kLargestImage = std::size_t(1) << 28;  ///< bytes of a file

/// Decodes a file's bytes, PNG or JPEG by the first of them. An image with a palette is coloured,
/// 16 bits become 8, alpha is laid over black; colour profiles and EXIF's orientation are passed
/// over. No more memory is taken than the bytes can stand for. Throws DataError, which says what is
/// wrong without the file's name.
Image decode_image(std::span<const std::uint8_t> bytes);

/// As wide and high as asked, whatever the shape was. Each axis by itself: a pixel is the mean of
/// those of the source near its centre, with weights that fall linearly to 0 at a distance of one
/// pixel of the larger of both (a triangle).
Image resized(const Image& image, Index width, Index height);

/// Grey of colour is 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601), colour of grey is three
/// times the same.
Image with_channels(Image image, Index channels);

/// In the order of data sets: x fastest, then y, channel slowest.
std::vector<std::uint8_t> planar(const Image& image);

}  // namespace norn
