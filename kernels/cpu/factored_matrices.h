// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "src/tensor/executor.h"

namespace norn {

/// What the CPU's factored layers do with matrices of the batch and of the source's width: row by
/// row, so that no bit depends on lanes.
class CpuFactoredMatrices : public FactoredKernels {
 public:
  explicit CpuFactoredMatrices(Executor& executor) : executor_(executor) {}

 protected:
  Executor& executor_;

 private:
  void do_multiply(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                   As b_as, Existing existing, MatrixView<double> c, Operands operands) override;
  Operands do_operands_of(double scale, MatrixView<const double> h,
                          MatrixView<const double> c) override;
  void do_factorize(MatrixView<double> a, MatrixView<double> b, VectorView<double> least) override;
  void do_solve(MatrixView<const double> factor, MatrixView<const double> b, MatrixView<double> x,
                Operands operands) override;
  void do_invert(MatrixView<const double> factor, MatrixView<double> x) override;
  void do_set_source(const DenseOperand& x, MatrixView<double> h) override;
  void do_scale_rows(VectorView<const float> weight, MatrixView<double> m) override;
  void do_add_sums(MatrixView<const FixedSum> sums, Existing existing,
                   MatrixView<double> m) override;
  void do_add_to_rows(MatrixView<const double> h, double scale, MatrixView<const double> added,
                      MatrixView<double> m, VectorView<double> of_rows) override;
  void do_send(MatrixView<const double> m, VectorView<const float> weight,
               MatrixView<float> x) override;
  void do_combine(double keep, MatrixView<double> a, double scale,
                  MatrixView<const double> b) override;
  void do_damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
               MatrixView<double> m) override;
  void do_add_symmetric(double scale, MatrixView<const double> w, MatrixView<double> g) override;
  void do_judge(VectorView<const double> least, double limit, double scale,
                MatrixView<const double> h, double* share) override;
  void do_look(MatrixView<const double> m, double limit, double* needed) override;
  void do_fold_gram(const double* needed, MatrixView<double> u, MatrixView<double> inverse,
                    MatrixView<double> gram) override;
  void do_set_identity(MatrixView<double> m) override;
  void do_store(double value, double* to) override;

  template <typename Body>
  void for_rows(Index rows, const Body& body);
};

}  // namespace norn
