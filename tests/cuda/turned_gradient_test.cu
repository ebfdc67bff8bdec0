// SPDX-License-Identifier: Apache-2.0
// Gradients in tf32 step by step: turned copies element by element, products of them and gradients
// of runs against float64 sums. Operands have few bits, so that their terms are exact.
#include "kernels/convolution.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/turned_images.h"
#include "kernels/cuda/windows/turned_product.h"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"
#include "tests/cuda/window_draws.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

class TurnedGradientTest : public ::testing::Test, protected WindowDraws {
 protected:
  /// As many windows as there are, or fewer.
  Window draw(Index least, Index most_places) {
    Window w;
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = least + below(most_places - least + 1);
      w.kernel[a] = 1 + below(std::min<Index>(5, w.in[a]));
      w.padding[a] = below(w.kernel[a]);
      const Index most = w.in[a] + 2 * w.padding[a] - w.kernel[a] + 1;
      w.out[a] = most - below(std::min<Index>(3, most));
    }
    w.channels = 32 + 8 * below(17);
    w.order = UnitOrder::channels_last;
    return w;
  }
  /// Whose copies are nearly full.
  Window draw_same(Index least, Index most_places, Index channels) {
    Window w = draw(least, most_places);
    w.kernel = {3, 3, 1};
    w.padding = {1, 1, 0};
    w.out = w.in;
    w.channels = channels;
    return w;
  }
  static std::string text(const Window& w, Index filters, Index examples, Index runs) {
    std::ostringstream text;
    text << "in " << w.in[0] << " x " << w.in[1] << ", out " << w.out[0] << " x " << w.out[1]
         << ", kernel " << w.kernel[0] << " x " << w.kernel[1] << ", padding " << w.padding[0]
         << ", " << w.padding[1] << ", C " << w.channels << ", K " << filters << ", " << runs
         << " runs of " << examples;
    return text.str();
  }
  /// What turned rows should be, of so many examples a run.
  static std::vector<float> turned(const Window& w, Index width, Index height, Index examples,
                                   const Matrix& images) {
    const Index channels = images.cols / (width * height), runs = images.rows / examples;
    const Index length = window_pieces::turned_length(w, examples);
    std::vector<float> rows(std::size_t(runs * channels * length));
    for (Index e = 0; e < images.rows; ++e)
      for (Index y = 0; y < height; ++y)
        for (Index x = 0; x < width; ++x)
          for (Index c = 0; c < channels; ++c) {
            const Index place = y * window_pieces::turned_width(w) + x;
            const Index at = place * window_pieces::turned_examples(examples) + e % examples;
            rows[std::size_t((e / examples * channels + c) * length + at)] =
                float(images(e, (y * width + x) * channels + c));
          }
    return rows;
  }

  struct Sum {
    double value, bound;
  };
  /// A tap's sum over the windows of some examples, and what float32 sums may be off.
  static Sum sum_of(const Window& w, const Matrix& x, const Matrix& delta, Range examples,
                    Index filter, Index tap, Index channel) {
    const Index filters = delta.cols / w.out_places();
    double value = 0.0, magnitude = 1e-30, terms = 0.0;
    for (Index e = examples.begin; e < examples.end; ++e)
      for (Index window = 0; window < w.out_places(); ++window) {
        const Index px = window % w.out[0] - w.padding[0] + tap % w.kernel[0];
        const Index py = window / w.out[0] - w.padding[1] + tap / w.kernel[0];
        if (px < 0 || py < 0 || px >= w.in[0] || py >= w.in[1]) continue;
        const double term =
            x(e, (py * w.in[0] + px) * w.channels + channel) * delta(e, window * filters + filter);
        value += term;
        magnitude += std::abs(term);
        terms += 1.0;
      }
    return {value, 0x1p-23 * (4.0 + std::sqrt(terms)) * magnitude};
  }
  void expect_bits_elsewhere(ConvolutionKernels& kernels, const Window& w, const Matrix& x,
                             const Matrix& delta, Range run, const Matrix& expected) {
    const auto copy_of = [&](const Matrix& m) {
      Buffer<float> copy(run.count() * m.cols, memory_);
      copy.write(m.host.data() + run.begin * m.cols, copy.size());
      return copy;
    };
    const Buffer<float> of_x = copy_of(x), of_delta = copy_of(delta);
    Matrix term = make(expected.rows, expected.cols);
    kernels.gradient(
        w, MatrixView<const float>{of_delta.data(), run.count(), delta.cols, delta.cols},
        MatrixView<const float>{of_x.data(), run.count(), x.cols, x.cols}, 0.5f, term.view());
    term.fetch();
    EXPECT_TRUE(term.host == expected.host);
  }

  cuda::Stream stream() { return {nullptr, memory_, Precision::tf32, 132}; }
};

TEST_F(TurnedGradientTest, StandPlaceByPlace) {
  for (int round = 0; round < 30; ++round) {
    const Window w = draw(3, 22);
    const Index runs = 1 + below(4), examples = 1 + below(9), filters = 32 + 8 * below(17);
    SCOPED_TRACE(text(w, filters, examples, runs));
    const Index length = window_pieces::turned_length(w, examples);
    Matrix x = make(runs * examples, w.places() * w.channels);
    Matrix delta = make(x.rows, w.out_places() * filters);
    Matrix of_x = make(runs * w.channels, length), of_delta = make(runs * filters, length);
    cuda::turn_places(stream(), w, w.in[0], w.in[1], runs, x.view(), of_x.view());
    cuda::turn_places(stream(), w, w.out[0], w.out[1], runs, delta.view(), of_delta.view());
    of_x.fetch();
    of_delta.fetch();
    EXPECT_TRUE(of_x.host == turned(w, w.in[0], w.in[1], examples, x));
    EXPECT_TRUE(of_delta.host == turned(w, w.out[0], w.out[1], examples, delta));
  }
}

// Slices may begin behind the last place of a run.
TEST_F(TurnedGradientTest, GiveGradientsSliceBySlice) {
  if (!cuda::device_reads_windows()) GTEST_SKIP() << "the device has no products of windows";
  for (int round = 0; round < 30; ++round) {
    const Window w = draw(3, 22);
    const Index runs = 1 + below(4), examples = 1 + below(9), filters = 32 + 8 * below(17);
    const Index slices = 1 + below(9), length = window_pieces::turned_length(w, examples);
    SCOPED_TRACE(text(w, filters, examples, runs));
    Matrix x = make(runs * examples, w.places() * w.channels);
    Matrix delta = make(x.rows, w.out_places() * filters);
    Matrix of_x = make(runs * w.channels, length), of_delta = make(runs * filters, length);
    const Index padded = window_pieces::padded_channels<float>(w);
    Matrix parts = make(runs * slices * filters, w.taps() * padded);
    cuda::turn_places(stream(), w, w.in[0], w.in[1], runs, x.view(), of_x.view());
    cuda::turn_places(stream(), w, w.out[0], w.out[1], runs, delta.view(), of_delta.view());
    cuda::multiply_turned_slices(stream(), w, examples, of_delta.view(), of_x.view(), runs, slices,
                                 parts.view());
    parts.fetch();
    for (int look = 0; look < 100; ++look) {
      const Index r = below(runs), k = below(filters), tap = below(w.taps());
      const Index c = below(w.channels);
      const Sum sum = sum_of(w, x, delta, {r * examples, (r + 1) * examples}, k, tap, c);
      double found = 0.0;
      for (Index s = 0; s < slices; ++s)
        found += parts((r * slices + s) * filters + k, tap * padded + c);
      ASSERT_NEAR(found, sum.value, sum.bound)
          << "run " << r << ", filter " << k << ", tap " << tap << ", channel " << c;
    }
  }
}

// Of runs together, of each by itself, and at the front of another rank's examples. Large ones are
// turned in several pieces.
TEST_F(TurnedGradientTest, AreThoseOfRuns) {
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  int together = 0, in_pieces = 0;
  for (int round = 0; round < 25; ++round) {
    const bool is_large = round == 0, is_same = round == 1;
    const Window w = is_large  ? draw_same(100, 120, 160)
                     : is_same ? draw_same(3, 40, 64)
                               : draw(3, 40);
    const Index k = is_large ? 160 : 32 + 8 * below(17), taps = w.taps();
    const Index four = window_pieces::turned_floats(w, k, 4);
    const Index e = is_large  ? window_pieces::kTurnedFloats / four * 4 + 1
                    : is_same ? 32
                              : 1 + below(40);
    const Index run = is_large ? e : (e + 7) / 8;
    SCOPED_TRACE(text(w, k, run, window_pieces::quotient_up(e, run)));
    Matrix x = make(e, w.places() * w.channels), delta = make(e, w.out_places() * k);
    std::vector<Range> runs;
    for (Index first = 0; first < e; first += run)
      runs.push_back({first, std::min(e, first + run)});
    Matrix terms = make(Index(runs.size()), k * w.channels * taps + 8);
    const bool done = kernels->gradients(w, delta.view(), x.view(), runs, 0.5f, k, terms.view());
    EXPECT_EQ(done, cuda::device_reads_windows() && window_pieces::can_turn(w, k, run) &&
                        e >= 2 * run && window_pieces::runs_turned(w, k, run) > 1);
    together += done;
    in_pieces += window_pieces::examples_turned(w, k, run) < run;
    terms.fetch();
    const Index chosen = below(Index(runs.size()));
    const Range of = runs[std::size_t(chosen)];
    Matrix term = make(k, w.channels * taps);
    kernels->gradient(w, delta.view().row_range(of.begin, of.count()),
                      x.view().row_range(of.begin, of.count()), 0.5f, term.view());
    term.fetch();
    for (int look = 0; look < 200; ++look) {
      const Index r = below(k), c = below(term.cols);
      const Sum sum = sum_of(w, x, delta, of, r, c % taps, c / taps);
      ASSERT_NEAR(term(r, c), 0.5 * sum.value, 0.5 * sum.bound) << r << ", " << c;
    }
    if (done)
      EXPECT_TRUE(
          std::equal(term.host.begin(), term.host.end(), terms.host.begin() + chosen * terms.cols));
    expect_bits_elsewhere(*kernels, w, x, delta, of, term);
  }
  EXPECT_EQ(together > 0, cuda::device_reads_windows());
  EXPECT_GT(in_pieces, 0);
}

}  // namespace
}  // namespace norn
