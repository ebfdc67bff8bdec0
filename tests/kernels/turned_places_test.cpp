// SPDX-License-Identifier: Apache-2.0
// Where places of turned copies stand: a tap of a window is at its distance or at a zero, and what
// is turned at a time has its bounds. Which windows are blocks of places.
#include "kernels/window_pieces.h"
#include "tests/kernels/samples.h"

#include <array>
#include <map>
#include <utility>

namespace norn {
namespace {

using namespace window_pieces;

class TurnedPlacesTest : public samples::RandomTest {
 protected:
  /// Windows that do not stride: all that there are, fewer, or one more.
  Window draw(Index largest) {
    Window w;
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = 1 + below(largest);
      w.kernel[a] = 1 + below(std::min<Index>(7, w.in[a]));
      w.padding[a] = below(w.kernel[a]);
      const Index most = w.in[a] + 2 * w.padding[a] - w.kernel[a] + 1;
      w.out[a] = 1 + below(most + 1);
    }
    w.channels = 32 + 8 * below(60);
    w.order = UnitOrder::channels_last;
    return w;
  }
};

TEST_F(TurnedPlacesTest, HaveTapsAtTheirDistance) {
  for (int round = 0; round < 300; ++round) {
    const Window w = draw(12);
    const Index examples = 1 + below(9), width = turned_width(w);
    const auto at = [&](Index e, Index x, Index y) {
      return (y * width + x) * turned_examples(examples) + e;
    };
    std::map<Index, std::pair<Index, Index>> places;  // example and place of it
    for (Index e = 0; e < examples; ++e)
      for (Index p = 0; p < w.places(); ++p)
        ASSERT_TRUE(places.insert({at(e, p % w.in[0], p / w.in[0]), {e, p}}).second);
    EXPECT_LT(places.rbegin()->first, turned_length(w, examples));
    for (Index window = 0; window < w.out_places(); ++window)
      for (Index tap = 0; tap < w.taps(); ++tap) {
        const Index e = below(examples), ox = window % w.out[0], oy = window / w.out[0];
        const Index kx = tap % w.kernel[0], ky = tap / w.kernel[0];
        ASSERT_LT(at(e, ox, oy), turned_length(w, examples));
        const Index x = ox - w.padding[0] + kx, y = oy - w.padding[1] + ky;
        const bool is_inside = x >= 0 && y >= 0 && x < w.in[0] && y < w.in[1];
        const Index distance = turned_distance(w, examples, kx, ky);
        ASSERT_EQ(distance % kTurnedRun, 0);
        const auto found = places.find(at(e, ox, oy) + distance);
        ASSERT_EQ(found != places.end(), is_inside)
            << "in " << w.in[0] << " x " << w.in[1] << ", out " << w.out[0] << " x " << w.out[1]
            << ", kernel " << w.kernel[0] << " x " << w.kernel[1] << ", padding " << w.padding[0]
            << ", " << w.padding[1] << ", window " << window << ", tap " << tap;
        ASSERT_TRUE(!is_inside || found->second == std::pair(e, y * w.in[0] + x));
      }
  }
}

TEST_F(TurnedPlacesTest, AreAsManyAsFitAtATime) {
  int in_parts = 0, together = 0;
  for (int round = 0; round < 5000; ++round) {
    const Window w = draw(1 + below(300));
    const Index filters = 32 + 8 * below(60), run = 1 + below(below(10) == 0 ? 3000 : 100);
    if (!can_turn(w, filters, run)) continue;
    const Index part = examples_turned(w, filters, run), runs = runs_turned(w, filters, run);
    ASSERT_GE(part, 1);
    ASSERT_LE(part, run);
    ASSERT_LE(runs * turned_floats(w, filters, part), kTurnedFloats);
    // A run that is turned with others is turned whole, as is one that fits.
    ASSERT_EQ(part == run, turned_floats(w, filters, run) <= kTurnedFloats);
    ASSERT_TRUE(runs == 1 || part == run);
    ASSERT_GE(turned_slices(w, filters, run), 1);
    ASSERT_LE(turned_slices(w, filters, run), turned_length(w, part));
    in_parts += part < run;
    together += runs > 1;
  }
  EXPECT_GT(in_parts, 0);
  EXPECT_GT(together, 0);
}

// Windows that are copied as a block of places are one, wherever they begin.
TEST_F(TurnedPlacesTest, AreBlocksWhereWindowsAreCopiedAsSuch) {
  int blocks = 0;
  for (int round = 0; round < 300; ++round) {
    Window w = draw(20);
    const std::array<Index, 6> widths{4, 8, 16, 32, 64, 192};
    if (round % 2 == 0) w.out[0] = widths[std::size_t(below(6))];
    if (round % 4 == 0) w.out[1] = 8 * (1 + below(4));
    if (round % 8 == 1) w.out[1] = 1;
    const Index examples = 1 + below(3), windows = 64 * (1 + below(2));
    const Index width = block_width(w, windows, examples), all = examples * w.out_places();
    blocks += width > 0;
    for (Index first = 0; width > 0 && first < all; first += windows)
      for (Index i = 0; i < std::min(windows, all - first); ++i) {
        const Index place = first % w.out_places(), own = (first + i) % w.out_places();
        ASSERT_EQ((first + i) / w.out_places(), first / w.out_places());
        ASSERT_EQ(own % w.out[0], place % w.out[0] + i % width);
        ASSERT_EQ(own / w.out[0], place / w.out[0] + i / width);
      }
    w.stride[below(2)] = 2;
    EXPECT_EQ(block_width(w, windows, examples), 0);
  }
  EXPECT_GT(blocks, 0);
}

}  // namespace
}  // namespace norn
