// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/dense.h"
#include "src/tensor/buffer.h"

#include <cstdint>
#include <memory>

/// Copies of host views on the GPU, for the adapters that let tests give host views to CUDA
/// kernels.
namespace norn::staged {

/// The GPU that all adapters of a test program use: plain memory, no pool, no graphs.
struct TestDevice {
  TestDevice() {
    cuda::check(cudaStreamCreate(&handle), "cudaStreamCreate");
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "cudaDeviceGetAttribute");
    stream = std::make_unique<cuda::Stream>(
        cuda::Stream{handle, *(memory = std::make_unique<cuda::DeviceMemory>(handle, false)),
                     Precision::fp32, count});
  }
  static TestDevice& get() {
    static auto* device = new TestDevice;  // never destroyed: the driver may be gone before it
    return *device;
  }
  /// Returns when all kernels are done; throws when one failed.
  void finish() const { cuda::check(cudaStreamSynchronize(handle), "a kernel under test"); }

  cudaStream_t handle = nullptr;
  std::unique_ptr<cuda::DeviceMemory> memory;
  std::unique_ptr<cuda::Stream> stream;
};

/// A matrix, its padding included, on the GPU, as far from a multiple of 16 bytes as it is on the
/// host. The last row ends with its last column.
template <typename T>
class StagedMatrix {
 public:
  using Value = std::remove_const_t<T>;
  explicit StagedMatrix(MatrixView<T> host)
      : host_(host),
        offset_(Index(reinterpret_cast<std::uintptr_t>(host.data) % 16 / sizeof(T))),
        buffer_(extent(host) + offset_, *TestDevice::get().memory) {
    if (extent(host) > 0) TestDevice::get().memory->write(data(), host.data, bytes());
  }
  MatrixView<Value> view() {
    return {host_.data == nullptr ? nullptr : data(), host_.rows, host_.cols, host_.stride};
  }
  /// Copies everything back, once the kernels are done.
  void back() const requires(!std::is_const_v<T>) {
    if (extent(host_) > 0) TestDevice::get().memory->read(data(), host_.data, bytes());
  }

 private:
  Value* data() { return buffer_.data() + offset_; }
  const Value* data() const { return buffer_.data() + offset_; }
  std::size_t bytes() const { return std::size_t(extent(host_)) * sizeof(T); }
  static Index extent(const MatrixView<T>& m) {
    return m.data == nullptr || m.rows == 0 ? 0 : (m.rows - 1) * m.stride + m.cols;
  }
  MatrixView<T> host_;
  Index offset_;
  Buffer<Value> buffer_;
};

/// An operand on the GPU, with what it has of floats and bf16.
class StagedOperand {
 public:
  explicit StagedOperand(const DenseOperand& host) : floats_(host.values), bf16_(host.bf16) {}
  DenseOperand view() { return {floats_.view(), bf16_.view()}; }

 private:
  StagedMatrix<const float> floats_;
  StagedMatrix<const Bfloat16> bf16_;
};

/// Where a result goes, in the same way.
class StagedResult {
 public:
  explicit StagedResult(const DenseResult& host) : floats_(host.values), bf16_(host.bf16) {}
  DenseResult view() { return {floats_.view(), bf16_.view()}; }
  void back() const {
    floats_.back();
    bf16_.back();
  }

 private:
  StagedMatrix<float> floats_;
  StagedMatrix<Bfloat16> bf16_;
};

/// A run of elements on the GPU.
template <typename T>
class StagedVector {
 public:
  using Value = std::remove_const_t<T>;
  StagedVector(T* host, Index size)
      : host_(host),
        size_(host == nullptr ? 0 : size),
        buffer_(host == nullptr ? 0 : size, *TestDevice::get().memory) {
    buffer_.write(host, size_);
  }
  explicit StagedVector(VectorView<T> host) : StagedVector(host.data, host.size) {}
  Value* data() { return host_ == nullptr ? nullptr : buffer_.data(); }
  VectorView<Value> view() { return {data(), size_}; }
  void back() const requires(!std::is_const_v<T>) { buffer_.read(host_, size_); }

 private:
  T* host_;
  Index size_;
  Buffer<Value> buffer_;
};

/// A sparse batch on the GPU.
class StagedCsr {
 public:
  explicit StagedCsr(const CsrView& host)
      : host_(host),
        row_begin_(host.row_begin, host.rows == 0 ? 0 : host.rows + 1),
        column_(host.column, host.rows == 0 ? 0 : host.row_begin[host.rows]),
        value_(host.value, host.rows == 0 ? 0 : host.row_begin[host.rows]) {}
  CsrView view() {
    CsrView view{row_begin_.data(), column_.data(), value_.data(), host_.rows, host_.cols};
    view.entry_limit = host_.entries();
    return view;
  }

 private:
  CsrView host_;
  StagedVector<const RowOffset> row_begin_;
  StagedVector<const Column> column_;
  StagedVector<const float> value_;
};

}  // namespace norn::staged
