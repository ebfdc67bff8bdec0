// SPDX-License-Identifier: Apache-2.0
#include "src/engine/train/device_inverse.h"

#include "kernels/kernels.h"
#include "kernels/symmetric_inverse.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace norn {
namespace {

using As = FactoredKernels::As;
using Operands = FactoredKernels::Operands;

// Columns that are swept at a time: a product of a matrix with so many is as fast as a larger one,
// and the inverse of so many is small beside it.
constexpr Index kBlock = 512;

/// A matrix in the device's memory, of which blocks are swept.
class DeviceSweep {
 public:
  DeviceSweep(const Compute& compute, MatrixView<const double> a)
      : kernels_(*compute.kernels.factored),
        memory_(compute.memory),
        a_(a.rows, a.rows, memory_),
        rows_(block_of(a), a.rows, memory_),
        swept_(block_of(a), a.rows, memory_),
        factor_(block_of(a), block_of(a), memory_),
        inverse_(block_of(a), block_of(a), memory_),
        identity_(block_of(a), block_of(a), memory_),
        pivots_((a.rows + kBlock - 1) / kBlock, memory_) {
    memory_.write_rows(a_.view().data, bytes(a.rows), a.data, bytes(a.stride), bytes(a.rows),
                       std::size_t(a.rows));
    kernels_.set_identity(identity_.view());
  }

  /// Columns [first, first + width), with J for them and K for the others:
  ///   a(J, J) = -a(J, J)^-1,  a(J, K) = a(J, J)^-1 a(J, K),  a(K, K) -= a(K, J) a(J, J)^-1 a(J, K)
  void columns(Index first, Index width) {
    const MatrixView<double> a = a_.view(), pivot_rows = a.row_range(first, width);
    const MatrixView<double> rows = rows_.first_rows(width), swept = swept_.first_rows(width);
    const MatrixView<double> factor = corner(factor_, width), inverse = corner(inverse_, width);
    const MatrixView<double> identity = identity_.first_rows(width).columns(0, width);
    kernels_.combine(0.0, rows, 1.0, pivot_rows);
    kernels_.combine(0.0, factor, 1.0, pivot_rows.columns(first, width));
    kernels_.factorize(factor, {}, pivots_.view().range(first / kBlock, 1));
    kernels_.invert(factor, inverse);
    kernels_.multiply(1.0, inverse, As::it_is, rows, As::it_is, Existing::overwrite, swept,
                      Operands::float64);
    kernels_.multiply(-1.0, rows, As::transposed, swept, As::it_is, Existing::add, a,
                      Operands::float64);
    kernels_.combine(0.0, pivot_rows, 1.0, swept);
    kernels_.multiply(1.0, swept, As::transposed, identity, As::it_is, Existing::overwrite,
                      a.columns(first, width), Operands::float64);
    kernels_.combine(0.0, pivot_rows.columns(first, width), -1.0, inverse);
  }

  /// What was swept is the inverse with the other sign. Returns the least pivot.
  double read(MatrixView<double> a) {
    kernels_.combine(0.0, a_.view(), -1.0, a_.view());
    memory_.read_rows(a_.view().data, bytes(a.rows), a.data, bytes(a.stride), bytes(a.rows),
                      std::size_t(a.rows));
    std::vector<double> pivots(std::size_t(pivots_.size()));
    pivots_.read(pivots.data(), pivots_.size());
    double least = HUGE_VAL;
    for (const double pivot : pivots) {
      if (!(pivot > 0.0)) return pivot;
      least = std::min(least, pivot);
    }
    return least;
  }

 private:
  static Index block_of(MatrixView<const double> a) { return std::min(kBlock, a.rows); }
  static std::size_t bytes(Index elements) { return std::size_t(elements) * sizeof(double); }
  static MatrixView<double> corner(Matrix<double>& m, Index width) {
    return {m.view().data, width, width, width};
  }

  FactoredKernels& kernels_;
  Memory& memory_;
  Matrix<double> a_;
  Matrix<double> rows_, swept_;      // [block x n] before and after
  Matrix<double> factor_, inverse_;  // [block x block] of a pivot
  Matrix<double> identity_;          // whose corner is one, too
  Buffer<double> pivots_;            // the least one of each block
};

}  // namespace

bool inverts_on_device(const Memory& memory, Index size) {
  return !memory.is_host() && double(size) * double(size + 3 * kBlock) * double(sizeof(double)) <=
                                  0.5 * double(memory.total_bytes());
}

double invert_on_device(Executor& lanes, const Compute& compute, MatrixView<double> a) {
  if (a.rows == 0) return HUGE_VAL;
  mirror_lower(lanes, a);
  DeviceSweep sweep(compute, a);
  for (Index first = 0; first < a.rows; first += kBlock)
    sweep.columns(first, std::min(kBlock, a.rows - first));
  const double least = sweep.read(a);
  // The two halves of a product may be rounded differently.
  mirror_lower(lanes, a);
  return least;
}

}  // namespace norn
