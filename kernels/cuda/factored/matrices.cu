// SPDX-License-Identifier: Apache-2.0
// Matrices of the batch and of the source's width, element by element and row by row. Sums run in
// an order that the shape fixes.
#include "kernels/cuda/factored/factored_parts.h"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// body(row, column), a block a row.
template <typename Body>
__global__ void __launch_bounds__(kThreads) element_kernel(Index cols, Body body) {
  const Index r = blockIdx.x;
  for (Index c = threadIdx.x; c < cols; c += kThreads) body(r, c);
}

template <typename Body>
void for_elements(const Stream& stream, const char* name, Index rows, Index cols,
                  const Body& body) {
  if (rows == 0 || cols == 0) return;
  element_kernel<<<unsigned(rows), kThreads, 0, stream.stream>>>(cols, body);
  check_launch(name);
}

/// The sum of what the threads of a block have, in all of them.
__device__ double sum_of_block(double x) {
  __shared__ double of_warp[kThreads / kWarp];
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  double sum = 0.0;
  for (int i = 0; i < kThreads / kWarp; ++i) sum += of_warp[i];
  return sum;
}

__device__ double root_of(const VectorView<const float>& weight, Index row) {
  return weight.size == 0 ? 1.0 : sqrt(double(weight[row]));
}

__global__ void __launch_bounds__(kThreads)
    add_to_rows_kernel(MatrixView<const double> h, double scale, MatrixView<const double> added,
                       MatrixView<double> m, VectorView<double> of_rows) {
  const Index r = blockIdx.x;
  double part = 0.0;
  for (Index c = threadIdx.x; c < m.cols; c += kThreads) {
    const double x = m(r, c);
    part += x * h(r, c);
    if (added.data != nullptr) m(r, c) = scale * x + added(r, c);
  }
  const double sum = sum_of_block(part);
  if (threadIdx.x == 0) of_rows[r] = sum;
}

__global__ void __launch_bounds__(kThreads)
    damp_kernel(DampedMatrix base, double scale, MatrixView<const double> added,
                MatrixView<double> m) {
  const bool has_base = base.matrix.data != nullptr;
  double part = 0.0;
  for (Index i = threadIdx.x; has_base && i < m.rows; i += kThreads) part += base.matrix(i, i);
  const double trace = sum_of_block(part);
  const double on_diagonal = trace > 0.0 ? base.damping * trace / double(m.rows) : 1.0;
  const Index r = blockIdx.x;
  for (Index c = threadIdx.x; c < m.cols; c += kThreads) {
    double x = (has_base ? base.matrix(r, c) : 0.0) + (r == c ? on_diagonal : 0.0);
    if (added.data != nullptr) x += scale * added(r, c);
    m(r, c) = x;
  }
}

__global__ void __launch_bounds__(kThreads)
    judge_kernel(VectorView<const double> least, double limit, double scale,
                 MatrixView<const double> h, double* share) {
  bool holds = true;
  for (Index i = 0; i < least.size; ++i) holds = holds && least[i] >= limit;
  if (holds) return;
  __shared__ double largest[kThreads];
  double most = 0.0;
  for (Index c = threadIdx.x; c < h.cols; c += kThreads) {
    double sum = 0.0;
    for (Index r = 0; r < h.rows; ++r) {
      double of_row = 0.0;
      for (Index j = 0; j < h.cols; ++j) of_row += fabs(h(r, j));
      sum += fabs(h(r, c)) * of_row;
    }
    most = fmax(most, scale * sum);
  }
  largest[threadIdx.x] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (double of_thread : largest) most = fmax(most, of_thread);
  *share = most > 0.0 ? most : 1.0;
}

/// The block that ends last knows the largest magnitude: its bits are in the order of magnitudes.
__global__ void __launch_bounds__(kThreads)
    look_kernel(MatrixView<const double> m, double limit, double* needed, Largest* largest) {
  double most = 0.0;
  for (Index r = blockIdx.x; r < m.rows; r += gridDim.x)
    for (Index c = threadIdx.x; c < m.cols; c += kThreads) most = fmax(most, fabs(m(r, c)));
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2)
    most = fmax(most, __shfl_xor_sync(0xFFFFFFFFu, most, apart));
  if (threadIdx.x % kWarp == 0)
    atomicMax(&largest->bits, static_cast<unsigned long long>(__double_as_longlong(most)));
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&largest->blocks_done, 1u) + 1 != gridDim.x) return;
  __threadfence();
  const double all = __longlong_as_double(static_cast<long long>(atomicExch(&largest->bits, 0ull)));
  largest->blocks_done = 0;
  *needed = all > limit ? 1.0 : 0.0;
}

constexpr int kTile = 32;

/// c = a b, or a' b, where *needed is not 0.
template <bool kTransposed>
__global__ void __launch_bounds__(kThreads)
    multiply_kernel(const double* needed, MatrixView<const double> a, MatrixView<const double> b,
                    MatrixView<double> c) {
  if (*needed == 0.0) return;
  __shared__ double left[kTile][kTile + 1], right[kTile][kTile + 1];
  const Index row0 = blockIdx.y * Index(kTile), col0 = blockIdx.x * Index(kTile);
  const int r = int(threadIdx.x) / 8, first = int(threadIdx.x) % 8;
  double sum[4] = {};
  for (Index k0 = 0; k0 < b.rows; k0 += kTile) {
    __syncthreads();
    for (int at = int(threadIdx.x); at < kTile * kTile; at += kThreads) {
      const int i = at / kTile, j = at % kTile;
      const Index k = kTransposed ? k0 + i : k0 + j, row = row0 + (kTransposed ? j : i);
      const double x = row < c.rows && k < b.rows ? (kTransposed ? a(k, row) : a(row, k)) : 0.0;
      (kTransposed ? left[j][i] : left[i][j]) = x;
      right[i][j] = k0 + i < b.rows && col0 + j < c.cols ? b(k0 + i, col0 + j) : 0.0;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kTile; ++k)
#pragma unroll
      for (int q = 0; q < 4; ++q) sum[q] = fma(left[r][k], right[k][first + 8 * q], sum[q]);
  }
#pragma unroll
  for (int q = 0; q < 4; ++q)
    if (row0 + r < c.rows && col0 + first + 8 * q < c.cols)
      c(row0 + r, col0 + first + 8 * q) = sum[q];
}

__global__ void store_kernel(double value, double* to) {
  *to = value;
}

}  // namespace

void set_source_rows(const Stream& stream, const DenseOperand& source, MatrixView<double> h) {
  const MatrixView<const float> x = source.values;
  const MatrixView<const Bfloat16> bf16 = source.bf16;
  for_elements(stream, "set_source", h.rows, h.cols, [=] __device__(Index r, Index c) {
    h(r, c) = c == h.cols - 1        ? 1.0
              : bf16.data != nullptr ? double(bf16(r, c).value())
                                     : double(x(r, c));
  });
}

void scale_rows(const Stream& stream, VectorView<const float> weight, MatrixView<double> m) {
  for_elements(stream, "scale_rows", m.rows, m.cols,
               [=] __device__(Index r, Index c) { m(r, c) *= root_of(weight, r); });
}

void add_fixed_sums(const Stream& stream, MatrixView<const FixedSum> sums, bool adds,
                    MatrixView<double> m) {
  for_elements(stream, "add_sums", m.rows, m.cols, [=] __device__(Index r, Index c) {
    m(r, c) = (adds ? m(r, c) : 0.0) + sums(r, c).value();
  });
}

void add_to_fixed_sums(const Stream& stream, MatrixView<const double> term,
                       MatrixView<FixedSum> sums) {
  for_elements(stream, "add_gram", term.rows, term.cols,
               [=] __device__(Index r, Index c) { sums(r, c).add(term(r, c)); });
}

void add_to_rows(const Stream& stream, MatrixView<const double> h, double scale,
                 MatrixView<const double> added, MatrixView<double> m, VectorView<double> of_rows) {
  if (m.rows == 0) return;
  add_to_rows_kernel<<<unsigned(m.rows), kThreads, 0, stream.stream>>>(h, scale, added, m, of_rows);
  check_launch("add_to_rows");
}

void send_rows(const Stream& stream, MatrixView<const double> m, VectorView<const float> weight,
               MatrixView<float> x) {
  for_elements(stream, "send", x.rows, x.cols,
               [=] __device__(Index r, Index c) { x(r, c) = float(root_of(weight, r) * m(r, c)); });
}

void combine(const Stream& stream, double keep, MatrixView<double> a, double scale,
             MatrixView<const double> b) {
  for_elements(stream, "combine", a.rows, a.cols, [=] __device__(Index r, Index c) {
    a(r, c) = (keep == 0.0 ? 0.0 : keep * a(r, c)) + scale * b(r, c);
  });
}

void damp(const Stream& stream, const DampedMatrix& base, double scale,
          MatrixView<const double> added, MatrixView<double> m) {
  if (m.rows == 0) return;
  damp_kernel<<<unsigned(m.rows), kThreads, 0, stream.stream>>>(base, scale, added, m);
  check_launch("damp");
}

void add_symmetric(const Stream& stream, double scale, MatrixView<const double> w,
                   MatrixView<double> g) {
  for_elements(stream, "add_symmetric", g.rows, g.cols,
               [=] __device__(Index r, Index c) { g(r, c) += scale * (w(r, c) + w(c, r)); });
}

void judge(const Stream& stream, VectorView<const double> least, double limit, double scale,
           MatrixView<const double> h, double* share) {
  judge_kernel<<<1, kThreads, 0, stream.stream>>>(least, limit, scale, h, share);
  check_launch("judge");
}

void look(const Stream& stream, MatrixView<const double> m, double limit, double* needed,
          Largest* largest) {
  look_kernel<<<blocks_for(m.rows, 1, stream.multiprocessors), kThreads, 0, stream.stream>>>(
      m, limit, needed, largest);
  check_launch("look");
}

void fold_gram(const Stream& stream, const double* needed, MatrixView<double> u,
               MatrixView<double> inverse, MatrixView<double> gram, double* workspace) {
  if (u.rows == 0) return;
  const MatrixView<double> half{workspace, u.rows, u.cols, u.cols};
  const auto tiles = unsigned((u.rows + kTile - 1) / kTile);
  multiply_kernel<false><<<dim3(tiles, tiles), kThreads, 0, stream.stream>>>(needed, gram, u, half);
  check_launch("fold_gram");
  multiply_kernel<true><<<dim3(tiles, tiles), kThreads, 0, stream.stream>>>(needed, u, half, gram);
  check_launch("fold_gram");
  for_elements(stream, "fold_gram", u.rows, u.cols, [=] __device__(Index r, Index c) {
    if (*needed == 0.0) return;
    u(r, c) = inverse(r, c) = r == c ? 1.0 : 0.0;
  });
}

void set_identity(const Stream& stream, MatrixView<double> m) {
  for_elements(stream, "set_identity", m.rows, m.cols,
               [=] __device__(Index r, Index c) { m(r, c) = r == c ? 1.0 : 0.0; });
}

void store(const Stream& stream, double value, double* to) {
  store_kernel<<<1, 1, 0, stream.stream>>>(value, to);
  check_launch("store");
}

}  // namespace norn::cuda
