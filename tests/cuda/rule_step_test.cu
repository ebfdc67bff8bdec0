// SPDX-License-Identifier: Apache-2.0
// The GPU's way to divide and take roots in update rules against the operators, bit for bit: all
// floats, random pairs, and the steps of every rule on random bits.
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/update/rule_step.cuh"

#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace norn::cuda {
namespace {

struct Counts {
  unsigned long long wrong;    // said to be exact, but other bits
  unsigned long long refused;  // not exact where it should be
  std::uint64_t example;       // one of them
};

__device__ bool same(float a, float b) {
  return __float_as_uint(a) == __float_as_uint(b) || (isnan(a) && isnan(b));
}

__device__ void count(Counts* counts, bool wrong, bool refused, std::uint64_t example) {
  if (wrong) atomicAdd(&counts->wrong, 1ull);
  if (refused) atomicAdd(&counts->refused, 1ull);
  if (wrong || refused) counts->example = example;
}

__device__ std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Any bits; every eighth value is one that rules treat in another way or one of its neighbours.
__device__ float random_float(std::uint64_t random) {
  const std::uint32_t special[] = {0u,          0x80000000u, 0x00000001u, 0x00800000u,
                                   0x7F7FFFFFu, 0x7F800000u, 0xFF800000u, 0x7FC00000u,
                                   0x3F800000u, 0xBF800000u, 0x53800000u, 0x67000000u,
                                   0x322BCC77u, 0x0D000000u, 0x5E000000u, 0x21800000u};
  const std::uint32_t bits = std::uint32_t(random);
  const std::uint32_t choice = std::uint32_t(random >> 32);
  if (choice % 8 != 0) return __uint_as_float(bits);
  return __uint_as_float(special[choice / 8 % 16] + bits % 5 - 2);
}

template <class Body>
__global__ void for_each_kernel(std::uint64_t size, Body body) {
  const std::uint64_t step = std::uint64_t(gridDim.x) * blockDim.x;
  for (std::uint64_t i = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    body(i);
}

template <class Body>
Counts for_each(std::uint64_t size, const Body& body) {
  Counts* counts = nullptr;
  check(cudaMalloc(&counts, sizeof(Counts)), "cudaMalloc");
  check(cudaMemset(counts, 0, sizeof(Counts)), "cudaMemset");
  for_each_kernel<<<2048, 256>>>(size, [=] __device__(std::uint64_t i) { body(i, counts); });
  check_launch("for_each_kernel");
  Counts result;
  check(cudaMemcpy(&result, counts, sizeof(Counts), cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(counts), "cudaFree");
  return result;
}

std::uint64_t drawn_seed() {
  const std::uint64_t seed = std::random_device()();
  ::testing::Test::RecordProperty("seed", int(seed & 0x7fffffff));
  return seed << 32;
}

struct CompareRoot {
  __device__ void operator()(std::uint64_t i, Counts* counts) const {
    const float x = __uint_as_float(std::uint32_t(i));
    QuickMaths maths;
    const float got = maths.sqrt(x);
    const bool should = std::uint32_t(i) <= __float_as_uint(0x1p79f);
    count(counts, maths.exact && !same(got, __fsqrt_rn(x)), should && !maths.exact, i);
  }
};

TEST(CudaRuleStep, RootsOfAllFloatsAreExact) {
  const Counts counts = for_each(std::uint64_t(1) << 32, CompareRoot{});
  EXPECT_EQ(counts.wrong, 0u) << "as for bits " << counts.example;
  EXPECT_EQ(counts.refused, 0u) << "as for bits " << counts.example;
}

__device__ void compare_quotient(float a, float b, Counts* counts) {
  QuickMaths maths;
  const float got = maths.divide(a, b);
  const float expected = __fdiv_rn(a, b);
  const float size = fabsf(expected);
  const bool should = fabsf(a) < 0x1p60f && b >= 0x1p-60f && b <= 0x1p40f && size < 0x1p60f &&
                      (a == 0.0f || size > 0x1p-126f);
  count(counts, maths.exact && !same(got, expected), should && !maths.exact,
        std::uint64_t(__float_as_uint(a)) << 32 | __float_as_uint(b));
}

struct CompareQuotient {
  std::uint64_t seed;
  __device__ void operator()(std::uint64_t i, Counts* counts) const {
    const std::uint64_t random = mixed(seed + 3 * i);
    compare_quotient(random_float(random), random_float(mixed(random)), counts);
    // Operands of like size, and quotients near the middle between two floats.
    const float b = __uint_as_float(0x30000000u + std::uint32_t(random) % 0x18000000u);
    const float c = __uint_as_float(0x38000000u + std::uint32_t(random >> 32) % 0x10000000u);
    compare_quotient(c, b, counts);
    compare_quotient(b * c, b, counts);
    compare_quotient(-(b * (c * 0x1p-90f)), b, counts);
  }
};

TEST(CudaRuleStep, QuotientsAreExact) {
  const Counts counts = for_each(std::uint64_t(1) << 30, CompareQuotient{drawn_seed()});
  EXPECT_EQ(counts.wrong, 0u) << "as for bits " << counts.example;
  EXPECT_EQ(counts.refused, 0u) << "as for bits " << counts.example;
}

/// Every mantissa of the divisor.
struct CompareMantissas {
  std::uint64_t seed;
  __device__ void operator()(std::uint64_t i, Counts* counts) const {
    const float b = __uint_as_float(0x3F800000u | std::uint32_t(i));
    compare_quotient(1.0f, b, counts);
    for (std::uint64_t k = 0; k < 32; ++k)
      compare_quotient(
          __uint_as_float(0x3F000000u + std::uint32_t(mixed(seed + 32 * i + k)) % 0x01000000u), b,
          counts);
  }
};

TEST(CudaRuleStep, QuotientsByAllMantissasAreExact) {
  const Counts counts = for_each(std::uint64_t(1) << 23, CompareMantissas{drawn_seed()});
  EXPECT_EQ(counts.wrong, 0u) << "as for bits " << counts.example;
  EXPECT_EQ(counts.refused, 0u) << "as for bits " << counts.example;
}

template <class Rule>
struct CompareStep {
  std::uint64_t seed;
  UpdateStep step;
  bool usual;  // values as in training, rather than any bits
  __device__ float value(std::uint64_t random, float size) const {
    return usual ? size * (float(int(random >> 40 & 0xFFFF)) - 32768.0f) / 32768.0f
                 : random_float(random);
  }
  __device__ void operator()(std::uint64_t i, Counts* counts) const {
    constexpr int kHeld = kHeldSlots<Rule>;
    float w[4], g[4], state[kHeld][4];
    for (int k = 0; k < 4; ++k) {
      const std::uint64_t random = mixed(seed + 4 * i + std::uint64_t(k));
      w[k] = value(random, 1.0f);
      g[k] = value(mixed(random + 1), 1e-3f);
      for (int s = 0; s < kHeld; ++s) {
        state[s][k] = value(mixed(random + 2 + std::uint64_t(s)), 1e-3f);
        // The first average of Adam and its kin has a sign.
        if (usual && (s > 0 || Rule::times == 0)) state[s][k] = fabsf(state[s][k]);
      }
    }
    float expected_w[4], expected[4][kHeld];
    for (int k = 0; k < 4; ++k) {
      expected_w[k] = w[k];
      for (int s = 0; s < kHeld; ++s) expected[k][s] = state[s][k];
      Rule{}.step(expected_w[k], g[k], expected[k], step);
    }
    step_some(Rule{}, step, w, g, state);
    for (int k = 0; k < 4; ++k) {
      bool wrong = !same(w[k], expected_w[k]);
      for (int s = 0; s < Rule::slots; ++s) wrong = wrong || !same(state[s][k], expected[k][s]);
      count(counts, wrong, false, i);
    }
  }
};

template <class Rule>
void expect_steps_agree() {
  for (const bool usual : {true, false})
    for (const UpdateStep& step :
         {UpdateStep{0.01f, 0.0f, 0.0f, 1.5f, 2.0f}, UpdateStep{1e-3f, 1e-3f, 1e-4f, 1.0f, 1.0f}}) {
      const Counts counts =
          for_each(std::uint64_t(1) << 24, CompareStep<Rule>{drawn_seed(), step, usual});
      EXPECT_EQ(counts.wrong, 0u) << Rule::name << (usual ? "" : " on any bits");
    }
}

template <class... Rules>
void expect_steps_of_all_agree(std::variant<Rules...>*) {
  (expect_steps_agree<Rules>(), ...);
}

TEST(CudaRuleStep, SomeStepsHaveTheBitsOfSingleOnes) {
  expect_steps_of_all_agree(static_cast<UpdateRule*>(nullptr));
}

}  // namespace
}  // namespace norn::cuda
