// SPDX-License-Identifier: Apache-2.0
// Factored output layers on a GPU. Nothing comes back to the host within a step: what a step finds
// out stays in the device's memory, and kernels that are not due look there and end at once.
#include "kernels/factored.h"

#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/float64_products.h"
#include "kernels/cuda/families.h"

#include <algorithm>

namespace norn::cuda {
namespace {

constexpr Index kWidened = Index(1) << 22;  // elements of V that are made float64 at a time

class CudaFactored final : public FactoredKernels {
 public:
  explicit CudaFactored(const Stream& stream)
      : stream_(stream),
        products_(stream),
        sort_(stream.memory),
        floats_(stream.memory),
        doubles_(stream.memory),
        largest_(Buffer<Largest>::zeros(1, stream.memory)) {}

 private:
  void do_list(CsrView targets, Range units, TargetLists& lists) override {
    list_entries(stream_, sort_, targets, units, lists);
  }
  void do_read_entries(const TargetLists& lists, FactorView<const float> v,
                       MatrixView<const double> h, const EntryRule& rule, Index,
                       VectorView<double> r, VectorView<double> cost,
                       MatrixView<FixedSum> rv) override {
    read_rows(stream_, lists, v, h, rule, r.data, cost.data, rv);
  }
  void do_sum_rows(const TargetLists& lists, FactorView<const float> v, VectorView<const double> r,
                   Index, MatrixView<FixedSum> rv) override {
    read_rows(stream_, lists, v, {}, {}, const_cast<double*>(r.data), nullptr, rv);
  }
  void do_add_up_costs(const TargetLists& lists, VectorView<const double> cost, Index block_width,
                       VectorView<const double> all_units, VectorView<double> of_blocks) override {
    add_up_block_costs(stream_, lists, cost.data, block_width, all_units, of_blocks);
  }
  void do_update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                      MatrixView<const double> k, FactorView<float> v) override {
    update_touched(stream_, lists, r.data, scale, k, v,
                   floats_.reserve(update_floats(lists, k.cols)));
  }
  void do_fold(MatrixView<const double> u, Index, const double* needed,
               FactorView<float> v) override {
    fold_rows(stream_, u, needed, v, floats_.reserve(fold_floats(stream_, u.cols)));
  }
  void do_product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                  MatrixView<float> w) override {
    multiply_rows(stream_, v, u, columns, w);
  }
  void do_values(MatrixView<const double> h, FactorView<const float> v,
                 MatrixView<float> z) override {
    multiply_by_rows(stream_, h, v, z);
  }

  // The rows of a block in runs from its first one on, so that ranks have the same.
  void do_add_gram(FactorView<const float> v, MatrixView<FixedSum> g) override {
    const Index width = v.width(), run = std::max<Index>(1, kWidened / width);
    double* workspace = doubles_.reserve(width * width + std::min(run, v.units()) * width);
    const MatrixView<double> term{workspace, width, width, width};
    for (Index first = 0; first < v.units(); first += run) {
      const Index units = std::min(run, v.units() - first);
      const MatrixView<double> rows{workspace + width * width, units, width, width};
      widen(stream_, v.units_of({first, first + units}), rows);
      products_.multiply(1.0, {rows, true}, {rows, false}, first == 0 ? 0.0 : 1.0, term);
    }
    if (v.units() > 0) add_to_fixed_sums(stream_, term, g);
  }

  void do_multiply(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                   As b_as, Existing existing, MatrixView<double> c, Operands) override {
    products_.multiply(scale, {a, a_as == As::transposed}, {b, b_as == As::transposed},
                       existing == Existing::add ? 1.0 : 0.0, c);
  }
  void do_factorize(MatrixView<double> a, MatrixView<double> b, VectorView<double> least) override {
    invert_factors(stream_, a, b, least, doubles_.reserve(factor_doubles(a.rows)));
  }
  void do_solve(MatrixView<const double> factor, MatrixView<const double> b, MatrixView<double> x,
                Operands) override {
    const MatrixView<double> half{doubles_.reserve(b.rows * b.cols), b.rows, b.cols, b.cols};
    products_.multiply(1.0, {factor, false}, {b, false}, 0.0, half);
    products_.multiply(1.0, {factor, true}, {half, false}, 0.0, x);
  }

  void do_set_source(const DenseOperand& x, MatrixView<double> h) override {
    set_source_rows(stream_, x, h);
  }
  void do_scale_rows(VectorView<const float> weight, MatrixView<double> m) override {
    cuda::scale_rows(stream_, weight, m);
  }
  void do_add_sums(MatrixView<const FixedSum> sums, Existing existing,
                   MatrixView<double> m) override {
    add_fixed_sums(stream_, sums, existing == Existing::add, m);
  }
  void do_add_to_rows(MatrixView<const double> h, double scale, MatrixView<const double> added,
                      MatrixView<double> m, VectorView<double> of_rows) override {
    cuda::add_to_rows(stream_, h, scale, added, m, of_rows);
  }
  void do_send(MatrixView<const double> m, VectorView<const float> weight,
               MatrixView<float> x) override {
    send_rows(stream_, m, weight, x);
  }
  void do_combine(double keep, MatrixView<double> a, double scale,
                  MatrixView<const double> b) override {
    cuda::combine(stream_, keep, a, scale, b);
  }
  void do_damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
               MatrixView<double> m) override {
    cuda::damp(stream_, base, scale, added, m);
  }
  void do_add_symmetric(double scale, MatrixView<const double> w, MatrixView<double> g) override {
    cuda::add_symmetric(stream_, scale, w, g);
  }
  void do_judge(VectorView<const double> least, double limit, double scale,
                MatrixView<const double> h, double* share) override {
    cuda::judge(stream_, least, limit, scale, h, share);
  }
  void do_look(MatrixView<const double> m, double limit, double* needed) override {
    cuda::look(stream_, m, limit, needed, largest_.data());
  }
  void do_fold_gram(const double* needed, MatrixView<double> u, MatrixView<double> inverse,
                    MatrixView<double> gram) override {
    cuda::fold_gram(stream_, needed, u, inverse, gram, doubles_.reserve(u.rows * u.cols));
  }
  void do_set_identity(MatrixView<double> m) override { cuda::set_identity(stream_, m); }
  void do_store(double value, double* to) override { cuda::store(stream_, value, to); }

  Stream stream_;
  Float64Products products_;
  Workspace<std::byte> sort_;
  Workspace<float> floats_;
  Workspace<double> doubles_;
  Buffer<Largest> largest_;
};

}  // namespace

std::unique_ptr<FactoredKernels> make_factored(const Stream& stream) {
  return std::make_unique<CudaFactored>(stream);
}

}  // namespace norn::cuda
