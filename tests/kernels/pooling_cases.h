// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling.h"
#include "norn/base/error.h"
#include "tests/kernels/executions.h"

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

/// Sources of poolings that are drawn at random, and what float64 says of them.
namespace norn::samples {

/// A number in float64 with the magnitude that float32 roundings are relative to.
struct Number {
  double value = 0.0;
  double magnitude = 1e-30;
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};
using Numbers = std::vector<Number>;

inline void expect_near(MatrixView<const float> found, const Numbers& expected, double tolerance,
                        const char* what) {
  for (Index r = 0; r < found.rows; ++r)
    for (Index c = 0; c < found.cols; ++c) {
      const Number& n = expected[std::size_t(r * found.cols + c)];
      const double value = found(r, c);
      const bool is_same = value == n.value || (std::isnan(value) && std::isnan(n.value));
      if (is_same) continue;
      ASSERT_LE(std::abs(value - n.value) / n.magnitude, tolerance)
          << what << " " << r << ", " << c << ": " << value << ", expected " << n.value;
    }
}

/// Sources of one pooling with their numbers.
struct Case {
  std::vector<Window> windows;
  std::vector<PaddedMatrix<float>> x;
  Index examples = 1;

  std::vector<PoolingSource> sources(Index first, Index count) {
    std::vector<PoolingSource> views;
    for (std::size_t s = 0; s < x.size(); ++s)
      views.push_back({windows[s], x[s].view().row_range(first, count)});
    return views;
  }
  std::vector<PoolingSource> sources() { return sources(0, examples); }
  Index results() const { return windows[0].out_places() * windows[0].channels; }
};

inline std::string text_of(const Case& drawn) {
  const auto axes = [](const std::array<Index, 3>& a) {
    return fmt::format("{}x{}x{}", a[0], a[1], a[2]);
  };
  std::string text = fmt::format("E {}", drawn.examples);
  for (const Window& w : drawn.windows)
    text += fmt::format("; in {} out {} kernel {} stride {} padding {} C {} {}", axes(w.in),
                        axes(w.out), axes(w.kernel), axes(w.stride), axes(w.padding), w.channels,
                        w.order == UnitOrder::file ? "file" : "last");
  return text;
}

inline Index unit(const Window& w, Index place, Index channel) {
  return w.order == UnitOrder::file ? channel * w.places() + place : place * w.channels + channel;
}

/// Sums of a pair.
struct Sums {
  explicit Sums(Index examples, bool with_squares = true)
      : products(std::size_t(examples)),
        first(std::size_t(with_squares ? examples : 0)),
        second(first) {}
  PairSums<FixedSum> view() { return {view_of(products), view_of(first), view_of(second)}; }
  bool operator==(const Sums&) const = default;
  std::vector<FixedSum> products, first, second;
};

class PoolingCases : public RandomTest {
 protected:
  Index one_of(const std::vector<Index>& choices) {
    return choices[std::size_t(below(Index(choices.size())))];
  }
  UnitOrder any_order() { return below(2) == 0 ? UnitOrder::file : UnitOrder::channels_last; }

  Window draw_window() {
    Window window;
    const auto dimensions = std::size_t(1 + below(3));
    const Index most = dimensions == 3 ? 6 : 19;
    const bool divides = below(4) == 0;  // every unit is in one window
    for (std::size_t a = 0; a < dimensions; ++a) {
      if (divides) {
        window.kernel[a] = window.stride[a] = 1 + below(4);
        window.out[a] = 1 + below(most / window.kernel[a]);
        window.in[a] = window.out[a] * window.kernel[a];
        continue;
      }
      window.in[a] = 1 + below(most);
      window.kernel[a] = 1 + below(dimensions == 3 ? 4 : 18);
      window.stride[a] = 1 + below(4);
      window.padding[a] = below(window.kernel[a]);
      const Index room = window.in[a] + 2 * window.padding[a] - window.kernel[a];
      window.out[a] = room < 0 ? 1 : room / window.stride[a] + 1;
      while ((window.out[a] - 1) * window.stride[a] - window.padding[a] >= window.in[a])
        --window.out[a];
    }
    window.channels = one_of({1, 3, 5, 8, 96, dimensions == 1 ? 300 : 13});
    return window;
  }

  /// The window's places, one unit each.
  static Window without_windows(Window window) {
    window.out = window.in;
    window.kernel = window.stride = {1, 1, 1};
    window.padding = {0, 0, 0};
    return window;
  }

  /// Numbers of one kind: normal ones, negative ones, ones with many ties, and those with NaN and
  /// infinities among them.
  void fill(MatrixView<float> m, Index kind) {
    fill_normal(m, random_);
    for (Index r = 0; r < m.rows; ++r)
      for (Index c = 0; c < m.cols; ++c) {
        if (kind == 1) m(r, c) -= 9.0f;
        if (kind >= 2) m(r, c) = float(below(3));
        if (kind == 3 && below(6) == 0)
          m(r, c) = below(3) == 0 ? -std::numeric_limits<float>::infinity()
                                  : std::numeric_limits<float>::quiet_NaN();
      }
  }
  PaddedMatrix<float> random_matrix(Index rows, Index cols, Index padding) {
    PaddedMatrix<float> m(rows, cols, padding);
    fill(m.view(), 0);
    return m;
  }

  Case draw(const Window& window, Index sources, Index examples, Index kind = 0) {
    Case drawn;
    drawn.examples = examples;
    for (Index s = 0; s < sources; ++s) {
      drawn.windows.push_back(window);
      drawn.windows.back().order = any_order();
      drawn.x.emplace_back(examples, window.places() * window.channels, below(4));
      fill(drawn.x.back().view(), kind);
    }
    return drawn;
  }

  /// Units in some order and number of channels that go well with those of `units`.
  Case draw_units(Index units, Index sources, Index examples, Index kind = 0) {
    Case drawn;
    for (Index s = 0; s < sources; ++s) {
      Window window;
      window.channels = 1 + below(units);
      while (units % window.channels != 0) ++window.channels;
      window.in[0] = window.out[0] = units / window.channels;
      Case one = draw(window, 1, examples, kind);
      drawn.windows.push_back(one.windows[0]);
      drawn.x.push_back(one.x[0]);
    }
    drawn.examples = examples;
    return drawn;
  }
};

}  // namespace norn::samples
