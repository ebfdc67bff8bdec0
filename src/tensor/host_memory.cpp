// SPDX-License-Identifier: Apache-2.0
// Main memory, aligned to cache lines, with a count of the bytes in use.

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/tensor/buffer.h"

#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>
#include <sys/mman.h>

namespace norn {

namespace {

// Of no bytes there may be no address, which memcpy must not see.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

constexpr std::align_val_t kAlignment{64};

/// Allocations from this size on are whole huge pages: rows that are visited at random then miss
/// the address translation cache far less often (10-30 % of a sparse product on wide matrices).
constexpr std::size_t kHugePage = std::size_t(2) << 20;
constexpr std::size_t kHugeAllocation = 4 * kHugePage;

std::align_val_t alignment_of(std::size_t bytes) {
  return bytes >= kHugeAllocation ? std::align_val_t(kHugePage) : kAlignment;
}

void advise_huge_pages(void* data, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  // Advice only: where the kernel does not follow it, the memory is as good as any.
  if (bytes >= kHugeAllocation) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

class HostMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    void* const data = ::operator new(bytes, alignment_of(bytes), std::nothrow);
    if (data == nullptr) {
      throw DeviceError(
          fmt::format("main memory: {} ({} bytes) could not be allocated, {} are in use; use a "
                      "smaller batch or a machine with more memory",
                      human_bytes(double(bytes)), bytes, human_bytes(double(allocated_bytes()))));
    }
    advise_huge_pages(data, bytes);
    record_allocated(bytes);
    return data;
  }

  void release(void* data, std::size_t bytes) noexcept override {
    ::operator delete(data, alignment_of(bytes));
    record_released(bytes);
  }

  void fill_zero(void* data, std::size_t bytes) override {
    if (bytes > 0) std::memset(data, 0, bytes);
  }
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

void Memory::write(void* to, const void* host, std::size_t bytes) {
  copy_bytes(to, host, bytes);
}

void Memory::read(const void* from, void* host, std::size_t bytes) const {
  copy_bytes(host, from, bytes);
}

void Memory::copy(void* to, const void* from, std::size_t bytes) {
  copy_bytes(to, from, bytes);
}

void Memory::write_rows(void* to, std::size_t to_stride, const void* host, std::size_t host_stride,
                        std::size_t row_bytes, std::size_t rows) {
  for (std::size_t r = 0; r < rows; ++r)
    copy_bytes(static_cast<char*>(to) + r * to_stride,
               static_cast<const char*>(host) + r * host_stride, row_bytes);
}

void Memory::read_rows(const void* from, std::size_t from_stride, void* host,
                       std::size_t host_stride, std::size_t row_bytes, std::size_t rows) const {
  for (std::size_t r = 0; r < rows; ++r)
    copy_bytes(static_cast<char*>(host) + r * host_stride,
               static_cast<const char*>(from) + r * from_stride, row_bytes);
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
