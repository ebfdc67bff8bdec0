// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/staging_ring.h"
#include "src/tensor/buffer.h"

#include <cstddef>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

namespace norn::cuda {

/// Memory of one GPU. With a pool, what is released is handed out again to the next request of the
/// same size; since all work is on one stream, the new owner's work follows the old one's. What the
/// pool keeps goes back to the driver before a request is refused, but for what a graph that is
/// being captured may use. Without one, it goes back to the
/// driver at once, but not while a graph is being captured, whose work comes later. Large copies of
/// main memory pass through page-locked memory.
class DeviceMemory final : public Memory {
 public:
  DeviceMemory(cudaStream_t stream, bool pooled) : stream_(stream), pooled_(pooled) {}
  ~DeviceMemory() override;

  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;
  void fill_zero(void* data, std::size_t bytes) override;
  bool is_host() const override { return false; }
  /// Of the whole GPU; what the pool keeps is free.
  std::int64_t free_bytes() const override;
  std::int64_t total_bytes() const override;
  void write(void* to, const void* host, std::size_t bytes) override;
  void read(const void* from, void* host, std::size_t bytes) const override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void write_rows(void* to, std::size_t to_stride, const void* host, std::size_t host_stride,
                  std::size_t row_bytes, std::size_t rows) override;
  void read_rows(const void* from, std::size_t from_stride, void* host, std::size_t host_stride,
                 std::size_t row_bytes, std::size_t rows) const override;

 private:
  bool is_capturing() noexcept;
  void empty_pool() noexcept;
  void retire(void* data) noexcept;
  void free_retired() noexcept;
  StagingRing& ring() const;
  cudaStream_t stream_;
  bool pooled_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::vector<void*> retired_;                 // released, without a pool, and not yet given back
  unsigned long long capture_ = 0;             // number of the last one
  std::unordered_set<void*> in_graph_;         // of free_: what was released within it
  mutable std::unique_ptr<StagingRing> ring_;  // from the first large copy on
};

}  // namespace norn::cuda
