// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "norn/tensor/views.h"

#include <array>
#include <map>
#include <memory>

#include <cublasLt.h>

namespace norn::cuda {

/// Products of float64 by cuBLASLt: one algorithm a shape, chosen by the library's own rules, whose
/// parts of sums are added in a fixed order.
class Float64Products {
 public:
  explicit Float64Products(const Stream& stream);
  ~Float64Products();
  Float64Products(const Float64Products&) = delete;
  Float64Products& operator=(const Float64Products&) = delete;

  struct Operand {
    MatrixView<const double> matrix;
    bool transposed = false;
  };
  /// c = scale a b + keep c
  void multiply(double scale, const Operand& a, const Operand& b, double keep,
                MatrixView<double> c);

 private:
  struct Plan;
  using Key = std::array<Index, 9>;
  std::unique_ptr<Plan> make_plan(const Operand& a, const Operand& b, MatrixView<double> c);

  Stream stream_;
  cublasLtHandle_t handle_ = nullptr;
  Buffer<std::byte> workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace norn::cuda
