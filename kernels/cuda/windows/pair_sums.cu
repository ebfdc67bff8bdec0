// SPDX-License-Identifier: Apache-2.0
// Sums over the units of an example: a block has a row, its threads every 256th unit in order, and
// a tree adds the threads' parts, all in float64.
#include "kernels/cuda/elements/row_group.cuh"
#include "kernels/cuda/windows/operand.cuh"
#include "kernels/cuda/windows/pair_sums.h"
#include "kernels/cuda/windows/unit_order.cuh"
#include "kernels/cuda/windows/windows.cuh"

namespace norn::cuda {
namespace {

/// b(e, i): the unit of the second source that goes with unit i of the first.
struct SecondUnits {
  UnitOrderMap first;
  UnitOrderMap second;
  Operand b;
  __device__ float operator()(Index e, int i) const { return b(e, second.at(first.unit(i))); }
};

__global__ void __launch_bounds__(kWindowThreads)
    pair_sums_kernel(Operand a, SecondUnits b, PairSums<FixedSum> sums) {
  for (Index e = blockIdx.x; e < a.rows(); e += gridDim.x) {
    double product = 0.0, first = 0.0, second = 0.0;
    for (int i = int(threadIdx.x); i < a.cols(); i += kWindowThreads) {
      const auto x = double(a(e, i)), y = double(b(e, i));
      product += x * y;
      first += x * x;
      second += y * y;
    }
    product = reduce_threads<kWindowThreads>(product, Plus());
    first = reduce_threads<kWindowThreads>(first, Plus());
    second = reduce_threads<kWindowThreads>(second, Plus());
    if (threadIdx.x != 0) continue;
    sums.products[e].add(product);
    if (sums.first_squares.size == 0) continue;
    sums.first_squares[e].add(first);
    sums.second_squares[e].add(second);
  }
}

/// |a| and |b|, and what a cosine divides by.
struct Norms {
  double first;
  double second;
  __device__ Norms(const PairSums<const FixedSum>& sums, Index e)
      : first(sqrt(sums.first_squares[e].value())), second(sqrt(sums.second_squares[e].value())) {}
  __device__ double of(double product) const {
    return product /
           ((first + PoolingKernels::norm_epsilon) * (second + PoolingKernels::norm_epsilon));
  }
};

struct Compare {
  bool is_cosine;
  PairSums<const FixedSum> sums;
  MatrixView<float> y;
  __device__ void operator()(Index e, int c) const {
    const double product = sums.products[e].value();
    y(e, c) = float(is_cosine ? Norms(sums, e).of(product) : product);
  }
};

/// dx = delta * (along_b * b + along_a * a).
struct CompareBackward {
  bool is_cosine;
  PairSums<const FixedSum> sums;
  MatrixView<const float> delta;
  Operand a;
  SecondUnits b;
  MatrixView<float> dx;
  bool adds;
  __device__ void operator()(Index e, int c) const {
    double along_a = 0.0, along_b = 1.0;
    if (is_cosine) {
      const Norms norms(sums, e);
      const double cosine = norms.of(sums.products[e].value());
      if (norms.first != 0.0)
        along_a = -cosine / (norms.first * (norms.first + PoolingKernels::norm_epsilon));
      along_b = norms.of(1.0);
    }
    const auto given = double(delta(e, 0));
    const auto value = float(given * along_b * double(b(e, c)) + given * along_a * double(a(e, c)));
    dx(e, c) = adds ? dx(e, c) + value : value;
  }
};

SecondUnits second_units(const PoolingSource& first, const PoolingSource& second) {
  return {UnitOrderMap(first.window), UnitOrderMap(second.window), second.x};
}

}  // namespace

void add_pair_sums(const Stream& stream, const PoolingSource& first, const PoolingSource& second,
                   const PairSums<FixedSum>& sums) {
  if (first.x.rows() == 0) return;
  pair_sums_kernel<<<blocks_for(first.x.rows(), 1, Index(16) * stream.multiprocessors),
                     kWindowThreads, 0, stream.stream>>>(first.x, second_units(first, second),
                                                         sums);
  check_launch("pair_sums_kernel");
}

void compare(const Stream& stream, Similarity similarity, const PairSums<const FixedSum>& sums,
             MatrixView<float> y) {
  for_cells(stream, "compare", y.rows, y.cols, Compare{similarity == Similarity::cosine, sums, y});
}

void compare_backward(const Stream& stream, Similarity similarity,
                      const PairSums<const FixedSum>& sums, MatrixView<const float> delta,
                      const PoolingSource& first, const PoolingSource& second, MatrixView<float> dx,
                      bool adds) {
  for_cells(stream, "compare backward", dx.rows, dx.cols,
            CompareBackward{similarity == Similarity::cosine, sums, delta, first.x,
                            second_units(first, second), dx, adds});
}

}  // namespace norn::cuda
