// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/philox.h"
#include "src/data/dataset.h"

#include <array>
#include <vector>

/// Images moved and mirrored as docs/user/numerics.md says, unit by unit.
namespace norn::test {

struct ImageShape {
  std::array<Index, 3> extent = {1, 1, 1};
  int axes = 2;  ///< along which images stand; all others are planes
  Index crop = 0;
  bool flip = false;
  float border = 0.0f;

  Index units() const { return extent[0] * extent[1] * extent[2]; }
};

/// The image of an example in an epoch: out of a copy of it with a border all around.
inline std::vector<float> augmented(const ImageShape& shape, const float* image, Philox random,
                                    Index epoch, Index example) {
  const Index width = shape.extent[0], height = shape.axes > 1 ? shape.extent[1] : 1;
  const Index planes = shape.units() / width / height;
  const Index cx = shape.crop, cy = height > 1 ? shape.crop : 0;
  const Index wide = width + 2 * cx, high = height + 2 * cy;
  std::vector<float> bordered(std::size_t(wide * high * planes), shape.border);
  for (Index p = 0; p < planes; ++p)
    for (Index y = 0; y < height; ++y)
      for (Index x = 0; x < width; ++x)
        bordered[std::size_t((p * high + y + cy) * wide + x + cx)] =
            image[(p * height + y) * width + x];
  const Philox::Block block = random.block(0, std::uint64_t(example) ^ std::uint64_t(epoch) << 40);
  const auto offset = [&](int word, Index border) {
    return Index(double(block.word[word]) * 0x1p-32 * double(2 * border + 1));
  };
  const Index left = offset(0, cx), top = offset(1, cy);
  const bool mirrored = shape.flip && block.word[2] >= 0x80000000u;
  std::vector<float> result(std::size_t(shape.units()));
  for (Index p = 0; p < planes; ++p)
    for (Index y = 0; y < height; ++y)
      for (Index x = 0; x < width; ++x) {
        const Index from = mirrored ? width - 1 - x : x;
        result[std::size_t((p * height + y) * width + x)] =
            bordered[std::size_t((p * high + y + top) * wide + from + left)];
      }
  return result;
}

}  // namespace norn::test
