// SPDX-License-Identifier: Apache-2.0
// Owners of memory: alignment, moves, counts, and refusals with the size.

#include "src/tensor/buffer.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(Buffer, IsAlignedToCacheLinesAndZeroedOnRequest) {
  for (Index size : {1, 3, 64, 1000, 100000}) {
    Buffer<float> buffer = Buffer<float>::zeros(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + size, [](float x) { return x == 0; }));
  }
}

TEST(Buffer, MoveHandsTheMemoryOver) {
  Buffer<int> first(10);
  first.data()[3] = 42;
  const int* const data = first.data();
  Buffer<int> second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.view()[3], 42);
  Buffer<int> third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 10);
}

TEST(Buffer, EmptyOneHasNoMemory) {
  const Buffer<double> none(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_TRUE(none.empty());
  const Matrix<double> flat(0, 100);
  EXPECT_TRUE(flat.empty());
  EXPECT_EQ(flat.cols(), 100);
}

TEST(Memory, CopiesRowsAndNothingBetweenThem) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Memory& memory = host_memory();
  for (int round = 0; round < 50; ++round) {
    const std::size_t rows = random() % 5, width = random() % 40, stride = width + random() % 9,
                      host_stride = width + random() % 9;
    std::vector<unsigned char> host(rows * host_stride + 1), back(host.size(), 0xee);
    std::iota(host.begin(), host.end(), static_cast<unsigned char>(random()));
    std::vector<unsigned char> there(rows * stride + 1, 0xdd), copied(there.size(), 0xcc);
    memory.write_rows(there.data(), stride, host.data(), host_stride, width, rows);
    memory.copy(copied.data(), there.data(), there.size());
    EXPECT_EQ(copied, there);
    memory.read_rows(copied.data(), stride, back.data(), host_stride, width, rows);
    for (std::size_t at = 0; at < there.size(); ++at)
      EXPECT_TRUE((at < rows * stride && at % stride < width) || there[at] == 0xdd) << at;
    for (std::size_t at = 0; at < host.size(); ++at) {
      const bool inside = at < rows * host_stride && at % host_stride < width;
      EXPECT_EQ(back[at], inside ? host[at] : 0xee) << at;
    }
    memory.write(there.data(), host.data(), rows * width);
    memory.read(there.data(), back.data(), rows * width);
    EXPECT_TRUE(
        std::equal(host.begin(), host.begin() + std::ptrdiff_t(rows * width), back.begin()));
  }
  memory.write(nullptr, nullptr, 0);
  memory.copy(nullptr, nullptr, 0);
}

TEST(Memory, LargeRunsAreWholeHugePages) {
  const std::size_t huge = std::size_t(2) << 20;
  const Buffer<char> large(Index(4 * huge)), small(Index(4 * huge) - 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % huge, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 64, 0u);
}

TEST(Memory, CountsBytesInUseAndTheirPeak) {
  const std::int64_t before = host_memory().allocated_bytes();
  {
    const Buffer<float> one(1000);
    EXPECT_EQ(host_memory().allocated_bytes(), before + 4000);
    const Matrix<double> two(10, 20);
    EXPECT_EQ(host_memory().allocated_bytes(), before + 4000 + 1600);
    EXPECT_GE(host_memory().peak_bytes(), before + 5600);
  }
  EXPECT_EQ(host_memory().allocated_bytes(), before);
  EXPECT_GE(host_memory().peak_bytes(), before + 5600);
}

TEST(Memory, TooMuchIsRefusedWithTheSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator ends the program at such a size";
#endif
  const std::int64_t before = host_memory().allocated_bytes();
  try {
    const Buffer<float> huge(Index(1) << 55);
    FAIL() << "2^57 bytes were allocated";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.what(),
              fmt::format("main memory: 128.0 PiB (144115188075855872 bytes) could not be "
                          "allocated, {} are in use; use a smaller batch or a machine with more "
                          "memory",
                          human_bytes(double(before))));
    EXPECT_EQ(error.code(), ExitCode::device);
  }
  EXPECT_EQ(host_memory().allocated_bytes(), before);
}

TEST(Memory, SizesThatCannotBeAreRefused) {
  constexpr Index kMost = std::numeric_limits<Index>::max();
  EXPECT_THROW(Buffer<float>(-1), ShapeError);
  try {
    const Buffer<float> most{kMost};
    FAIL() << "2^65 bytes were allocated";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "a buffer of 9223372036854775807 elements of 4 bytes exceeds the address space; "
                 "check the sizes of the layers");
  }
  EXPECT_THROW(Matrix<float>(kMost, 2), ShapeError);
  EXPECT_THROW(Matrix<float>(-1, -1), ShapeError);
}

TEST(Matrix, ViewsShareTheMemory) {
  Matrix<float> matrix = Matrix<float>::zeros(4, 3);
  matrix.view()(2, 1) = 5;
  EXPECT_EQ(matrix.first_rows(3).row(2)[1], 5);
  EXPECT_EQ(matrix.view().columns(1, 2)(2, 0), 5);
  EXPECT_EQ(matrix.view().row_range(2, 1)(0, 1), 5);
  EXPECT_EQ(matrix.first_rows(3).rows, 3);
}

}  // namespace
}  // namespace norn
