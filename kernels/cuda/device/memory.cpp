// SPDX-License-Identifier: Apache-2.0
// A GPU's memory: a pool by size over cudaMalloc, and copies from and to main memory.
#include "kernels/cuda/device/memory.h"

#include "src/base/text.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace norn::cuda {
namespace {

// cudaMalloc's own alignment; rounding up lets buffers of nearly the same size replace each other.
constexpr std::size_t kGranule = 512;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

/// While a graph is being captured, other calls of this thread are let through: an allocation is no
/// work of the stream.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Copies of fewer bytes go straight: the driver has them done before a ring would turn.
constexpr std::size_t kStagedBytes = std::size_t(1) << 20;

// Rows in runs that fit into a piece of the ring.
class Pieces {
 public:
  Pieces(std::size_t row_bytes, std::size_t rows)
      : rows_(rows), run_(StagingRing::kPieceBytes / row_bytes) {}
  std::size_t count() const { return (rows_ + run_ - 1) / run_; }
  std::size_t first(std::size_t piece) const { return piece * run_; }
  std::size_t rows(std::size_t piece) const { return std::min(run_, rows_ - first(piece)); }

 private:
  std::size_t rows_;
  std::size_t run_;
};

void* at(void* data, std::size_t byte) {
  return static_cast<char*>(data) + byte;
}
const void* at(const void* data, std::size_t byte) {
  return static_cast<const char*>(data) + byte;
}

void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
               std::size_t row_bytes, std::size_t rows) {
  for (std::size_t r = 0; r < rows; ++r)
    std::memcpy(at(to, r * to_stride), at(from, r * from_stride), row_bytes);
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  cudaStreamSynchronize(stream_);
  empty_pool();
  for (void* data : retired_) cudaFree(data);
}

// Forgets what an earlier graph may use, which was launched or dropped since.
bool DeviceMemory::is_capturing() noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  cudaStreamGetCaptureInfo(stream_, &status, &number);
  const bool captures = status != cudaStreamCaptureStatusNone;
  if (!captures || number != capture_) in_graph_.clear();
  capture_ = number;
  return captures;
}

// cudaFree waits for work that was enqueued, which a graph is not while it is captured.
void DeviceMemory::empty_pool() noexcept {
  const bool captures = is_capturing();
  for (auto& [bytes, pieces] : free_)
    std::erase_if(pieces, [&](void* piece) {
      const bool is_used = captures && in_graph_.contains(piece);
      return !is_used && cudaFree(piece) == cudaSuccess;
    });
}

void DeviceMemory::retire(void* data) noexcept {
  try {
    retired_.push_back(data);
  } catch (...) {
    cudaFree(data);
  }
  free_retired();
}

void DeviceMemory::free_retired() noexcept {
  if (retired_.empty()) return;
  if (is_capturing()) return;
  cudaStreamSynchronize(stream_);
  for (void* data : retired_) cudaFree(data);
  retired_.clear();
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const RelaxedCapture relaxed;
  free_retired();
  const std::size_t size = rounded_up(bytes);
  void* data = nullptr;
  if (const auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    data = found->second.back();
    found->second.pop_back();
  } else {
    cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation && !free_.empty()) {
      cudaGetLastError();
      empty_pool();
      status = cudaMalloc(&data, size);
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw DeviceError(fmt::format(
          "GPU memory: {} ({} bytes) could not be allocated, {} are in use by this process; use a "
          "smaller batch, more GPUs, or a GPU with more memory",
          human_bytes(double(bytes)), bytes, human_bytes(double(allocated_bytes()))));
    }
    check(status, "cudaMalloc");
  }
  record_allocated(bytes);
  return data;
}

void DeviceMemory::release(void* data, std::size_t bytes) noexcept {
  const RelaxedCapture relaxed;
  record_released(bytes);
  if (!pooled_) {
    retire(data);
    return;
  }
  try {
    if (is_capturing()) in_graph_.insert(data);
    free_[rounded_up(bytes)].push_back(data);
  } catch (...) {
    if (!is_capturing()) cudaFree(data);
  }
}

std::int64_t DeviceMemory::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  for (const auto& [bytes, pieces] : free_) free += bytes * pieces.size();
  return std::int64_t(free);
}

std::int64_t DeviceMemory::total_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::int64_t(total);
}

void DeviceMemory::fill_zero(void* data, std::size_t bytes) {
  check(cudaMemsetAsync(data, 0, bytes, stream_), "cudaMemsetAsync");
}

StagingRing& DeviceMemory::ring() const {
  if (!ring_) ring_ = std::make_unique<StagingRing>();
  return *ring_;
}

void DeviceMemory::write(void* to, const void* host, std::size_t bytes) {
  if (bytes < kStagedBytes) {
    check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return;
  }
  const Pieces pieces(1, bytes);
  ring().write(
      stream_, pieces.count(),
      [&](std::size_t i, char* piece) {
        std::memcpy(piece, at(host, pieces.first(i)), pieces.rows(i));
      },
      [&](std::size_t i, const char* piece) {
        check(cudaMemcpyAsync(at(to, pieces.first(i)), piece, pieces.rows(i),
                              cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
      });
}

void DeviceMemory::read(const void* from, void* host, std::size_t bytes) const {
  if (bytes < kStagedBytes) {
    check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return;
  }
  const Pieces pieces(1, bytes);
  ring().read(
      stream_, pieces.count(),
      [&](std::size_t i, char* piece) {
        check(cudaMemcpyAsync(piece, at(from, pieces.first(i)), pieces.rows(i),
                              cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
      },
      [&](std::size_t i, const char* piece) {
        std::memcpy(at(host, pieces.first(i)), piece, pieces.rows(i));
      });
}

void DeviceMemory::copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
}

void DeviceMemory::write_rows(void* to, std::size_t to_stride, const void* host,
                              std::size_t host_stride, std::size_t row_bytes, std::size_t rows) {
  if (rows == 0 || row_bytes == 0) return;
  if (to_stride == row_bytes && host_stride == row_bytes) return write(to, host, rows * row_bytes);
  if (rows * row_bytes < kStagedBytes || row_bytes > StagingRing::kPieceBytes) {
    check(cudaMemcpy2DAsync(to, to_stride, host, host_stride, row_bytes, rows,
                            cudaMemcpyHostToDevice, stream_),
          "cudaMemcpy2DAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return;
  }
  const Pieces pieces(row_bytes, rows);
  ring().write(
      stream_, pieces.count(),
      [&](std::size_t i, char* piece) {
        copy_rows(piece, row_bytes, at(host, pieces.first(i) * host_stride), host_stride, row_bytes,
                  pieces.rows(i));
      },
      [&](std::size_t i, const char* piece) {
        check(cudaMemcpy2DAsync(at(to, pieces.first(i) * to_stride), to_stride, piece, row_bytes,
                                row_bytes, pieces.rows(i), cudaMemcpyHostToDevice, stream_),
              "cudaMemcpy2DAsync");
      });
}

void DeviceMemory::read_rows(const void* from, std::size_t from_stride, void* host,
                             std::size_t host_stride, std::size_t row_bytes,
                             std::size_t rows) const {
  if (rows == 0 || row_bytes == 0) return;
  if (from_stride == row_bytes && host_stride == row_bytes)
    return read(from, host, rows * row_bytes);
  if (rows * row_bytes < kStagedBytes || row_bytes > StagingRing::kPieceBytes) {
    check(cudaMemcpy2DAsync(host, host_stride, from, from_stride, row_bytes, rows,
                            cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpy2DAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return;
  }
  const Pieces pieces(row_bytes, rows);
  ring().read(
      stream_, pieces.count(),
      [&](std::size_t i, char* piece) {
        check(cudaMemcpy2DAsync(piece, row_bytes, at(from, pieces.first(i) * from_stride),
                                from_stride, row_bytes, pieces.rows(i), cudaMemcpyDeviceToHost,
                                stream_),
              "cudaMemcpy2DAsync");
      },
      [&](std::size_t i, const char* piece) {
        copy_rows(at(host, pieces.first(i) * host_stride), host_stride, piece, row_bytes, row_bytes,
                  pieces.rows(i));
      });
}

}  // namespace norn::cuda
