// SPDX-License-Identifier: Apache-2.0
// Convolutions against float64 loops over their definition, of shapes drawn at random.

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;

/// Float32 sums: error relative to the sum of the terms' magnitudes.
constexpr double kTolerance = 2e-6;

struct Case {
  Window window;
  Index filters = 1;
  Index examples = 1;
  std::string text() const {
    const auto axes = [](const std::array<Index, 3>& a) {
      return fmt::format("{}x{}x{}", a[0], a[1], a[2]);
    };
    return fmt::format("in {} out {} kernel {} stride {} padding {} C {} {} K {} E {}",
                       axes(window.in), axes(window.out), axes(window.kernel), axes(window.stride),
                       axes(window.padding), window.channels,
                       window.order == UnitOrder::file ? "file" : "last", filters, examples);
  }
};

/// A sum in float64 with the magnitudes of its terms.
struct Sum {
  double value = 0.0;
  double magnitude = 1e-30;
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

class ConvolutionTest : public samples::RandomTest {
 protected:
  Index one_of(const std::vector<Index>& choices) {
    return choices[std::size_t(below(Index(choices.size())))];
  }

  Case draw() {
    Case drawn;
    Window& window = drawn.window;
    const auto dimensions = std::size_t(1 + below(3));
    const Index most = dimensions == 3 ? 6 : 19;
    for (std::size_t a = 0; a < dimensions; ++a) {
      window.in[a] = 1 + below(most);
      window.kernel[a] = 1 + below(dimensions == 3 ? 4 : 11);
      window.stride[a] = 1 + below(4);
      window.padding[a] = below(window.kernel[a]);
      const Index room = window.in[a] + 2 * window.padding[a] - window.kernel[a];
      window.out[a] = room < 0 ? 1 : room / window.stride[a] + 1;
    }
    window.channels = one_of({1, 3, 5, 8, dimensions == 3 ? 13 : 96});
    window.order = below(2) == 0 ? UnitOrder::file : UnitOrder::channels_last;
    drawn.filters = 1 + 2 * below(12);
    drawn.examples = 1 + below(9);
    return drawn;
  }

  PaddedMatrix<float> random_matrix(Index rows, Index cols, Index padding) {
    PaddedMatrix<float> m(rows, cols, padding);
    samples::fill_normal(m.view(), random_);
    return m;
  }

  /// use(window, tap, unit of channel 0, step from channel to channel) of every tap in the source.
  template <typename Use>
  static void for_each_tap(const Window& w, const Use& use) {
    const Index step = w.order == UnitOrder::file ? w.places() : 1;
    const Index apart = w.order == UnitOrder::file ? 1 : w.channels;
    for (Index oz = 0; oz < w.out[2]; ++oz)
      for (Index oy = 0; oy < w.out[1]; ++oy)
        for (Index ox = 0; ox < w.out[0]; ++ox)
          for (Index kz = 0; kz < w.kernel[2]; ++kz)
            for (Index ky = 0; ky < w.kernel[1]; ++ky)
              for (Index kx = 0; kx < w.kernel[0]; ++kx) {
                const Index x = ox * w.stride[0] - w.padding[0] + kx;
                const Index y = oy * w.stride[1] - w.padding[1] + ky;
                const Index z = oz * w.stride[2] - w.padding[2] + kz;
                if (x < 0 || y < 0 || z < 0 || x >= w.in[0] || y >= w.in[1] || z >= w.in[2])
                  continue;
                use((oz * w.out[1] + oy) * w.out[0] + ox,
                    (kz * w.kernel[1] + ky) * w.kernel[0] + kx,
                    ((z * w.in[1] + y) * w.in[0] + x) * apart, step);
              }
  }

  static void expect_near(MatrixView<float> found, const std::vector<Sum>& expected,
                          const char* what) {
    double worst = 0.0;
    for (Index r = 0; r < found.rows; ++r)
      for (Index c = 0; c < found.cols; ++c) {
        const Sum& sum = expected[std::size_t(r * found.cols + c)];
        const double error = std::abs(double(found(r, c)) - sum.value) / sum.magnitude;
        if (!(error <= worst)) worst = error;  // NaN stays
      }
    EXPECT_LE(worst, kTolerance) << what;
  }
};

TEST_F(ConvolutionTest, AgreesWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_convolution(executor);
  for (int round = 0; round < 40; ++round) {
    const Case drawn = draw();
    SCOPED_TRACE(drawn.text());
    const Window& w = drawn.window;
    const Index taps = w.taps(), outs = w.out_places(), k = drawn.filters, e = drawn.examples;
    auto x = random_matrix(e, w.places() * w.channels, 5);
    auto filters = random_matrix(k, w.channels * taps, 3);
    auto delta = random_matrix(e, outs * k, 0), z = random_matrix(e, outs * k, 0);
    auto dx = random_matrix(e, w.places() * w.channels, 2);
    PaddedMatrix<float> term(k, w.channels * taps, 4);
    const float scale = uniform(0.1f, 2.0f);
    const bool adds = below(2) == 0, has_bias = below(3) == 0;
    auto bias = random_matrix(1, k, 0);
    std::vector<Sum> zs(std::size_t(z.rows() * z.cols())), dxs(std::size_t(e * dx.cols())),
        terms(std::size_t(k * filters.cols()));
    for (Index i = 0; has_bias && i < e * z.cols(); ++i) zs[std::size_t(i)].add(bias(0, i % k));
    for (Index b = 0; adds && b < e; ++b) {
      for (Index i = 0; !has_bias && i < z.cols(); ++i)
        zs[std::size_t(b * z.cols() + i)].add(z(b, i));
      for (Index i = 0; i < dx.cols(); ++i) dxs[std::size_t(b * dx.cols() + i)].add(dx(b, i));
    }
    for_each_tap(w, [&](Index window, Index tap, Index unit, Index step) {
      for (Index b = 0; b < e; ++b)
        for (Index f = 0; f < k; ++f)
          for (Index c = 0; c < w.channels; ++c) {
            const Index source = unit + c * step, weight = c * taps + tap, to = window * k + f;
            zs[std::size_t(b * z.cols() + to)].add(double(x(b, source)) * filters(f, weight));
            dxs[std::size_t(b * dx.cols() + source)].add(double(delta(b, to)) * filters(f, weight));
            terms[std::size_t(f * filters.cols() + weight)].add(double(scale) * x(b, source) *
                                                                delta(b, to));
          }
    });
    const Existing existing = adds ? Existing::add : Existing::overwrite;
    if (has_bias)
      kernels->forward_from_bias(w, x.view(), filters.view(), {bias.view().data, k}, z.view());
    else
      kernels->forward(w, x.view(), filters.view(), z.view(), existing);
    kernels->input_delta(w, delta.view(), filters.view(), dx.view(), existing);
    kernels->gradient(w, delta.view(), x.view(), scale, term.view());
    expect_near(z.view(), zs, "forward");
    expect_near(dx.view(), dxs, "input_delta");
    expect_near(term.view(), terms, "gradient");
    EXPECT_TRUE(dx.padding_is_intact() && term.padding_is_intact());
  }
}

TEST_F(ConvolutionTest, HasTheSameBitsOnAnyLanes) {
  for (int round = 0; round < 6; ++round) {
    const Case drawn = draw();
    SCOPED_TRACE(drawn.text());
    const Window& w = drawn.window;
    auto x = random_matrix(drawn.examples, w.places() * w.channels, 5);
    auto filters = random_matrix(drawn.filters, w.channels * w.taps(), 0);
    auto delta = random_matrix(drawn.examples, w.out_places() * drawn.filters, 0);
    samples::expect_same_bits_however_run([&](Executor& executor) {
      const auto kernels = samples::make_convolution(executor);
      PaddedMatrix<float> z(delta.rows(), delta.cols(), 0), dx(x.rows(), x.cols()),
          term(filters.rows(), filters.cols());
      kernels->forward(w, x.view(), filters.view(), z.view(), Existing::overwrite);
      kernels->input_delta(w, delta.view(), filters.view(), dx.view(), Existing::overwrite);
      kernels->gradient(w, delta.view(), x.view(), 0.5f, term.view());
      auto bits = samples::bits_of(z.view());
      samples::append(bits, samples::bits_of(dx.view()));
      samples::append(bits, samples::bits_of(term.view()));
      return bits;
    });
  }
}

TEST_F(ConvolutionTest, GivesAnExampleItsBitsInAnyCompany) {
  Executor executor(3);
  const auto kernels = samples::make_convolution(executor);
  for (int round = 0; round < 12; ++round) {
    Case drawn = draw();
    drawn.examples = 2 + below(36);
    SCOPED_TRACE(drawn.text());
    const Window& w = drawn.window;
    const Index e = drawn.examples, outs = w.out_places() * drawn.filters;
    auto x = random_matrix(e, w.places() * w.channels, 1);
    auto filters = random_matrix(drawn.filters, w.channels * w.taps(), 0);
    auto delta = random_matrix(e, outs, 0);
    PaddedMatrix<float> z(e, outs, 0), dx(e, x.cols(), 0), alone(1, outs, 0), dx_alone(1, x.cols());
    kernels->forward(w, x.view(), filters.view(), z.view(), Existing::overwrite);
    kernels->input_delta(w, delta.view(), filters.view(), dx.view(), Existing::overwrite);
    const Index chosen = below(e);
    kernels->forward(w, x.view().row_range(chosen, 1), filters.view(), alone.view(),
                     Existing::overwrite);
    kernels->input_delta(w, delta.view().row_range(chosen, 1), filters.view(), dx_alone.view(),
                         Existing::overwrite);
    EXPECT_TRUE(std::equal(z.view().row(chosen), z.view().row(chosen) + outs, alone.view().row(0)));
    EXPECT_TRUE(std::equal(dx.view().row(chosen), dx.view().row(chosen) + x.cols(),
                           dx_alone.view().row(0)));
  }
}

TEST_F(ConvolutionTest, TurnsUnitsIntoEitherOrder) {
  Executor executor(2);
  const auto kernels = samples::make_convolution(executor);
  for (int round = 0; round < 20; ++round) {
    const Index channels = 1 + below(9), places = 1 + below(50), e = 1 + below(5);
    auto last = random_matrix(e, channels * places, 3);
    PaddedMatrix<float> file(e, channels * places);
    kernels->to_file_order(channels, last.view(), file.view());
    for (Index b = 0; b < e; ++b)
      for (Index p = 0; p < places; ++p)
        for (Index c = 0; c < channels; ++c)
          ASSERT_EQ(file(b, c * places + p), last(b, p * channels + c));
    auto back = random_matrix(e, channels * places, 2);
    PaddedMatrix<float> before = back;
    kernels->to_channels_last(channels, file.view(), back.view(), Existing::add);
    for (Index b = 0; b < e; ++b)
      for (Index i = 0; i < last.cols(); ++i) ASSERT_EQ(back(b, i), last(b, i) + before(b, i));
    kernels->to_channels_last(channels, file.view(), back.view(), Existing::overwrite);
    for (Index b = 0; b < e; ++b)
      for (Index i = 0; i < last.cols(); ++i) ASSERT_EQ(back(b, i), last(b, i));
    EXPECT_TRUE(file.padding_is_intact() && back.padding_is_intact());
  }
}

TEST_F(ConvolutionTest, SaysWhichShapesDoNotFit) {
  Executor executor(1);
  const auto kernels = samples::make_convolution(executor);
  Case drawn = draw();
  const Window& w = drawn.window;
  auto x = random_matrix(2, w.places() * w.channels, 0);
  auto filters = random_matrix(3, w.channels * w.taps(), 0);
  auto z = random_matrix(2, w.out_places() * 3, 0), wide = random_matrix(2, w.out_places() * 3, 1);
  const auto fails = [&](Window window, MatrixView<float> to) {
    EXPECT_THROW(kernels->forward(window, x.view(), filters.view(), to, Existing::overwrite),
                 ShapeError);
    EXPECT_THROW(kernels->forward_from_bias(window, x.view(), filters.view(),
                                            {filters.view().data, filters.rows()}, to),
                 ShapeError);
    EXPECT_THROW(kernels->gradient(window, to, x.view(), 1.0f, filters.view()), ShapeError);
    EXPECT_THROW(kernels->input_delta(window, to, filters.view(), x.view(), Existing::add),
                 ShapeError);
  };
  Window other = w;
  other.channels += 1;
  fails(other, z.view());
  other = w;
  other.out[2] += 1;
  fails(other, z.view());
  other = w;
  other.stride[0] = 0;
  fails(other, z.view());
  fails(w, wide.view());
  EXPECT_THROW(kernels->to_file_order(w.channels + x.cols(), x.view(), x.view()), ShapeError);
}

}  // namespace
}  // namespace norn
