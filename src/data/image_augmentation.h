// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/philox.h"
#include "src/data/dataset.h"

#include <array>
#include <vector>

/// Images that are moved and mirrored at random: Krizhevsky, Sutskever, Hinton, NIPS 2012, section
/// 4.1; with a border as He, Zhang, Ren, Sun, CVPR 2016, section 4.2.
namespace norn {

/// What is done to a dense set's images, [planes][height][width] each, x fastest. An image gets a
/// border, is cropped to its size at an offset from 0 to twice the border along each axis, and
/// mirrored along x with probability 1/2. All planes go alike.
class ImageAugmentation {
 public:
  Index width = 1;
  Index height = 1;
  Index planes = 1;
  std::array<Index, 2> crop = {0, 0};  ///< border along x and y, on each side
  bool flip = false;
  float border = 0.0f;  ///< the value of its units
  /// Example e of the data set draws from block (0, e xor (epoch << 40)): words 0 and 1 give the
  /// offsets along x and y, the upper bit of word 2 whether it is mirrored.
  Philox random;

  /// Replaces the images of a dense batch whose contents are there.
  void apply(Index epoch, HostBatch& batch);

 private:
  /// Where a unit of the result is read: x + shift[0], y + shift[1], before it is mirrored.
  struct Motion {
    std::array<Index, 2> shift = {0, 0};
    bool mirrored = false;
  };
  Motion motion_of(Index epoch, Index example) const;
  void move(const Motion& motion, float* image);

  std::vector<float> original_;  // of the image at hand
};

}  // namespace norn
