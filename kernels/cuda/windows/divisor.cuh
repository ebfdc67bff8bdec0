// SPDX-License-Identifier: Apache-2.0
// Quotients by numbers that a launch fixes: multiplications, where a division takes twenty
// instructions.
#pragma once

#include <cstdint>

namespace norn::cuda {

/// Divides numbers n from 0 to 2^31 - 1 by d in (2^(l-1), 2^l]. m = ceil(2^(31+l) / d) is less than
/// 2^l / d above 2^(31+l) / d, so n m / 2^(31+l) is less than 1 / d above n / d, whose whole part
/// it has.
class Divisor {
 public:
  explicit Divisor(std::int64_t by) : by_(int(by)) {
    std::uint32_t l = 0;
    while ((std::int64_t(1) << l) < by) ++l;
    if (by <= 1) return;
    shift_ = l - 1;
    factor_ =
        std::uint32_t(((std::uint64_t(1) << (31 + l)) + std::uint64_t(by) - 1) / std::uint64_t(by));
  }
  __host__ __device__ int by() const { return by_; }
  __device__ int quotient(int n) const {
    return by_ <= 1 ? n : int(__umulhi(std::uint32_t(n), factor_) >> shift_);
  }
  /// Both at once; `n` becomes the remainder.
  __device__ int divide(int& n) const {
    const int whole = quotient(n);
    n -= whole * by_;
    return whole;
  }

 private:
  int by_;
  std::uint32_t factor_ = 0;
  std::uint32_t shift_ = 0;
};

}  // namespace norn::cuda
