// SPDX-License-Identifier: Apache-2.0
// Matrices of windows as threads read them: floats where there are any, else bfloat16.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/dense.h"

namespace norn::cuda {

/// n neighbours in bfloat16 as floats, in one access.
template <int n>
__device__ __forceinline__ Pack<float, n> load_bf16(const Bfloat16* from) {
  Pack<float, n> pack;
  if constexpr (n == 1) {
    pack.value[0] = from->value();
  } else {
    const auto words = load<n / 2>(reinterpret_cast<const std::uint32_t*>(from));
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      pack.value[2 * i] = __uint_as_float(words.value[i] << 16);
      pack.value[2 * i + 1] = __uint_as_float(words.value[i] & 0xFFFF0000u);
    }
  }
  return pack;
}

/// n neighbours of a row, of which one of the two is not null.
template <int n>
__device__ __forceinline__ Pack<float, n> load_either(const MatrixView<const float>& floats,
                                                      const MatrixView<const Bfloat16>& bf16,
                                                      Index e, Index at) {
  return floats.data != nullptr ? load<n>(floats.row(e) + at) : load_bf16<n>(bf16.row(e) + at);
}

/// Whether packs of n may be read or written at every n-th column, where there is memory.
template <int n, typename T>
bool is_packable_or_absent(const MatrixView<T>& m) {
  return m.data == nullptr || is_packable<n>(m);
}

/// Rows of a matrix that may have no memory.
template <typename T>
MatrixView<T> rows_or_absent(const MatrixView<T>& m, Index first, Index count) {
  if (m.data != nullptr) return m.row_range(first, count);
  return {nullptr, count, m.cols, m.stride};
}

/// What a kernel reads of a DenseOperand.
struct Operand {
  MatrixView<const float> floats;
  MatrixView<const Bfloat16> bf16;

  Operand() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Operand(const DenseOperand& x) : floats(x.values), bf16(x.bf16) {
    if (floats.data != nullptr) bf16 = {};
  }
  NORN_HD Index rows() const { return floats.rows; }
  NORN_HD Index cols() const { return floats.cols; }
  Operand row_range(Index first, Index count) const {
    Operand part;
    part.floats = rows_or_absent(floats, first, count);
    part.bf16 = rows_or_absent(bf16, first, count);
    return part;
  }
  template <int n>
  bool is_packable() const {
    return is_packable_or_absent<n>(floats) && is_packable_or_absent<n>(bf16);
  }
  template <int n>
  __device__ Pack<float, n> pack(Index e, Index at) const {
    return load_either<n>(floats, bf16, e, at);
  }
  /// Two packs, whose reads wait for each other no more than those of one.
  template <int n>
  __device__ void packs(Index e, const Index (&at)[2], Pack<float, n> (&two)[2]) const {
    if (floats.data != nullptr) {
#pragma unroll
      for (int i = 0; i < 2; ++i) two[i] = load<n>(floats.row(e) + at[i]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) two[i] = load_bf16<n>(bf16.row(e) + at[i]);
    }
  }
  __device__ float operator()(Index e, Index at) const {
    return pack<1>(e, at).value[0];
  }
};

}  // namespace norn::cuda
