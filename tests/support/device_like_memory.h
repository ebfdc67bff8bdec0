// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/buffer.h"

namespace norn::test {

/// Main memory that passes for a device's: partial sums are kept in it as they do on a GPU.
class DeviceLikeMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override { return host_memory().allocate(bytes); }
  void release(void* data, std::size_t bytes) noexcept override {
    host_memory().release(data, bytes);
  }
  void fill_zero(void* data, std::size_t bytes) override { host_memory().fill_zero(data, bytes); }
  bool is_host() const override { return false; }
};

}  // namespace norn::test
