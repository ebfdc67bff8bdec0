// SPDX-License-Identifier: Apache-2.0
// Products of random shapes as a run makes them: in graphs that are kept and brought up to date,
// epochs whose last batch is smaller, layers in whole blocks and a narrower one. Operands are
// integers up to 127 over 64: they are exact in every precision, and so are their sums in float32,
// whatever the order. A result that differs from the float64 sum at all lacks a term.
#include "kernels/cuda.h"
#include "kernels/cuda/device/check.h"
#include "src/base/philox.h"
#include "src/tensor/buffer.h"
#include "src/tensor/work_queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

using cuda::check;
using cuda::check_launch;

constexpr Index kMostExamples = 2100;
constexpr Index kMostUnits = 6200;
constexpr Index kMostWidth = 2100;
constexpr Index kCapacity = kMostUnits * (kMostWidth + 16);
static_assert(kCapacity >= kMostExamples * (kMostUnits + 16));
constexpr int kSamples = 1024;

int products_wanted() {
  return std::getenv("NORN_TEST_REPEATS") == nullptr ? 5000 : 500;  // under a sanitizer
}

/// An operand as the reference reads it: element (i, k) of the sums.
struct Factor {
  const float* data;
  Index by_result;  ///< elements from one row (or column) of the result to the next
  Index by_term;
};

/// What a product must have given: keep * before + scale * a * b (+ bias).
struct Expected {
  MatrixView<float> result;
  Factor a, b;
  const float* bias;
  Index terms;
  double scale;
  bool keep;
};

struct Findings {
  unsigned long long wrong;      ///< samples
  unsigned long long unwritten;  ///< elements of the result
  unsigned long long outside;    ///< elements written beyond it
};

/// Any number that is exact in bfloat16, by its place.
__device__ float before(Index place) {
  return float(int(place % 251) - 125) / 64.0f;
}

__global__ void fill_kernel(float* storage, Index size, MatrixView<float> result, bool keep) {
  const Index first = result.data - storage;
  for (Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x; i < size;
       i += Index(gridDim.x) * blockDim.x) {
    const Index at = i - first;
    const bool inside =
        at >= 0 && at / result.stride < result.rows && at % result.stride < result.cols;
    storage[i] = keep && inside ? before(at) : nanf("");
  }
}

__global__ void count_kernel(const float* storage, Index size, MatrixView<float> result,
                             Findings* found) {
  const Index first = result.data - storage;
  for (Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x; i < size;
       i += Index(gridDim.x) * blockDim.x) {
    const Index at = i - first;
    const bool inside =
        at >= 0 && at / result.stride < result.rows && at % result.stride < result.cols;
    if (inside && isnan(storage[i])) atomicAdd(&found->unwritten, 1ull);
    if (!inside && !isnan(storage[i])) atomicAdd(&found->outside, 1ull);
  }
}

/// A sample for each block of threads; the first ones are the corners and edges.
__global__ void compare_kernel(const Expected task, std::uint64_t seed, Findings* found) {
  const MatrixView<float>& z = task.result;
  const int s = int(blockIdx.x);
  const Philox::Block draw = Philox::stream(seed, RandomPurpose::test).block(std::uint64_t(s), 0);
  Index r = Index(draw.word[0]) % z.rows;
  Index c = Index(draw.word[1]) % z.cols;
  if (s < 64) r = z.rows - 1 - s % 8 % z.rows;
  if (s < 128 && s % 2 == 0) c = z.cols - 1 - s / 2 % 8 % z.cols;
  __shared__ double sums[128];
  double sum = 0.0;
  for (Index k = threadIdx.x; k < task.terms; k += blockDim.x)
    sum += task.scale * double(task.a.data[r * task.a.by_result + k * task.a.by_term]) *
           double(task.b.data[c * task.b.by_result + k * task.b.by_term]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = task.keep ? double(before(r * z.stride + c)) : 0.0;
  if (task.bias != nullptr) sum += double(task.bias[c]);
  for (unsigned t = 0; t < blockDim.x; ++t) sum += sums[t];
  if (double(z.data[r * z.stride + c]) != sum) atomicAdd(&found->wrong, 1ull);
}

class RandomProductsTest : public ::testing::TestWithParam<Precision> {
 protected:
  struct Layer {
    Index units, width, block;
    Index x_stride, w_stride, delta_stride;
  };

  RandomProductsTest() {
    GpuOptions options;
    options.precision = GetParam();
    device_ = std::make_unique<CudaDevice>(options);
    kernels_ = device_->make_kernels();
    stream_ = static_cast<cudaStream_t>(kernels_.queue->native_stream());
    Memory& memory = device_->memory();
    std::vector<float> values(static_cast<std::size_t>(kCapacity));
    for (Buffer<float>* operand : {&x_, &w_, &delta_}) {
      *operand = Buffer<float>(kCapacity, memory);
      for (float& value : values) value = float(int(random_() % 255) - 127) / 64.0f;
      operand->write(values.data(), kCapacity);
    }
    bias_ = Buffer<float>(kMostUnits, memory);
    bias_.write(values.data(), kMostUnits);
    for (Buffer<float>* result : {&z_, &dx_, &g_}) *result = Buffer<float>(kCapacity, memory);
    transposed_ = Buffer<float>(kMostWidth * (kMostExamples + 4), memory);
    found_ = Buffer<Findings>(1, memory);
    check(cudaEventCreate(&done_), "cudaEventCreate");
    std::printf("seed %u\n", seed_);
  }
  ~RandomProductsTest() override { cudaEventDestroy(done_); }

  Index from_to(Index least, Index most) {
    return std::uniform_int_distribution<Index>(least, most)(random_);
  }
  /// Small ones as often as large ones.
  Index of_any_size(Index most) {
    const double log =
        std::uniform_real_distribution<double>(0.0, std::log(double(most) + 1.0))(random_);
    return std::clamp<Index>(Index(std::exp(log)), 1, most);
  }
  Index stride_of(Index cols) {
    const Index unit = std::vector<Index>{1, 4, 4, 8, 16}[std::size_t(from_to(0, 4))];
    return (cols + unit - 1) / unit * unit;
  }
  Layer any_layer() {
    Layer layer{of_any_size(kMostUnits), of_any_size(kMostWidth), 0, 0, 0, 0};
    if (from_to(0, 2) > 0 && layer.units > 64) layer.block = from_to(1, layer.units / 32) * 32;
    layer.x_stride = stride_of(layer.width);
    layer.w_stride = stride_of(layer.width);
    layer.delta_stride = stride_of(layer.units);
    return layer;
  }

  static MatrixView<float> view(Buffer<float>& storage, Index rows, Index cols, Index stride) {
    return {storage.data(), rows, cols, stride};
  }
  void fill(const MatrixView<float>& result, Buffer<float>& storage, bool keep) {
    fill_kernel<<<512, 256, 0, stream_>>>(storage.data(), kCapacity, result, keep);
    check_launch("fill_kernel");
  }

  /// A kernel of a library that waits for ever cannot be ended: the test ends the program.
  void wait(const std::string& what) {
    check(cudaEventRecord(done_, stream_), "cudaEventRecord");
    const auto start = std::chrono::steady_clock::now();
    cudaError_t status = cudaErrorNotReady;
    while ((status = cudaEventQuery(done_)) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() - start < std::chrono::seconds(120)) continue;
      std::fprintf(stderr, "FAILED: %s never ends\n", what.c_str());
      std::_Exit(1);
    }
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "FAILED: %s: %s\n", what.c_str(), cudaGetErrorString(status));
    std::_Exit(1);  // nothing can be done with this device any more
  }

  void expect(const Expected& expected, Buffer<float>& storage, const std::string& what) {
    Findings none{};
    found_.write(&none, 1);
    count_kernel<<<512, 256, 0, stream_>>>(storage.data(), kCapacity, expected.result,
                                           found_.data());
    check_launch("count_kernel");
    compare_kernel<<<kSamples, 128, 0, stream_>>>(expected, random_(), found_.data());
    check_launch("compare_kernel");
    wait(what);
    Findings found{};
    found_.read(&found, 1);
    EXPECT_EQ(found.wrong, 0u) << what;
    EXPECT_EQ(found.unwritten, 0u) << what;
    EXPECT_EQ(found.outside, 0u) << what;
    ++products_;
  }

  /// A batch of so many examples, forward and back, as one run of the queue.
  void step(const Layer& layer, Index examples) {
    const auto& [units, width, block, x_stride, w_stride, delta_stride] = layer;
    const MatrixView<float> x = view(x_, examples, width, x_stride);
    const MatrixView<float> w = view(w_, units, width, w_stride);
    const MatrixView<float> delta = view(delta_, examples, units, delta_stride);
    const MatrixView<float> z = view(z_, examples, units, delta_stride);
    const MatrixView<float> dx = view(dx_, examples, width, x_stride);
    const MatrixView<float> g = view(g_, units, width, w_stride);
    const bool with_bias = from_to(0, 1) == 1, adds = from_to(0, 1) == 1,
               transposes = from_to(0, 2) == 0;
    const Existing existing = adds ? Existing::add : Existing::overwrite;
    fill(z, z_, adds && !with_bias);
    fill(dx, dx_, false);
    fill(g, g_, adds);
    const Index depth = (examples + 3) / 4 * 4;
    kernels_.queue->run([&] {
      DenseKernels& dense = *kernels_.dense;
      if (with_bias)
        dense.affine(x, w, {bias_.data(), units}, z, block);
      else
        dense.multiply_transposed(x, w, z, existing, block);
      dense.multiply(delta, w, dx);
      DenseOperand both{MatrixView<const float>(x)};
      if (transposes) {
        const MatrixView<float> transposed = view(transposed_, width, depth, depth);
        dense.transpose(x, transposed);
        both.transposed = transposed;
      }
      dense.gradient(delta, both, 0.5f, g, existing, block);
    });
    const std::string what = std::to_string(examples) + " examples, " + std::to_string(units) +
                             " units in blocks of " + std::to_string(block) + ", width " +
                             std::to_string(width);
    wait(what);
    expect({z,
            {x.data, x_stride, 1},
            {w.data, w_stride, 1},
            with_bias ? bias_.data() : nullptr,
            width,
            1.0,
            adds && !with_bias},
           z_, "forward product of " + what);
    expect({dx, {delta.data, delta_stride, 1}, {w.data, 1, w_stride}, nullptr, units, 1.0, false},
           dx_, "input delta of " + what);
    expect({g, {delta.data, 1, delta_stride}, {x.data, 1, x_stride}, nullptr, examples, 0.5, adds},
           g_, "gradient of " + what);
  }

  unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  std::unique_ptr<CudaDevice> device_;
  Kernels kernels_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  Buffer<float> x_, w_, delta_, bias_, z_, dx_, g_, transposed_;
  Buffer<Findings> found_;
  int products_ = 0;
};

// Sets that a network was planned for batches of 1024, 1000 and 128, and whose last batch is short.
TEST_P(RandomProductsTest, ALastBatchThatIsShortIsRightToo) {
  for (const Layer& layer :
       {Layer{5888, 256, 0, 256, 256, 5888}, Layer{5612, 256, 0, 256, 256, 5616},
        Layer{3628, 1024, 0, 1024, 1024, 3632}, Layer{6200, 1024, 0, 1024, 1024, 6200},
        Layer{3115, 128, 0, 128, 128, 3120}})
    for (const Index examples : {1024, 1024, 839, 1024, 863, 128, 128, 23, 52, 1})
      step(layer, examples);
}

TEST_P(RandomProductsTest, OfAnyShapeAreRight) {
  while (products_ < products_wanted() && !HasFailure()) {
    const Layer layer = any_layer();
    const Index batch = of_any_size(kMostExamples);
    for (const Index examples : {batch, batch, from_to(1, batch)}) step(layer, examples);
  }
  std::printf("%d products\n", products_);
}

std::string precision_name(const testing::TestParamInfo<Precision>& info) {
  return std::string(name_of(info.param));
}

INSTANTIATE_TEST_SUITE_P(Precisions, RandomProductsTest,
                         testing::Values(Precision::fp32, Precision::tf32, Precision::bf16),
                         precision_name);

}  // namespace
}  // namespace norn
