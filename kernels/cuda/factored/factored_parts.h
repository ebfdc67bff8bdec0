// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/factored.h"

/// The parts of the CUDA kernels of factored layers, one file each. What they do is said in
/// kernels/factored.h.
namespace norn::cuda {

// target_lists.cu
void list_entries(const Stream& stream, Workspace<std::byte>& sort, CsrView targets, Range units,
                  TargetLists& lists);

// entry_rows.cu
/// Reads r where `h` is empty. `rv` may be empty.
void read_rows(const Stream& stream, const TargetLists& lists, const FactorView<const float>& v,
               MatrixView<const double> h, const EntryRule& rule, double* r, double* cost,
               MatrixView<FixedSum> rv);
void add_up_block_costs(const Stream& stream, const TargetLists& lists, const double* cost,
                        Index block_width, VectorView<const double> all_units,
                        VectorView<double> of_blocks);

// entry_update.cu
/// What update_touched() needs beside: k in float32, and sums of long runs of entries.
Index update_floats(const TargetLists& lists, Index width);
void update_touched(const Stream& stream, const TargetLists& lists, const double* r, double scale,
                    MatrixView<const double> k, const FactorView<float>& v, float* workspace);

// fold.cu
/// v += v (u - 1) where *needed is not 0.
Index fold_floats(const Stream& stream, Index width);
void fold_rows(const Stream& stream, MatrixView<const double> u, const double* needed,
               const FactorView<float>& v, float* workspace);

// fold_hopper.cu
/// The same on compute capability 9.0. False, having done nothing, on other devices.
Index fold_hopper_floats(const Stream& stream, Index width);
bool fold_rows_hopper(const Stream& stream, MatrixView<const double> u, const double* needed,
                      const FactorView<float>& v, float* workspace);

// row_products.cu
void multiply_rows(const Stream& stream, const FactorView<const float>& v,
                   MatrixView<const double> u, Range columns, MatrixView<float> w);
void multiply_by_rows(const Stream& stream, MatrixView<const double> h,
                      const FactorView<const float>& v, MatrixView<float> z);
/// m = v in float64
void widen(const Stream& stream, const FactorView<const float>& v, MatrixView<double> m);

// cholesky.cu
/// In place of a and of b, which may be empty, the inverse of the lower factor, with zeros above.
Index factor_doubles(Index size);
void invert_factors(const Stream& stream, MatrixView<double> a, MatrixView<double> b,
                    VectorView<double> least, double* workspace);

// matrices.cu
void set_source_rows(const Stream& stream, const DenseOperand& x, MatrixView<double> h);
void scale_rows(const Stream& stream, VectorView<const float> weight, MatrixView<double> m);
void add_fixed_sums(const Stream& stream, MatrixView<const FixedSum> sums, bool adds,
                    MatrixView<double> m);
void add_to_fixed_sums(const Stream& stream, MatrixView<const double> term,
                       MatrixView<FixedSum> sums);
void add_to_rows(const Stream& stream, MatrixView<const double> h, double scale,
                 MatrixView<const double> added, MatrixView<double> m, VectorView<double> of_rows);
void send_rows(const Stream& stream, MatrixView<const double> m, VectorView<const float> weight,
               MatrixView<float> x);
void combine(const Stream& stream, double keep, MatrixView<double> a, double scale,
             MatrixView<const double> b);
void damp(const Stream& stream, const DampedMatrix& base, double scale,
          MatrixView<const double> added, MatrixView<double> m);
void add_symmetric(const Stream& stream, double scale, MatrixView<const double> w,
                   MatrixView<double> g);
void judge(const Stream& stream, VectorView<const double> least, double limit, double scale,
           MatrixView<const double> h, double* share);
/// Zeros before it and after it.
struct Largest {
  unsigned long long bits;
  unsigned blocks_done;
};
void look(const Stream& stream, MatrixView<const double> m, double limit, double* needed,
          Largest* largest);
void fold_gram(const Stream& stream, const double* needed, MatrixView<double> u,
               MatrixView<double> inverse, MatrixView<double> gram, double* workspace);
void set_identity(const Stream& stream, MatrixView<double> m);
void store(const Stream& stream, double value, double* to);

}  // namespace norn::cuda
