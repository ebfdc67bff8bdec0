// SPDX-License-Identifier: Apache-2.0
// The maths values and Philox give the same numbers on the GPU as on the CPU: one header serves
// both.
#include "kernels/cuda/device/check.h"
#include "kernels/initializer.h"
#include "kernels/loss.h"
#include "kernels/update_rule.h"
#include "src/base/philox.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

// Memory that both sides see, so that a test reads as a loop.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t size) : size_(size) {
    cuda::check(cudaMallocManaged(&data_, size * sizeof(T)), "cudaMallocManaged");
  }
  ~Shared() { cudaFree(data_); }
  Shared(Shared&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Shared& operator=(Shared&&) = delete;
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

template <typename Body>
__global__ void run_kernel(Body body, int count) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) body(i);
}

template <typename Body>
void run_on_gpu(std::size_t count, Body body) {
  run_kernel<<<unsigned((count + 255) / 256), 256>>>(body, int(count));
  cuda::check_launch("run_kernel");
  cuda::check(cudaDeviceSynchronize(), "run_kernel");
}

constexpr std::size_t kCount = 4096;

Shared<float> random_numbers(float low, float high) {
  Shared<float> values(kCount);
  const unsigned seed = std::random_device()();
  ::testing::Test::RecordProperty("seed", int(seed & 0x7fffffff));
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = uniform(generator);
  return values;
}

template <typename Variant, typename Body>
void for_alternatives(Body body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (body(std::variant_alternative_t<I, Variant>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <typename F>
void compare_activation(F f) {
  Shared<float> z = random_numbers(-12.0f, 12.0f);
  Shared<float> y(kCount);
  Shared<float> slope(kCount);
  float *zp = z.data(), *yp = y.data(), *sp = slope.data();
  run_on_gpu(kCount, [=] __device__(int i) {
    yp[i] = f.value(zp[i]);
    sp[i] = slope_at(f, zp[i], yp[i]);
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = f.value(double(z[i]));
    ASSERT_NEAR(y[i], expected, 4e-7 * (1.0 + std::abs(expected))) << F::name << " at " << z[i];
    ASSERT_NEAR(slope[i], slope_at(f, z[i], y[i]), 4e-7 * (1.0 + std::abs(slope[i])))
        << F::name << " at " << z[i];
  }
}

TEST(CudaMaths, ActivationsAgreeWithTheCpu) {
  for_alternatives<Activation>([](auto f) { compare_activation(f); });
}

template <typename L>
void compare_loss(L loss) {
  Shared<float> z = random_numbers(-6.0f, 6.0f);
  Shared<ElementCost<float>> got(2 * kCount);
  float* zp = z.data();
  ElementCost<float>* gp = got.data();
  run_on_gpu(kCount, [=] __device__(int i) {
    gp[2 * i] = element_cost(Sigmoid{}, loss, zp[i], 0.0f);
    gp[2 * i + 1] = element_cost(Sigmoid{}, loss, zp[i], 1.0f);
  });
  for (std::size_t i = 0; i < 2 * kCount; ++i) {
    const ElementCost<double> expected =
        element_cost(Sigmoid{}, loss, double(z[i / 2]), double(i % 2));
    ASSERT_NEAR(got[i].cost, expected.cost, 2e-6 * (1.0 + std::abs(expected.cost)))
        << L::name << " at " << z[i / 2];
    ASSERT_NEAR(got[i].delta, expected.delta, 2e-6) << L::name << " at " << z[i / 2];
  }
}

TEST(CudaMaths, LossesAgreeWithTheCpu) {
  for_alternatives<Loss>([](auto loss) { compare_loss(loss); });
}

template <typename R>
void compare_rule(R rule) {
  Shared<float> w = random_numbers(-1.0f, 1.0f);
  Shared<float> g = random_numbers(-1.0f, 1.0f);
  std::vector<float> expected(kCount);
  const UpdateStep step{0.01f, 1e-3f, 1e-4f, 2.0f, 3.0f};
  for (std::size_t i = 0; i < kCount; ++i) {
    float slots[kMostSlots] = {};
    expected[i] = w[i];
    for (int t = 0; t < 3; ++t) rule.step(expected[i], g[i], slots, step);
  }
  float *wp = w.data(), *gp = g.data();
  run_on_gpu(kCount, [=] __device__(int i) {
    float slots[kMostSlots] = {};
    for (int t = 0; t < 3; ++t) rule.step(wp[i], gp[i], slots, step);
  });
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_NEAR(w[i], expected[i], 1e-5) << R::name << " with g " << g[i];
}

TEST(CudaMaths, UpdateRulesAgreeWithTheCpu) {
  for_alternatives<UpdateRule>([](auto rule) { compare_rule(rule); });
}

void compare_philox() {
  const Philox random = Philox::stream(12134, RandomPurpose::test, 7);
  Shared<std::uint32_t> words(kCount);
  std::uint32_t* wp = words.data();
  run_on_gpu(kCount, [=] __device__(int i) {
    wp[i] = random.word(std::uint64_t(i) << 33, std::uint64_t(i) * 977);
  });
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(words[i], random.word(std::uint64_t(i) << 33, i * 977));
}

TEST(CudaMaths, PhiloxGivesTheSameWords) {
  compare_philox();
}

template <typename I>
void compare_initialiser(I initializer) {
  const Philox random = Philox::stream(3, RandomPurpose::weights);
  const Fan fan{100, 50};
  Shared<float> w(kCount);
  float* wp = w.data();
  run_on_gpu(kCount, [=] __device__(int i) {
    const Philox::Block block = random.block(std::uint64_t(i), 0);
    wp[i] = initializer.value(fan, block.word[0], block.word[1]);
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    const Philox::Block block = random.block(i, 0);
    const float expected = initializer.value(fan, block.word[0], block.word[1]);
    ASSERT_NEAR(w[i], expected, 1e-6 * (1.0 + std::abs(expected))) << I::name;
  }
}

TEST(CudaMaths, InitialisersAgreeWithTheCpu) {
  for_alternatives<Initializer>([](auto initializer) { compare_initialiser(initializer); });
}

}  // namespace
}  // namespace norn
