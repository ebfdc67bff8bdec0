// SPDX-License-Identifier: Apache-2.0
// Floats of products of windows: tiles that go through shared memory have the bits of those that
// leave from registers, and the values of float64 sums; nothing beside the result is written.
// Operands have few bits, so that their terms are exact.
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"
#include "tests/cuda/window_draws.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr Index kMargin = 64;  // floats before a matrix and behind it
constexpr float kUntouched = 12345.0f;

template <typename T>
class WindowResultTest : public ::testing::Test, protected WindowDraws {
 protected:
  struct Operand {
    Index rows, cols;
    std::vector<float> host;
    Buffer<T> gpu;
    MatrixView<const T> view() const { return {gpu.data(), rows, cols, cols}; }
  };
  Operand operand(Index rows, Index cols) {
    Operand m{rows, cols, numbers(rows * cols), Buffer<T>(rows * cols, memory_)};
    std::vector<T> elements;
    for (const float value : m.host)
      if constexpr (std::is_same_v<T, float>)
        elements.push_back(value);
      else
        elements.push_back(Bfloat16::rounded(value));
    m.gpu.write(elements.data(), m.gpu.size());
    return m;
  }

  /// Floats with a margin on both sides; `shift` of them from where the copy engine would write.
  struct Floats {
    Index rows, cols, shift;
    Buffer<float> gpu;
    MatrixView<float> view() { return {gpu.data() + kMargin + shift, rows, cols, cols}; }
    std::vector<float> all() const {
      std::vector<float> host(static_cast<std::size_t>(gpu.size()));
      gpu.read(host.data(), gpu.size());
      return host;
    }
    /// Without its margins, which must be as they were.
    std::vector<float> fetch() const {
      const std::vector<float> host = all();
      const auto begin = host.begin() + kMargin + shift, end = begin + rows * cols;
      for (auto value = host.begin(); value != host.end(); ++value)
        if (value < begin || value >= end) EXPECT_EQ(*value, kUntouched) << value - begin;
      return {begin, end};
    }
  };
  Floats floats(const std::vector<float>& values, Index rows, Index cols, Index shift) {
    std::vector<float> host(static_cast<std::size_t>(rows * cols + 2 * kMargin + shift),
                            kUntouched);
    std::copy(values.begin(), values.end(), host.begin() + kMargin + shift);
    Floats m{rows, cols, shift, Buffer<float>(Index(host.size()), memory_)};
    m.gpu.write(host.data(), m.gpu.size());
    return m;
  }

  Window draw() {
    Window w;
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = 1 + below(23);
      w.kernel[a] = 1 + below(std::min<Index>(5, w.in[a]));
      w.stride[a] = 1 + below(2);
      w.padding[a] = below(w.kernel[a]);
      w.out[a] = (w.in[a] + 2 * w.padding[a] - w.kernel[a]) / w.stride[a] + 1;
    }
    if (below(2) == 0)  // as many windows as places, which are copied as blocks
      for (std::size_t a = 0; a < 2; ++a) {
        w.in[a] = w.out[a] = a == 0 ? one_of({8, 16, 32, 128}) : w.in[0] == 128 ? 2 : 16;
        w.kernel[a] = 1 + 2 * below(3);
        w.stride[a] = 1;
        w.padding[a] = w.kernel[a] / 2;
      }
    w.channels = one_of({32, 40, 64, 72, 96, 136, 160, 224, 352});
    w.order = UnitOrder::channels_last;
    return w;
  }
  static std::string text(const Window& w, Index k, Index e) {
    std::ostringstream text;
    text << "in " << w.in[0] << " x " << w.in[1] << ", kernel " << w.kernel[0] << " x "
         << w.kernel[1] << ", stride " << w.stride[0] << ", " << w.stride[1] << ", padding "
         << w.padding[0] << ", " << w.padding[1] << ", C " << w.channels << ", K " << k << ", E "
         << e;
    return text.str();
  }

  struct Sum {
    double value = 0.0, magnitude = 1e-30, terms = 2.0;
    void add(double term) {
      value += term;
      magnitude += std::abs(term);
      terms += 1.0;
    }
    double bound() const { return 0x1p-23 * (4.0 + std::sqrt(terms)) * magnitude; }
  };
  static Sum sum_of(const Window& w, const Operand& x, const Operand& filters, Index row,
                    Index filter) {
    const Index padded = filters.cols / w.taps(), window = row % w.out_places();
    Sum sum;
    for (Index t = 0; t < w.taps(); ++t) {
      const Index px = window % w.out[0] * w.stride[0] - w.padding[0] + t % w.kernel[0];
      const Index py = window / w.out[0] * w.stride[1] - w.padding[1] + t / w.kernel[0];
      if (px < 0 || py < 0 || px >= w.in[0] || py >= w.in[1]) continue;
      const Index at = row / w.out_places() * x.cols + (py * w.in[0] + px) * w.channels;
      for (Index c = 0; c < w.channels; ++c)
        sum.add(double(x.host[std::size_t(at + c)]) *
                double(filters.host[std::size_t(filter * filters.cols + t * padded + c)]));
    }
    return sum;
  }

  static constexpr Precision kPrecision =
      std::is_same_v<T, float> ? Precision::tf32 : Precision::bf16;
  cuda::Stream stream_{nullptr, memory_, kPrecision, 132};
};

using Elements = ::testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(WindowResultTest, Elements);

TYPED_TEST(WindowResultTest, HasTheSameBitsThroughSharedMemory) {
  if (!cuda::device_reads_windows()) GTEST_SKIP() << "the device has no products of windows";
  constexpr int kLookedAt = 100;
  for (int round = 0; round < 120; ++round) {
    const Window w = this->draw();
    const Index e = 1 + this->below(9), rows = e * w.out_places();
    const Index k = this->one_of({32, 40, 64, 72, 96, 128, 136, 160, 192, 200, 224, 264, 352});
    SCOPED_TRACE(this->text(w, k, e));
    if (!window_pieces::can_read(w, k)) continue;
    const Index padded = window_pieces::padded_channels<TypeParam>(w);
    const auto x = this->operand(e, w.places() * w.channels);
    const auto filters = this->operand(k, w.taps() * padded);
    const std::vector<float> before = this->numbers(rows * k), y = this->numbers(rows * k);
    const std::vector<float> of_filters = this->numbers(k);
    const auto bias = this->floats(of_filters, 1, k, 0);
    const bool adds = this->below(3) == 0;
    const bool has_bias = !adds && this->below(2) == 0, slopes = !adds && this->below(2) == 0;
    const std::vector<cuda::SignedSlopes> functions{{}, {0.3f, 1.0f}, {0.0f, 1.0f, true}};
    const cuda::SignedSlopes f = adds ? functions[0] : functions[std::size_t(this->below(3))];
    const auto product = [&](Index shift, Index shift_of_outputs) {
      auto result = this->floats(before, rows, k, shift);
      auto outputs = this->floats(y, rows, k, shift_of_outputs);
      cuda::WindowResult to{.result = result.view(), .f = f};
      if (adds) to.existing = Existing::add;
      if (has_bias) to.bias = {bias.gpu.data() + kMargin, k};
      if (slopes) to.outputs = outputs.view();
      cuda::multiply_windows(this->stream_, w, x.view(), filters.view(), to);
      return result.fetch();
    };
    const std::vector<float> found = product(0, 0);
    const auto has_bits_of = [&](const std::vector<float>& other) {
      return std::memcmp(found.data(), other.data(), found.size() * sizeof(float)) == 0;
    };
    EXPECT_TRUE(has_bits_of(product(4, 4))) << "elsewhere";
    EXPECT_TRUE(has_bits_of(product(1 + this->below(3), 0))) << "not aligned";
    EXPECT_TRUE(has_bits_of(product(0, 2))) << "outputs not aligned";
    for (int i = 0; i < kLookedAt; ++i) {
      const Index r = this->below(rows), c = this->below(k);
      const auto at = std::size_t(r * k + c);
      auto sum = this->sum_of(w, x, filters, r, c);
      if (adds) sum.add(double(before[at]));
      if (has_bias) sum.add(double(of_filters[std::size_t(c)]));
      const double expected = slopes            ? sum.value * double(f.slope(y[at]))
                              : sum.value < 0.0 ? (f.drops ? 0.0 : double(f.below) * sum.value)
                                                : sum.value;
      ASSERT_NEAR(found[at], expected, sum.bound()) << r << ", " << c;
    }
  }
}

}  // namespace
}  // namespace norn
