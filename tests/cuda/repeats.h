// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

/// One kernel, run again and again on the same input.
namespace norn::test {

inline std::uint64_t hash_of(const std::vector<unsigned char>& bytes) {
  std::uint64_t hash = 1469598103934665603ull;  // FNV-1a
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ull;
  return hash;
}

/// NORN_TEST_REPEATS: how often, 1000 by default.
class RepeatsTest : public ::testing::Test {
 protected:
  RepeatsTest() {
    const unsigned seed = std::random_device{}();
    RecordProperty("seed", int(seed & 0x7fffffff));
    random_.seed(seed);
  }

  Kernels& use(Precision precision) {
    arrays_.clear();
    kernels_.reset();
    device_.reset();
    GpuOptions options;
    options.precision = precision;
    device_ = std::make_unique<CudaDevice>(options);
    kernels_ = std::make_unique<Kernels>(device_->make_kernels());
    return *kernels_;
  }
  Memory& memory() { return device_->memory(); }

  /// An array on the GPU that a run may change: it is put back before each run and compared after.
  template <typename T>
  T* array(const std::vector<T>& values) {
    return static_cast<T*>(keep(values.data(), values.size() * sizeof(T), true));
  }
  /// One that runs only read.
  template <typename T>
  const T* constant(const std::vector<T>& values) {
    return static_cast<const T*>(keep(values.data(), values.size() * sizeof(T), false));
  }
  std::vector<float> numbers(Index count, float low = -1.0f, float high = 1.0f) {
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random_);
    return values;
  }
  MatrixView<float> matrix(Index rows, Index cols, float low = -1.0f, float high = 1.0f) {
    return {array(numbers(rows * cols, low, high)), rows, cols, cols};
  }
  MatrixView<const float> constant_matrix(Index rows, Index cols) {
    return {constant(numbers(rows * cols)), rows, cols, cols};
  }
  template <typename T>
  MatrixView<T> empty_matrix(Index rows, Index cols) {
    return {array(std::vector<T>(std::size_t(rows * cols))), rows, cols, cols};
  }
  template <typename T>
  VectorView<T> zeros(Index count) {
    return {array(std::vector<T>(static_cast<std::size_t>(count))), count};
  }
  DenseOperand operand(Index rows, Index cols) {
    const std::vector<float> values = numbers(rows * cols);
    std::vector<Bfloat16> bf16;
    for (float value : values) bf16.push_back(Bfloat16::rounded(value));
    return {MatrixView<const float>{constant(values), rows, cols, cols},
            MatrixView<const Bfloat16>{constant(bf16), rows, cols, cols}};
  }
  /// Rows whose columns ascend; the first columns are in most of them.
  CsrView sparse(Index rows, Index cols, Index wanted, bool values) {
    std::vector<RowOffset> begin{0};
    std::vector<Column> column;
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    const double odds = double(wanted) / double(wanted + cols);
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < cols; ++c)
        if (uniform(random_) < (c < wanted / 2 ? 0.8 : odds)) column.push_back(Column(c));
      begin.push_back(RowOffset(column.size()));
    }
    const auto entries = Index(column.size());
    return {constant(begin),
            constant(column),
            values ? constant(numbers(entries)) : nullptr,
            rows,
            cols,
            entries};
  }

  /// Runs it 1000 times on the same arrays and expects the same bytes each time.
  void expect_one_hash(const char* name, const std::function<void()>& run) {
    SCOPED_TRACE(name);
    const char* word = std::getenv("NORN_TEST_REPEATS");
    const int repeats = word == nullptr ? 1000 : std::atoi(word);
    std::vector<unsigned char> first;
    for (int i = 0; i < repeats; ++i) {
      for (const Array& array : arrays_)
        if (array.changes) memory().write(array.data, array.host.data(), array.host.size());
      run();
      std::vector<unsigned char> bytes = read_all();
      if (i == 0) {
        ASSERT_FALSE(bytes == initial()) << "the kernel has not done anything";
        first = std::move(bytes);
      } else {
        // Equal bytes have equal hashes, and are found to be equal sooner.
        ASSERT_TRUE(bytes == first) << "run " << i << " has hash " << hash_of(bytes)
                                    << ", the first one had " << hash_of(first);
      }
    }
    RecordProperty(name, std::to_string(hash_of(first)));
    arrays_.clear();
  }

 private:
  struct Array {
    Buffer<std::byte> buffer;
    std::vector<unsigned char> host;
    void* data = nullptr;
    bool changes = false;
  };

  void* keep(const void* values, std::size_t bytes, bool changes) {
    Array array;
    array.buffer = Buffer<std::byte>(Index(bytes), memory());
    const auto* begin = static_cast<const unsigned char*>(values);
    array.host.assign(begin, begin + bytes);
    array.data = array.buffer.data();
    array.changes = changes;
    memory().write(array.data, values, bytes);
    arrays_.push_back(std::move(array));
    return arrays_.back().data;
  }
  std::vector<unsigned char> read_all() {
    std::vector<unsigned char> all;
    for (const Array& array : arrays_) {
      if (!array.changes) continue;
      all.resize(all.size() + array.host.size());
      memory().read(array.data, all.data() + all.size() - array.host.size(), array.host.size());
    }
    return all;
  }
  std::vector<unsigned char> initial() const {
    std::vector<unsigned char> all;
    for (const Array& array : arrays_)
      if (array.changes) all.insert(all.end(), array.host.begin(), array.host.end());
    return all;
  }
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<Array> arrays_;
  std::mt19937 random_;
};

}  // namespace norn::test
