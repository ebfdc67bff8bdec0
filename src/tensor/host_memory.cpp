// SPDX-License-Identifier: Apache-2.0
// Main memory, aligned to cache lines, with a count of the bytes in use.

#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/tensor/buffer.h"

#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr std::align_val_t kAlignment{64};

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    void* const data = ::operator new(bytes, kAlignment, std::nothrow);
    if (data == nullptr) {
      throw DeviceError(
          fmt::format("main memory: {} ({} bytes) could not be allocated, {} are in use; use a "
                      "smaller batch or a machine with more memory",
                      human_bytes(double(bytes)), bytes, human_bytes(double(allocated_bytes()))));
    }
    record_allocated(bytes);
    return data;
  }

  void release(void* data, std::size_t bytes) noexcept override {
    ::operator delete(data, kAlignment);
    record_released(bytes);
  }

  void fill_zero(void* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
};

}  // namespace

void Memory::record_allocated(std::size_t bytes) noexcept {
  const std::int64_t now =
      allocated_.fetch_add(std::int64_t(bytes), std::memory_order_relaxed) + std::int64_t(bytes);
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Memory::record_released(std::size_t bytes) noexcept {
  allocated_.fetch_sub(std::int64_t(bytes), std::memory_order_relaxed);
}

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

std::size_t checked_bytes(Index size, std::size_t element_bytes) {
  if (size < 0) {
    throw ShapeError(
        fmt::format("a buffer of {} elements was asked for; expected 0 or more", size));
  }
  if (std::size_t(size) > std::size_t(std::numeric_limits<Index>::max()) / element_bytes) {
    throw DeviceError(
        fmt::format("a buffer of {} elements of {} bytes exceeds the address space; check the "
                    "sizes of the layers",
                    size, element_bytes));
  }
  return std::size_t(size) * element_bytes;
}

Index checked_elements(Index rows, Index cols) {
  Index elements = 0;
  if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, cols, &elements)) {
    throw ShapeError(
        fmt::format("a matrix of {} x {} was asked for; expected sizes of 0 or more whose product "
                    "fits 63 bits",
                    rows, cols));
  }
  return elements;
}

}  // namespace norn
