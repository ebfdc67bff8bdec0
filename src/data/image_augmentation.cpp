// SPDX-License-Identifier: Apache-2.0
// Images that are moved and mirrored at random.
#include "src/data/image_augmentation.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {
namespace {

// A number from 0 to `most`.
Index drawn(std::uint32_t word, Index most) {
  return Index((std::uint64_t(word) * std::uint64_t(most + 1)) >> 32);
}

}  // namespace

ImageAugmentation::Motion ImageAugmentation::motion_of(Index epoch, Index example) const {
  const Philox::Block block =
      random.block(0, std::uint64_t(example) ^ (std::uint64_t(epoch) << 40));
  Motion motion;
  for (std::size_t axis = 0; axis < 2; ++axis)
    motion.shift[axis] = drawn(block.word[axis], 2 * crop[axis]) - crop[axis];
  motion.mirrored = flip && block.word[2] >> 31 != 0;
  return motion;
}

void ImageAugmentation::move(const Motion& motion, float* image) {
  const auto [dx, dy] = motion.shift;
  const Index first = std::max<Index>(0, -dx);
  const Index last = std::min(width, width - dx);
  std::copy_n(image, original_.size(), original_.data());
  for (Index plane = 0; plane < planes; ++plane) {
    const float* const from = original_.data() + plane * height * width;
    for (Index y = 0; y < height; ++y) {
      float* const row = image + (plane * height + y) * width;
      if (y + dy < 0 || y + dy >= height) {
        std::fill_n(row, width, border);
        continue;
      }
      std::fill(row, row + first, border);
      std::copy(from + (y + dy) * width + first + dx, from + (y + dy) * width + last + dx,
                row + first);
      std::fill(row + last, row + width, border);
      if (motion.mirrored) std::reverse(row, row + width);
    }
  }
}

void ImageAugmentation::apply(Index epoch, HostBatch& batch) {
  require(!batch.is_sparse && !batch.stored && batch.width == width * height * planes,
          "ImageAugmentation::apply: dense images of this size, in main memory");
  original_.resize(std::size_t(batch.width));
  for (Index r = 0; r < batch.examples; ++r)
    move(motion_of(epoch, batch.example[std::size_t(r)]), batch.dense.view().row(r));
}

}  // namespace norn
