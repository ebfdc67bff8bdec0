// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

/// Owners of memory.
namespace norn {

/// Where memory comes from. One object per device kind; the CUDA one comes with the CUDA kernels.
class Memory {
 public:
  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// `bytes` bytes aligned to 64. Throws DeviceError with the size when there is not enough.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  virtual void fill_zero(void* data, std::size_t bytes) = 0;

  /// Whether the program itself can read and write this memory.
  virtual bool is_host() const { return true; }
  /// Copies from main memory to this one and back, after the work enqueued so far. Both return when
  /// the copy is made.
  virtual void write(void* to, const void* host, std::size_t bytes);
  virtual void read(const void* from, void* host, std::size_t bytes) const;
  /// The same for `rows` rows of `row_bytes` bytes, rows standing `stride` bytes apart on each
  /// side.
  virtual void write_rows(void* to, std::size_t to_stride, const void* host,
                          std::size_t host_stride, std::size_t row_bytes, std::size_t rows);
  virtual void read_rows(const void* from, std::size_t from_stride, void* host,
                         std::size_t host_stride, std::size_t row_bytes, std::size_t rows) const;
  /// Copies within this memory, after the work enqueued so far; later work sees the copy.
  virtual void copy(void* to, const void* from, std::size_t bytes);

  /// Bytes that nobody uses now. 0 of main memory: what a process may take of it is not its own to
  /// know.
  virtual std::int64_t free_bytes() const { return 0; }
  /// Bytes that a device has, whoever uses them. 0 of main memory.
  virtual std::int64_t total_bytes() const { return 0; }
  /// Bytes handed out and not yet released, and the most there ever were.
  std::int64_t allocated_bytes() const { return allocated_.load(std::memory_order_relaxed); }
  std::int64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }

 protected:
  /// To be called by allocate and release.
  void record_allocated(std::size_t bytes) noexcept;
  void record_released(std::size_t bytes) noexcept;

 private:
  std::atomic<std::int64_t> allocated_{0};
  std::atomic<std::int64_t> peak_{0};
};

/// Main memory.
Memory& host_memory();

/// size * element_bytes. Throws ShapeError for a negative size, DeviceError when no address space
/// holds that much.
std::size_t checked_bytes(Index size, std::size_t element_bytes);
/// rows * cols. Throws ShapeError when one is negative or the product does not fit.
Index checked_elements(Index rows, Index cols);

/// A run of T on one device. Move-only: a copy of something this large is always written out.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  /// `size` elements, not initialised.
  explicit Buffer(Index size, Memory& memory = host_memory()) : memory_(&memory), size_(size) {
    const std::size_t bytes = checked_bytes(size, sizeof(T));
    if (bytes > 0) data_ = static_cast<T*>(memory.allocate(bytes));
  }
  static Buffer zeros(Index size, Memory& memory = host_memory()) {
    Buffer buffer(size, memory);
    buffer.fill_zero();
    return buffer;
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_) memory_->release(data_, std::size_t(size_) * sizeof(T));
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  Index bytes() const { return size_ * Index(sizeof(T)); }
  bool empty() const { return size_ == 0; }
  /// Copies of the first elements from and to main memory.
  void write(const T* host, Index count) {
    if (count > 0) memory_->write(data_, host, std::size_t(count) * sizeof(T));
  }
  void read(T* host, Index count) const {
    if (count > 0) memory_->read(data_, host, std::size_t(count) * sizeof(T));
  }
  void fill_zero() {
    if (size_ > 0) memory_->fill_zero(data_, std::size_t(size_) * sizeof(T));
  }
  VectorView<T> view() { return {data_, size_}; }
  VectorView<const T> view() const { return {data_, size_}; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Memory* memory_ = nullptr;
  T* data_ = nullptr;
  Index size_ = 0;
};

/// A dense row-major matrix [rows x cols] without padding.
template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(Index rows, Index cols, Memory& memory = host_memory())
      : buffer_(checked_elements(rows, cols), memory), rows_(rows), cols_(cols) {}
  static Matrix zeros(Index rows, Index cols, Memory& memory = host_memory()) {
    Matrix matrix(rows, cols, memory);
    matrix.buffer_.fill_zero();
    return matrix;
  }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index bytes() const { return buffer_.bytes(); }
  bool empty() const { return buffer_.empty(); }
  void fill_zero() { buffer_.fill_zero(); }
  MatrixView<T> view() { return {buffer_.data(), rows_, cols_, cols_}; }
  MatrixView<const T> view() const { return {buffer_.data(), rows_, cols_, cols_}; }
  /// The first `count` rows: the last batch of an epoch may be smaller than the others.
  MatrixView<T> first_rows(Index count) { return view().row_range(0, count); }
  MatrixView<const T> first_rows(Index count) const { return view().row_range(0, count); }

 private:
  Buffer<T> buffer_;
  Index rows_ = 0;
  Index cols_ = 0;
};

/// A sparse batch that owns its arrays; capacity grows and is kept from batch to batch.
struct CsrBuffer {
  Buffer<RowOffset> row_begin;
  Buffer<Column> column;
  Buffer<float> value;
  bool has_values = false;
  Index rows = 0;
  Index cols = 0;
  Index entry_limit = 0;  ///< that of its view
  CsrView view() const {
    return {row_begin.data(), column.data(), has_values ? value.data() : nullptr, rows, cols,
            entry_limit};
  }
};

}  // namespace norn
