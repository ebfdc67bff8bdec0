// SPDX-License-Identifier: Apache-2.0
// Poolings against float64 loops over their definition, of shapes drawn at random.

#include "tests/kernels/device.h"
#include "tests/kernels/pooling_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace norn {
namespace {

using samples::Case;
using samples::Number;
using samples::Numbers;
using samples::PaddedMatrix;
using samples::Sums;
using samples::unit;

/// The places of a window that are in the source, in the order (z, y, x).
std::vector<Index> places_of(const Window& w, Index number) {
  const std::array<Index, 3> at = {number % w.out[0], number / w.out[0] % w.out[1],
                                   number / w.out[0] / w.out[1]};
  const auto is_in = [&](std::size_t axis, Index p) {
    const Index first = at[axis] * w.stride[axis] - w.padding[axis];
    return p >= first && p < first + w.kernel[axis];
  };
  std::vector<Index> places;
  for (Index p = 0; p < w.places(); ++p)
    if (is_in(0, p % w.in[0]) && is_in(1, p / w.in[0] % w.in[1]) && is_in(2, p / w.in[0] / w.in[1]))
      places.push_back(p);
  return places;
}

/// The first NaN, or else the first of the largest.
std::size_t winner(const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i])) return i;
  return std::size_t(std::ranges::max_element(values) - values.begin());
}

/// y(e, result) and, of each source, d y(e, result) / d x(e, unit) by each(e, result, source, unit,
/// slope).
template <typename Each>
Numbers pool_windows(Case& drawn, bool largest, const Each& each) {
  Numbers y(std::size_t(drawn.examples * drawn.results()));
  for (std::size_t s = 0; s < drawn.x.size(); ++s) {
    const Window& w = drawn.windows[s];
    for (Index number = 0; number < w.out_places(); ++number) {
      const std::vector<Index> places = places_of(w, number);
      for (Index e = 0; e < drawn.examples; ++e)
        for (Index c = 0; c < w.channels; ++c) {
          std::vector<float> values;
          for (Index p : places) values.push_back(drawn.x[s](e, unit(w, p, c)));
          Number& to = y[std::size_t(e * drawn.results() + number * w.channels + c)];
          const std::size_t won = winner(values);
          if (largest) to.add(values[won]);
          for (std::size_t i = 0; i < places.size(); ++i) {
            const double slope = largest ? double(i == won) : 1.0 / double(places.size());
            if (!largest) to.add(slope * values[i]);
            each(e, number * w.channels + c, s, unit(w, places[i], c), slope);
          }
        }
    }
  }
  return y;
}

/// The same of local response normalisation.
template <typename Each>
Numbers normalise(Case& drawn, const LocalResponseNormalization& lrn, const Each& each) {
  Numbers y(std::size_t(drawn.examples * drawn.results()));
  const double factor = double(lrn.alpha) / lrn.n, beta = lrn.beta;
  for (std::size_t s = 0; s < drawn.x.size(); ++s) {
    const Window& w = drawn.windows[s];
    for (Index e = 0; e < drawn.examples; ++e)
      for (Index p = 0; p < w.places(); ++p)
        for (Index c = 0; c < w.channels; ++c) {
          const Index first = std::max<Index>(0, c - (lrn.n - 1) / 2);
          const Index end = std::min(w.channels, c - (lrn.n - 1) / 2 + lrn.n);
          const auto x = [&](Index channel) { return double(drawn.x[s](e, unit(w, p, channel))); };
          double sum = lrn.k;
          for (Index i = first; i < end; ++i) sum += factor * x(i) * x(i);
          const Index to = p * w.channels + c;
          y[std::size_t(e * drawn.results() + to)].add(x(c) * std::pow(sum, -beta));
          each(e, to, s, unit(w, p, c), std::pow(sum, -beta));
          for (Index i = first; i < end; ++i)
            each(e, to, s, unit(w, p, i),
                 -2.0 * factor * beta * x(c) * x(i) * std::pow(sum, -beta - 1.0));
        }
  }
  return y;
}

class PoolingTest : public samples::PoolingCases {
 protected:
  /// Compares forward() and backward() with a reference: reference(each) as pool_windows().
  template <typename Reference>
  void compare(PoolingKernels& kernels, const Pooling& pooling, Case& drawn, double tolerance,
               const Reference& reference) {
    SCOPED_TRACE(text_of(drawn));
    const auto sources = drawn.sources();
    auto y = random_matrix(drawn.examples, drawn.results(), 3), delta = y;
    const Existing existing = below(2) == 0 ? Existing::add : Existing::overwrite;
    std::vector<PaddedMatrix<float>> dx;
    std::vector<Numbers> dxs;
    for (const PaddedMatrix<float>& x : drawn.x) {
      dx.push_back(random_matrix(x.rows(), x.cols(), 2));
      dxs.emplace_back(std::size_t(x.rows() * x.cols()));
      for (Index i = 0; existing == Existing::add && i < x.rows() * x.cols(); ++i)
        dxs.back()[std::size_t(i)].add(dx.back()(i / x.cols(), i % x.cols()));
    }
    const Numbers ys = reference([&](Index e, Index result, std::size_t s, Index at, double slope) {
      dxs[s][std::size_t(e * drawn.x[s].cols() + at)].add(slope * delta(e, result));
    });
    kernels.forward(pooling, sources, y.view());
    samples::expect_near(y.view(), ys, tolerance, "forward");
    EXPECT_TRUE(y.padding_is_intact());
    for (std::size_t s = 0; s < dx.size(); ++s) {
      kernels.backward(pooling, sources, s, delta.view(), dx[s].view(), existing);
      samples::expect_near(dx[s].view(), dxs[s], tolerance, "backward");
      EXPECT_TRUE(dx[s].padding_is_intact());
    }
  }
};

TEST_F(PoolingTest, FindsTheLargestUnitOfWindows) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 60; ++round) {
    Case drawn = draw(draw_window(), round % 3 == 0 ? 2 : 1, 1 + below(5), round % 4);
    compare(*kernels, MaxPooling{}, drawn, 2e-6,
            [&](const auto& each) { return pool_windows(drawn, true, each); });
  }
}

TEST_F(PoolingTest, FindsTheMeanOfWindows) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 40; ++round) {
    Case drawn = draw(draw_window(), round % 3 == 0 ? 2 : 1, 1 + below(5));
    compare(*kernels, AveragePooling{}, drawn, 2e-6,
            [&](const auto& each) { return pool_windows(drawn, false, each); });
  }
}

TEST_F(PoolingTest, NormalisesResponses) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 30; ++round) {
    const LocalResponseNormalization lrn{uniform(0.5f, 3.0f), int(1 + below(17)),
                                         uniform(0.0f, 5.0f), uniform(0.1f, 1.5f)};
    SCOPED_TRACE(fmt::format("k {} n {} alpha {} beta {}", lrn.k, lrn.n, lrn.alpha, lrn.beta));
    Window places = without_windows(draw_window());
    if (round % 10 == 5) {  // more channels than a GPU's block has in shared memory
      places.in = places.out = {1 + below(2), 1 + below(2), 1};
      places.channels = 4000 + below(300);
    }
    Case drawn = draw(places, round % 3 == 0 ? 2 : 1, 1 + below(3));
    compare(*kernels, lrn, drawn, 8e-6,
            [&](const auto& each) { return normalise(drawn, lrn, each); });
  }
}

// A GPU may take the delta through the function of the source's layer at once.
TEST_F(PoolingTest, GoesThroughFunctionsBitByBit) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  const std::vector<Activation> functions{Relu{}, LeakyRelu{0.3f}, Linear{}, Sigmoid{}};
  const std::vector<Pooling> poolings{MaxPooling{}, AveragePooling{}, LocalResponseNormalization{},
                                      Maxout{}};
  for (int round = 0; round < 40; ++round) {
    const Pooling& pooling = poolings[std::size_t(round) % poolings.size()];
    const Activation& f = functions[std::size_t(below(Index(functions.size())))];
    const Window drawn_window = draw_window();
    Case drawn = draw(round % 4 < 2 ? drawn_window : without_windows(drawn_window),
                      round % 4 == 3 ? 2 : 1, 1 + below(5), below(3));
    SCOPED_TRACE(text_of(drawn));
    const Index units = drawn.x[0].cols();
    auto delta = random_matrix(drawn.examples, drawn.results(), below(3));
    auto dx = random_matrix(drawn.examples, units, below(3));
    PaddedMatrix<float> expected = dx;
    std::vector<Bfloat16> copy(std::size_t(drawn.examples * units));
    const bool done =
        kernels->backward_through(pooling, drawn.sources(), 0, delta.view(), f,
                                  {dx.view(), {copy.data(), drawn.examples, units, units}});
    EXPECT_EQ(done, samples::is_gpu() && !std::holds_alternative<Sigmoid>(f));
    if (done)
      kernels->backward(pooling, drawn.sources(), 0, delta.view(), expected.view(),
                        Existing::overwrite);
    for (Index e = 0; e < drawn.examples; ++e)
      for (Index i = 0; i < units; ++i) {
        const float slope = std::visit([&](const auto& g) { return g.slope(drawn.x[0](e, i)); }, f);
        const float value = done ? expected(e, i) * slope : expected(e, i);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(dx(e, i)), std::bit_cast<std::uint32_t>(value))
            << e << ", " << i;
        if (done) {
          ASSERT_EQ(copy[std::size_t(e * units + i)].bits, Bfloat16::rounded(value).bits);
        }
      }
    EXPECT_TRUE(dx.padding_is_intact());
  }
}

TEST_F(PoolingTest, NormalisesZerosWithoutAConstant) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  Case drawn = draw(without_windows(draw_window()), 1, 2);
  std::fill_n(drawn.x[0].view().row(0), drawn.x[0].cols(), 0.0f);
  const Index units = drawn.results();
  auto delta = random_matrix(2, units, 0);
  PaddedMatrix<float> y(2, units), dx(2, units);
  for (const float beta : {0.0f, 0.75f}) {
    const LocalResponseNormalization lrn{.k = 0.0f, .beta = beta};
    kernels->forward(lrn, drawn.sources(), y.view());
    kernels->backward(lrn, drawn.sources(), 0, delta.view(), dx.view(), Existing::overwrite);
    for (Index i = 0; i < units; ++i) {
      ASSERT_EQ(y(0, i), 0.0f);
      ASSERT_TRUE(std::isfinite(dx(0, i)));
    }
  }
}

TEST_F(PoolingTest, FindsTheLargestOfSources) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 40; ++round) {
    Case drawn = draw_units(1 + below(300), 1 + below(4), 1 + below(5), round % 4);
    const auto at = [&](std::size_t s, Index u) {  // of unit u of files
      const Window& w = drawn.windows[s];
      return unit(w, u % w.places(), u / w.places());
    };
    compare(*kernels, Maxout{}, drawn, 1e-7, [&](const auto& each) {
      Numbers y(std::size_t(drawn.examples * drawn.results()));
      Window result = drawn.windows[0];
      result.order = UnitOrder::channels_last;
      for (Index e = 0; e < drawn.examples; ++e)
        for (Index u = 0; u < drawn.results(); ++u) {
          std::vector<float> values;
          for (std::size_t s = 0; s < drawn.x.size(); ++s)
            values.push_back(drawn.x[s](e, at(s, u)));
          const std::size_t won = winner(values);
          const Index to = unit(result, u % result.places(), u / result.places());
          y[std::size_t(e * drawn.results() + to)].value = values[won];
          each(e, to, won, at(won, u), 1.0);
        }
      return y;
    });
  }
}

/// What all functions make of examples [first, first + count), one after the other.
class AllPoolings {
 public:
  AllPoolings(Case windows, Case places, Case units, PaddedMatrix<float> delta)
      : windows_(std::move(windows)),
        places_(std::move(places)),
        units_(std::move(units)),
        delta_(std::move(delta)) {}

  std::vector<std::uint32_t> bits(PoolingKernels& kernels, Index first, Index count) {
    std::vector<std::uint32_t> bits;
    pool(kernels, MaxPooling{}, windows_, first, count, bits);
    pool(kernels, AveragePooling{}, windows_, first, count, bits);
    pool(kernels, LocalResponseNormalization{}, places_, first, count, bits);
    pool(kernels, Maxout{}, units_, first, count, bits);
    compare(kernels, first, count, bits);
    return bits;
  }

 private:
  /// The bits of the rows, one example's behind the other's.
  static void append(MatrixView<float> m, std::vector<std::uint32_t>& bits) {
    for (Index r = 0; r < m.rows; ++r) samples::append(bits, samples::bits_of(m.row_range(r, 1)));
  }
  void pool(PoolingKernels& kernels, const Pooling& pooling, Case& drawn, Index first, Index count,
            std::vector<std::uint32_t>& bits) {
    const auto sources = drawn.sources(first, count);
    PaddedMatrix<float> y(count, drawn.results(), 0), dx(count, drawn.x.back().cols(), 0);
    kernels.forward(pooling, sources, y.view());
    kernels.backward(pooling, sources, sources.size() - 1,
                     delta_.view().row_range(first, count).columns(0, y.cols()), dx.view(),
                     Existing::overwrite);
    append(y.view(), bits);
    append(dx.view(), bits);
  }
  void compare(PoolingKernels& kernels, Index first, Index count,
               std::vector<std::uint32_t>& bits) {
    const auto sources = units_.sources(first, count);
    Sums sums(count);
    PaddedMatrix<float> y(count, 1, 0), dx(count, units_.results(), 0);
    kernels.add_pair_sums(sources[0], sources[1], sums.view());
    kernels.compare(Similarity::cosine, sums.view(), y.view());
    kernels.compare_backward(Similarity::cosine, sums.view(),
                             delta_.view().row_range(first, count).columns(0, 1), sources[0],
                             sources[1], dx.view(), Existing::overwrite);
    append(y.view(), bits);
    append(dx.view(), bits);
  }
  Case windows_, places_, units_;
  PaddedMatrix<float> delta_;
};

TEST_F(PoolingTest, HasTheSameBitsOnAnyLanesAndInAnyCompany) {
  Executor executor(3);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 6; ++round) {
    const Index e = 2 + below(36);
    Case windows = draw(draw_window(), 2, e);
    Case places = draw(without_windows(draw_window()), 2, e);
    Case units = draw_units(1 + below(300), 2, e);
    SCOPED_TRACE(text_of(windows) + text_of(places) + text_of(units));
    const Index most = std::max({windows.results(), places.results(), units.results()});
    AllPoolings all(windows, places, units, random_matrix(e, most, 3));
    samples::expect_same_bits_however_run([&](Executor& any) {
      const auto those = samples::make_pooling(any);
      return all.bits(*those, 0, e);
    });
    // All rows of a function stand together: those of one example are picked out of them.
    std::vector<std::vector<std::uint32_t>> alone;
    for (Index b = 0; b < e; ++b) alone.push_back(all.bits(*kernels, b, 1));
    std::vector<std::uint32_t> together;
    std::size_t at = 0;
    for (const Index cols : {windows.results(), windows.x[1].cols(), windows.results(),
                             windows.x[1].cols(), places.results(), places.x[1].cols(),
                             units.results(), units.x[1].cols(), Index(1), units.results()}) {
      for (const auto& bits : alone)
        together.insert(together.end(), bits.begin() + Index(at), bits.begin() + Index(at) + cols);
      at += std::size_t(cols);
    }
    EXPECT_TRUE(together == all.bits(*kernels, 0, e));
  }
}

TEST_F(PoolingTest, SaysWhichShapesDoNotFit) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  Case drawn = draw(draw_window(), 2, 2);
  SCOPED_TRACE(text_of(drawn));
  auto y = random_matrix(2, drawn.results(), 0);
  const auto fails = [&](const Pooling& pooling, const std::vector<PoolingSource>& sources) {
    auto dx = random_matrix(2, drawn.x[0].cols(), 0);
    EXPECT_THROW(kernels->forward(pooling, sources, y.view()), ShapeError);
    EXPECT_THROW(kernels->backward(pooling, sources, 0, y.view(), dx.view(), Existing::add),
                 ShapeError);
  };
  fails(MaxPooling{}, {});
  const auto with = [&](const auto& change) {
    std::vector<PoolingSource> sources = drawn.sources();
    change(sources[1]);
    return sources;
  };
  fails(MaxPooling{}, with([](PoolingSource& s) { ++s.window.channels; }));
  fails(MaxPooling{}, with([](PoolingSource& s) { s.window.stride[2] = 0; }));
  fails(MaxPooling{}, with([](PoolingSource& s) { s.window.padding[1] = s.window.kernel[1]; }));
  fails(AveragePooling{}, with([](PoolingSource& s) { s.window.out[0] += 40; }));
  fails(AveragePooling{}, with([](PoolingSource& s) { s.x.values.rows = 1; }));
  fails(LocalResponseNormalization{}, with([](PoolingSource& s) { s.window.kernel[0] = 12; }));
  fails(Maxout{}, with([](PoolingSource& s) { s.window.kernel[0] = 12; }));
  Case beyond = draw(drawn.windows[0], 1, 2);  // the last window has no unit
  beyond.windows[0].out[0] += beyond.windows[0].in[0] + beyond.windows[0].padding[0];
  y = random_matrix(2, beyond.results(), 0);
  fails(MaxPooling{}, beyond.sources());
  Case places = draw(without_windows(drawn.windows[0]), 2, 2);
  y = random_matrix(2, places.results(), 0);
  fails(LocalResponseNormalization{.n = 0}, places.sources());
  const auto sources = places.sources();
  EXPECT_THROW(kernels->backward(Maxout{}, sources, 2, y.view(), places.x[0].view(), Existing::add),
               ShapeError);
}

}  // namespace
}  // namespace norn
