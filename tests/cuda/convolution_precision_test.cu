// SPDX-License-Identifier: Apache-2.0
// Convolutions in every precision against float64 sums over their definition, in several pieces
// too, and of an example in any company. Operands have few bits, so that their terms are exact.
#include "kernels/convolution.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/pointwise.h"
#include "kernels/window_phases.h"
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

constexpr int kLookedAt = 300;  // elements of a result

class ConvolutionPrecisionTest : public ::testing::TestWithParam<Precision>, protected WindowDraws {
 protected:
  /// A bf16 copy, which has the same values.
  struct Rounded {
    Buffer<Bfloat16> gpu;
    MatrixView<const Bfloat16> view(const Matrix& m) const {
      return {gpu.data(), m.rows, m.cols, m.cols};
    }
  };
  Rounded copy_of(const Matrix& m) {
    std::vector<Bfloat16> host;
    for (const float value : m.host) host.push_back(Bfloat16::rounded(value));
    Rounded copy{Buffer<Bfloat16>(m.rows * m.cols, memory_)};
    copy.gpu.write(host.data(), copy.gpu.size());
    return copy;
  }

  /// As many windows as places, so many that products copy blocks of them.
  void make_blocks(Window& w) {
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = w.out[a] = a == 0 ? one_of({8, 16, 32}) : 16;
      w.kernel[a] = 1 + 2 * below(3);
      w.stride[a] = 1;
      w.padding[a] = w.kernel[a] / 2;
    }
  }
  /// Images; large ones have more windows than a piece takes. Of some as many windows as places, of
  /// others filters as large as the image, or few channels and long strides.
  Window draw(bool is_large) {
    Window w;
    const Index kind = is_large ? 5 : below(5);
    const bool is_same = is_large || kind < 2, is_whole = kind == 2, is_first = kind == 3;
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = is_large ? 80 + below(30) : is_first ? 5 + below(30) : 1 + below(17);
      w.kernel[a] = is_large   ? 3
                    : is_whole ? w.in[a]
                    : is_same  ? 1 + 2 * below(4)
                               : 1 + below(is_first ? 11 : 7);
      w.stride[a] = is_same ? 1 : is_first ? one_of({2, 4}) : 1 + below(3);
      w.padding[a] = is_same ? w.kernel[a] / 2 : is_whole ? 0 : below(w.kernel[a]);
      const Index room = w.in[a] + 2 * w.padding[a] - w.kernel[a];
      w.out[a] = room < 0 ? 1 : room / w.stride[a] + 1;
    }
    if (is_same && !is_large && below(2) == 0) make_blocks(w);
    w.channels = is_large   ? one_of({3, 56, 64})
                 : is_first ? one_of({3, 4})
                            : one_of({1, 3, 8, 20, 32, 40, 64, 96, 136, 160, 224, 352});
    w.order = is_first || below(3) == 0 ? UnitOrder::file : UnitOrder::channels_last;
    return w;
  }
  /// Windows that stride, whose source's phases go where they belong at once if they fit.
  Window draw_phases(bool fit) {
    Window w;
    for (std::size_t a = 0; a < 2; ++a) {
      w.stride[a] = a == 0 ? 2 + below(2) : 1 + below(3);
      w.kernel[a] = w.stride[a] + below(3);
      w.in[a] = w.stride[a] * (2 + below(8)) + (fit ? 0 : 1);
      w.padding[a] = below(w.kernel[a]);
      w.out[a] = std::max<Index>(0, w.in[a] + 2 * w.padding[a] - w.kernel[a]) / w.stride[a] + 1;
    }
    w.channels = one_of({32, 40, 64, 96, 160, 224, 352});
    w.order = UnitOrder::channels_last;
    return w;
  }
  /// All that there are by turns.
  Window draw_of_round(int round) {
    if (round % 7 == 6) return draw_phases(round % 14 == 6);
    Window w = draw(round % 40 == 0);
    if (w.channels > 4 && below(3) > 0) w.order = UnitOrder::channels_last;
    return w;
  }
  static std::string text(const Window& w, Index k, Index e) {
    std::ostringstream text;
    text << "in " << w.in[0] << " x " << w.in[1] << ", kernel " << w.kernel[0] << " x "
         << w.kernel[1] << ", stride " << w.stride[0] << ", " << w.stride[1] << ", padding "
         << w.padding[0] << ", " << w.padding[1] << ", C " << w.channels << ", K " << k << ", E "
         << e << (w.order == UnitOrder::file ? ", file" : "");
    return text.str();
  }
  Index draw_filters() {
    return one_of({1, 7, 16, 32, 33, 40, 64, 96, 128, 136, 160, 192, 224, 352});
  }
  static Index unit(const Window& w, Index place, Index channel) {
    return w.order == UnitOrder::file ? channel * w.places() + place : place * w.channels + channel;
  }
  /// The place that a tap of a window reads, or -1.
  static Index place_of(const Window& w, Index window, Index tap) {
    const Index x = window % w.out[0] * w.stride[0] - w.padding[0] + tap % w.kernel[0];
    const Index y = window / w.out[0] * w.stride[1] - w.padding[1] + tap / w.kernel[0];
    return x < 0 || y < 0 || x >= w.in[0] || y >= w.in[1] ? -1 : y * w.in[0] + x;
  }

  /// A float64 sum; the bound of its error in float32 follows from how many terms it has.
  struct Sum {
    double value = 0.0, magnitude = 1e-30, terms = 0.0;
    void add(double term) {
      value += term;
      magnitude += std::abs(term);
      terms += 1.0;
    }
    double bound() const { return 0x1p-23 * (4.0 + std::sqrt(terms)) * magnitude; }
  };
  template <typename Expected>
  void expect_sums(Matrix& found, const char* what, const Expected& expected) {
    found.fetch();
    for (int i = 0; i < kLookedAt; ++i) {
      const Index r = below(found.rows), c = below(found.cols);
      const Sum sum = expected(r, c);
      ASSERT_NEAR(found(r, c), sum.value, sum.bound()) << what << " " << r << ", " << c;
    }
  }

  cuda::Stream stream() { return {nullptr, memory_, GetParam(), 132}; }
};

TEST_P(ConvolutionPrecisionTest, AgreesWithFloat64) {
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  for (int round = 0; round < 40; ++round) {
    const bool is_large = round % 20 == 0;
    const Window w = draw(is_large);
    const Index e = is_large ? 3 + below(4) : 1 + below(20);
    const Index k = draw_filters(), outs = w.out_places(), taps = w.taps();
    SCOPED_TRACE(text(w, k, e));
    Matrix x = make(e, w.places() * w.channels), filters = make(k, w.channels * taps);
    Matrix delta = make(e, outs * k), z = make(e, outs * k), dx = make(e, x.cols);
    Matrix term = make(k, filters.cols);
    const Matrix z_before{z.rows, z.cols, z.host, {}}, dx_before{dx.rows, dx.cols, dx.host, {}};
    const bool adds = below(2) == 0, has_bias = below(3) == 0, rounds = below(2) == 0;
    Matrix bias = make(1, k);
    Rounded rounded_x = copy_of(x), rounded_delta = copy_of(delta);
    const auto operand = [&](Matrix& m, Rounded& copy) {
      return rounds ? DenseOperand(m.view(), copy.view(m)) : DenseOperand(m.view());
    };
    const DenseOperand of_x = operand(x, rounded_x), of_delta = operand(delta, rounded_delta);
    const Existing existing = adds ? Existing::add : Existing::overwrite;
    if (has_bias)
      kernels->forward_from_bias(w, of_x, filters.view(), {bias.gpu.data(), k}, z.view());
    else
      kernels->forward(w, of_x, filters.view(), z.view(), existing);
    kernels->input_delta(w, of_delta, filters.view(), dx.view(), existing);
    kernels->gradient(w, of_delta, of_x, 0.5f, term.view());
    expect_sums(z, "forward", [&](Index r, Index c) {
      Sum sum;
      if (has_bias) sum.add(bias(0, c % k));
      if (adds && !has_bias) sum.add(z_before(r, c));
      for (Index t = 0; t < taps; ++t)
        if (const Index place = place_of(w, c / k, t); place >= 0)
          for (Index i = 0; i < w.channels; ++i)
            sum.add(x(r, unit(w, place, i)) * filters(c % k, i * taps + t));
      return sum;
    });
    expect_sums(dx, "input_delta", [&](Index r, Index c) {
      Sum sum;
      if (adds) sum.add(dx_before(r, c));
      const bool in_files = w.order == UnitOrder::file;
      const Index channel = in_files ? c / w.places() : c % w.channels;
      const Index place = in_files ? c % w.places() : c / w.channels;
      for (Index window = 0; window < outs; ++window)
        for (Index t = 0; t < taps; ++t)
          for (Index f = 0; f < k && place_of(w, window, t) == place; ++f)
            sum.add(delta(r, window * k + f) * filters(f, channel * taps + t));
      return sum;
    });
    expect_sums(term, "gradient", [&](Index r, Index c) {
      Sum sum;
      for (Index b = 0; b < e; ++b)
        for (Index window = 0; window < outs; ++window)
          if (const Index place = place_of(w, window, c % taps); place >= 0)
            sum.add(0.5 * x(b, unit(w, place, c / taps)) * delta(b, window * k + r));
      return sum;
    });
  }
}

// Pieces begin anywhere, and ranks have other examples: neither may be seen.
TEST_P(ConvolutionPrecisionTest, GivesAnExampleItsBitsInAnyCompany) {
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  for (int round = 0; round < 30; ++round) {
    const Window w = draw(round % 10 == 0);
    const Index e = 2 + below(9), k = draw_filters(), outs = w.out_places() * k;
    SCOPED_TRACE(text(w, k, e));
    Matrix x = make(e, w.places() * w.channels), filters = make(k, w.channels * w.taps());
    Matrix delta = make(e, outs), z = make(e, outs), dx = make(e, x.cols);
    kernels->forward(w, x.view(), filters.view(), z.view(), Existing::overwrite);
    kernels->input_delta(w, delta.view(), filters.view(), dx.view(), Existing::overwrite);
    const Index first = below(e), count = 1 + below(e - first);
    Matrix some_z = make(count, outs), some_dx = make(count, x.cols);
    Matrix term = make(k, filters.cols), term_of_copy = make(k, filters.cols);
    const auto some = [&](Matrix& m) { return m.view().row_range(first, count); };
    kernels->forward(w, some(x), filters.view(), some_z.view(), Existing::overwrite);
    kernels->input_delta(w, some(delta), filters.view(), some_dx.view(), Existing::overwrite);
    kernels->gradient(w, some(delta), some(x), 1.0f, term.view());
    // The same run of examples at the front of another rank's.
    Matrix copy_x = make(count, x.cols), copy_delta = make(count, outs);
    const auto copy_rows = [&](Matrix& from, Matrix& to) {
      to.gpu.write(from.host.data() + first * from.cols, to.gpu.size());
    };
    copy_rows(x, copy_x);
    copy_rows(delta, copy_delta);
    kernels->gradient(w, copy_delta.view(), copy_x.view(), 1.0f, term_of_copy.view());
    for (Matrix* m : {&z, &dx, &some_z, &some_dx, &term, &term_of_copy}) m->fetch();
    EXPECT_TRUE(std::equal(some_z.host.begin(), some_z.host.end(), z.host.begin() + first * outs));
    EXPECT_TRUE(
        std::equal(some_dx.host.begin(), some_dx.host.end(), dx.host.begin() + first * x.cols));
    EXPECT_TRUE(term.host == term_of_copy.host);
  }
}

// A product that applies an activation function, or its slope, has the bits of passes of their own.
TEST_P(ConvolutionPrecisionTest, AppliesFunctionsBitByBit) {
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  const auto pointwise = cuda::make_pointwise(stream());
  const std::vector<Activation> functions{Relu{}, LeakyRelu{0.3f}, Linear{}, Sigmoid{}};
  const bool copies = GetParam() == Precision::bf16;
  int forward = 0, backward = 0;
  for (int round = 0; round < 100; ++round) {
    Window w = draw(round % 50 == 0);
    if (below(3) > 0) w.order = UnitOrder::channels_last;
    const Index e = 1 + below(9), k = draw_filters(), outs = w.out_places() * k;
    const Activation& f = functions[std::size_t(below(Index(functions.size())))];
    SCOPED_TRACE(text(w, k, e));
    Matrix x = make(e, w.places() * w.channels), filters = make(k, w.channels * w.taps());
    Matrix delta = make(e, outs), y = make(e, outs), z = make(e, outs), bias = make(1, k);
    Matrix dx = make(e, x.cols), of_passes = make(e, x.cols);
    Rounded y_copy = copy_of(y), z_copy = copy_of(z);
    Rounded dx_copy = copy_of(dx), passes_copy = copy_of(of_passes);
    const auto bf16 = [&](Rounded& copy, const Matrix& m) {
      return copies ? MatrixView<Bfloat16>{copy.gpu.data(), m.rows, m.cols, m.cols}
                    : MatrixView<Bfloat16>{};
    };
    const VectorView<const float> of_filters{bias.gpu.data(), k};
    const auto expect_same = [&](Matrix& found, Matrix& expected, Rounded& a, Rounded& b) {
      found.fetch();
      expected.fetch();
      EXPECT_TRUE(found.host == expected.host);
      if (!copies) return;
      std::vector<Bfloat16> found_copy(found.host.size()), expected_copy(found.host.size());
      a.gpu.read(found_copy.data(), a.gpu.size());
      b.gpu.read(expected_copy.data(), b.gpu.size());
      EXPECT_TRUE(std::equal(found_copy.begin(), found_copy.end(), expected_copy.begin(),
                             [](Bfloat16 p, Bfloat16 q) { return p.bits == q.bits; }));
    };
    if (kernels->forward_to_outputs(w, x.view(), filters.view(), of_filters, f, {},
                                    {y.view(), bf16(y_copy, y)})) {
      kernels->forward_from_bias(w, x.view(), filters.view(), of_filters, z.view());
      pointwise->activate(f, {}, z.view(), {.bf16 = bf16(z_copy, z)});
      expect_same(y, z, y_copy, z_copy);
      ++forward;
    }
    if (kernels->input_delta_through(w, delta.view(), filters.view(), f, 1.0f, x.view(),
                                     {dx.view(), bf16(dx_copy, dx)})) {
      kernels->input_delta(w, delta.view(), filters.view(), of_passes.view(), Existing::overwrite);
      pointwise->multiply_slope(f, x.view(), of_passes.view(), bf16(passes_copy, dx));
      expect_same(dx, of_passes, dx_copy, passes_copy);
      ++backward;
    }
  }
  const bool reads = cuda::device_reads_windows() && GetParam() != Precision::fp32;
  EXPECT_EQ(forward > 0, reads);
  EXPECT_GT(backward, 0);
}

/// In bfloat16 alone there is what floats are rounded to.
class ConvolutionInBf16Test : public ConvolutionPrecisionTest {
 protected:
  struct Alone {
    Matrix floats;
    Rounded copy;
    MatrixView<float> none() const { return {nullptr, floats.rows, floats.cols, floats.cols}; }
    MatrixView<Bfloat16> bf16() { return {copy.gpu.data(), floats.rows, floats.cols, floats.cols}; }
    DenseOperand operand() { return {none(), bf16()}; }
    DenseResult result() { return {none(), bf16()}; }
    DenseResult both() { return {floats.view(), bf16()}; }
    std::vector<Bfloat16> fetch() {
      std::vector<Bfloat16> all(floats.host.size());
      copy.gpu.read(all.data(), copy.gpu.size());
      return all;
    }
  };
  Alone make_alone(Index rows, Index cols) {
    Matrix m = make(rows, cols);
    Rounded copy = copy_of(m);
    return {std::move(m), std::move(copy)};
  }
  static void expect_bits(Alone& found, Alone& expected, const char* what) {
    const std::vector<Bfloat16> a = found.fetch(), b = expected.fetch();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(a[i].bits, b[i].bits)
          << what << ", element " << i << ": " << a[i].value() << ", expected " << b[i].value();
  }
  static void multiply_in_place(Matrix& m, float factor) {
    m.fetch();
    for (float& value : m.host) value *= factor;
    m.gpu.write(m.host.data(), m.gpu.size());
  }
  /// Of runs of the examples, together and each by itself.
  void expect_gradients(ConvolutionKernels& kernels, const Window& w, Alone& delta,
                        const DenseOperand& x, const Matrix& shape, Index k) {
    const Index e = shape.rows, depth = w.channels * w.taps(), run = 1 + below(3);
    std::vector<Range> runs;
    for (Index first = 0; first < e; first += run)
      runs.push_back({first, std::min(e, first + run)});
    Matrix together = make(Index(runs.size()), k * depth + 8), alone = make(k, depth);
    const bool done = kernels.gradients(w, delta.operand(), x, runs, 0.25f, k, together.view());
    const bool is_together =
        window_pieces::can_read(w, k)
            ? x.bf16.data != nullptr
            : !window_pieces::can_fold(w, k, true) && window_pieces::runs_written(w, run) >= 2;
    EXPECT_EQ(done, is_together && e >= 2 * run);
    if (!done) return;
    together.fetch();
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const Index first = runs[r].begin, count = runs[r].count();
      kernels.gradient(w, delta.operand().row_range(first, count), x.row_range(first, count), 0.25f,
                       alone.view());
      alone.fetch();
      EXPECT_TRUE(std::equal(alone.host.begin(), alone.host.end(),
                             together.host.begin() + Index(r) * together.cols))
          << "gradient of run " << r << " of " << run << " examples each";
    }
  }
  void expect_file_order(ConvolutionKernels& kernels, Alone& delta, Index k) {
    Matrix turned = make(delta.floats.rows, delta.floats.cols);
    Matrix of_floats = make(delta.floats.rows, delta.floats.cols);
    kernels.to_file_order(k, delta.operand(), turned.view());
    kernels.to_file_order(k, delta.floats.view(), of_floats.view());
    turned.fetch();
    of_floats.fetch();
    EXPECT_TRUE(turned.host == of_floats.host) << "file order";
  }
  void expect_gradient(ConvolutionKernels& kernels, const Window& w, Alone& delta,
                       const DenseOperand& of_x, Alone& x, Index k) {
    Matrix term = make(k, w.channels * w.taps()), expected = make(k, term.cols);
    kernels.gradient(w, delta.operand(), of_x, 0.5f, term.view());
    kernels.gradient(w, delta.floats.view(), x.floats.view(), 0.5f, expected.view());
    term.fetch();
    expected.fetch();
    EXPECT_TRUE(term.host == expected.host) << "gradient";
  }
  /// Sums in another order, rounded.
  static void expect_near(Alone& found, Alone& expected, Index terms) {
    const std::vector<Bfloat16> a = found.fetch(), b = expected.fetch();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i].value(), b[i].value(),
                  0x1p-7f * std::abs(b[i].value()) + 1e-5f * std::sqrt(float(terms)))
          << i;
  }
};

TEST_P(ConvolutionInBf16Test, HasTheBitsOfRoundedFloats) {
  if (!cuda::device_reads_windows()) GTEST_SKIP() << "the device has no products of windows";
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  const auto pointwise = cuda::make_pointwise(stream());
  const std::vector<Activation> functions{Relu{}, LeakyRelu{0.3f}, Linear{}};
  int read = 0, written = 0, folded = 0, products = 0, placed = 0, phased = 0, gathered = 0;
  for (int round = 0; round < 140; ++round) {
    const Window w = draw_of_round(round);
    const Index e = 1 + below(9), taps = w.taps(), outs = w.out_places();
    const Index k = one_of({32, 40, 64, 72, 96, 128, 136, 160, 192, 200, 224, 264, 352});
    const Activation& f = functions[std::size_t(below(Index(functions.size())))];
    SCOPED_TRACE(text(w, k, e));
    const bool reads = window_pieces::can_read(w, k);
    Alone x = make_alone(e, w.places() * w.channels), delta = make_alone(e, outs * k);
    Alone y = make_alone(e, outs * k), z = make_alone(e, outs * k);
    Alone dx = make_alone(e, x.floats.cols), through = make_alone(e, x.floats.cols);
    Matrix filters = make(k, w.channels * taps), bias = make(1, k);
    const VectorView<const float> of_filters{bias.gpu.data(), k};
    const DenseOperand of_x = reads ? x.operand() : DenseOperand(x.floats.view());
    DropoutMask dropout;
    if (below(2) == 0)
      dropout =
          DropoutMask::inverted(float(1 + below(99)) / 100.0f,
                                Philox::stream(random_(), RandomPurpose::dropout), below(1000), 0);
    dropout.places = outs;
    ASSERT_TRUE(
        kernels->forward_to_outputs(w, of_x, filters.view(), of_filters, f, dropout, y.result()));
    kernels->forward_from_bias(w, x.floats.view(), filters.view(), of_filters, z.floats.view());
    const MatrixView<float> of_windows{z.floats.gpu.data(), e * outs, k, k};
    pointwise->activate(f, dropout, of_windows, {.bf16 = {z.copy.gpu.data(), e * outs, k, k}});
    reads ? expect_bits(y, z, "outputs") : expect_near(y, z, w.channels * taps);
    ++(reads ? read : window_pieces::can_fold(w, k, true) ? folded : written);
    const bool has_slope = below(3) > 0;
    const MatrixView<float> empty{nullptr, e, 0, 0};
    const DenseOperand of_slope = has_slope ? DenseOperand(x.both()) : DenseOperand(empty);
    // Dropout keeps only what has a slope of 1.
    const bool keeps = has_slope && !std::holds_alternative<LeakyRelu>(f) && below(2) == 0;
    const float kept = keeps ? 1.25f : 1.0f;
    if (kernels->input_delta_through(w, delta.operand(), filters.view(), f, kept, of_slope,
                                     dx.result())) {
      kernels->input_delta(w, delta.floats.view(), filters.view(), through.floats.view(),
                           Existing::overwrite);
      if (has_slope) pointwise->multiply_slope(f, x.floats.view(), through.floats.view());
      multiply_in_place(through.floats, kept);
      pointwise->cast_to_bf16(through.floats.view(), through.bf16());
      expect_bits(dx, through, "delta");
      ++(window_pieces::has_mirror(w, k)  ? products
         : window_phases::can_place(w, k) ? placed
         : window_phases::can_read(w, k)  ? phased
                                          : gathered);
    }
    expect_gradient(*kernels, w, delta, of_x, x, k);
    expect_gradients(*kernels, w, delta, of_x, x.floats, k);
    expect_file_order(*kernels, delta, k);
  }
  EXPECT_GT(std::min({read, written, folded, products, placed, phased, gathered}), 0);
}

// Filters and channels that fill tiles of every shape, or do not.
TEST_P(ConvolutionInBf16Test, GradientsOfAllTilesAgreeWithFloat64) {
  if (!cuda::device_reads_windows()) GTEST_SKIP() << "the device has no products of windows";
  const auto dense = cuda::make_dense(stream());
  const auto kernels = cuda::make_convolution(stream(), *dense);
  for (const Index channels : {32, 40, 72, 96, 160, 176, 192, 224, 288, 352})
    for (const Index filters : {40, 96, 136, 192, 200, 352}) {
      Window w;
      for (std::size_t a = 0; a < 2; ++a) {
        w.in[a] = 1 + below(20);
        w.kernel[a] = 1 + below(std::min<Index>(3, w.in[a]));
        w.stride[a] = 1 + below(2);
        w.padding[a] = below(w.kernel[a]);
        w.out[a] = (w.in[a] + 2 * w.padding[a] - w.kernel[a]) / w.stride[a] + 1;
      }
      if (below(2) == 0) make_blocks(w);
      w.channels = channels;
      w.order = UnitOrder::channels_last;
      const Index e = 1 + below(12), taps = w.taps();
      SCOPED_TRACE(text(w, filters, e));
      ASSERT_TRUE(window_pieces::can_read(w, filters));
      Alone x = make_alone(e, w.places() * channels);
      Alone delta = make_alone(e, w.out_places() * filters);
      Matrix term = make(filters, channels * taps);
      kernels->gradient(w, delta.operand(), x.operand(), 0.5f, term.view());
      expect_sums(term, "gradient", [&](Index r, Index c) {
        Sum sum;
        for (Index b = 0; b < e; ++b)
          for (Index window = 0; window < w.out_places(); ++window)
            if (const Index place = place_of(w, window, c % taps); place >= 0)
              sum.add(0.5 * x.floats(b, unit(w, place, c / taps)) *
                      delta.floats(b, window * filters + r));
        return sum;
      });
      expect_gradients(*kernels, w, delta, x.operand(), x.floats, filters);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, ConvolutionInBf16Test, ::testing::Values(Precision::bf16),
                         [](const auto& precision) {
                           return std::string(name_of(precision.param));
                         });
INSTANTIATE_TEST_SUITE_P(Gpu, ConvolutionPrecisionTest,
                         ::testing::Values(Precision::fp32, Precision::tf32, Precision::bf16),
                         [](const auto& precision) {
                           return std::string(name_of(precision.param));
                         });

}  // namespace
}  // namespace norn
