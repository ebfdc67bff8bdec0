// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels of factored layers, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <algorithm>
#include <map>

namespace norn {
namespace {

using staged::StagedCsr;
using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

/// Entries by which the host's limit is too large, as it is for batches in a GPU's memory.
constexpr Index kSlack = 70;

void finish() {
  TestDevice::get().finish();
}

template <typename T>
class StagedFactors {
 public:
  explicit StagedFactors(const FactorView<T>& host) : rows_(host.rows), last_(host.last) {}
  FactorView<std::remove_const_t<T>> view() { return {rows_.view(), last_.view()}; }
  void back() const {
    rows_.back();
    last_.back();
  }

 private:
  StagedMatrix<T> rows_;
  StagedVector<T> last_;
};

/// A number that the device finds.
class StagedNumber {
 public:
  explicit StagedNumber(double* host) : vector_(host, 1) {}
  explicit StagedNumber(const double* host) : vector_(const_cast<double*>(host), 1) {}
  double* data() { return vector_.data(); }
  void back() const {
    finish();
    vector_.back();
  }

 private:
  StagedVector<double> vector_;
};

class StagedFactored final : public FactoredKernels {
 private:
  /// Lists on the device, with the batch that they point into.
  struct Listed {
    explicit Listed(const CsrView& host) : batch(host) {}
    StagedCsr batch;
    TargetLists lists;
  };
  const TargetLists& on_device(const TargetLists& host) const {
    return listed_.at(host.begin.data())->lists;
  }

  void do_list(CsrView targets, Range units, TargetLists& lists) override {
    auto made = std::make_unique<Listed>(targets);
    CsrView batch = made->batch.view();
    batch.entry_limit += kSlack;
    TargetLists& device = made->lists;
    kernels_->list(batch, units, device);
    finish();
    std::vector<Index> begin(std::size_t(device.touched + 1));
    device.begin.read(begin.data(), device.touched + 1);
    lists.examples = targets.rows;
    lists.entries = begin.back();
    lists.touched = std::lower_bound(begin.begin(), begin.end(), begin.back()) - begin.begin();
    lists.unit = Buffer<Index>(lists.touched);
    device.unit.read(lists.unit.data(), lists.touched);
    lists.begin = Buffer<Index>(lists.touched + 1);
    std::copy_n(begin.begin(), lists.touched + 1, lists.begin.data());
    lists.example = Buffer<std::int32_t>(lists.entries);
    device.example.read(lists.example.data(), lists.entries);
    listed_[lists.begin.data()] = std::move(made);
  }

  /// As many elements as the device's lists may have entries.
  struct Entries {
    Entries(const TargetLists& device, VectorView<double> host)
        : buffer(Buffer<double>::zeros(device.entries, *TestDevice::get().memory)), view(host) {
      buffer.write(host.data, host.size);
    }
    void back() const { buffer.read(view.data, view.size); }
    Buffer<double> buffer;
    VectorView<double> view;
  };
  static VectorView<double> values_of(VectorView<const double> host) {
    return {const_cast<double*>(host.data), host.size};
  }

  void do_read_entries(const TargetLists& lists, FactorView<const float> v,
                       MatrixView<const double> h, const EntryRule& rule, Index block_width,
                       VectorView<double> r, VectorView<double> cost,
                       MatrixView<FixedSum> rv) override {
    const TargetLists& device = on_device(lists);
    StagedFactors<const float> factors(v);
    StagedMatrix source(h);
    StagedVector<const float> weight(rule.weight, h.rows);
    EntryRule there = rule;
    there.weight = weight.data();
    Entries of_r(device, r), of_cost(device, cost);
    StagedMatrix sums(rv);
    kernels_->read_entries(device, factors.view(), source.view(), there, block_width,
                           of_r.buffer.view(), of_cost.buffer.view(), sums.view());
    finish();
    of_r.back();
    of_cost.back();
    sums.back();
  }
  void do_sum_rows(const TargetLists& lists, FactorView<const float> v, VectorView<const double> r,
                   Index block_width, MatrixView<FixedSum> rv) override {
    const TargetLists& device = on_device(lists);
    StagedFactors<const float> factors(v);
    Entries of_r(device, values_of(r));
    StagedMatrix sums(rv);
    kernels_->sum_rows(device, factors.view(), of_r.buffer.view(), block_width, sums.view());
    finish();
    sums.back();
  }
  void do_add_up_costs(const TargetLists& lists, VectorView<const double> cost, Index block_width,
                       VectorView<const double> all_units, VectorView<double> of_blocks) override {
    const TargetLists& device = on_device(lists);
    Entries of_cost(device, values_of(cost));
    StagedVector all(all_units);
    StagedVector blocks(of_blocks);
    kernels_->add_up_costs(device, of_cost.buffer.view(), block_width, all.view(), blocks.view());
    finish();
    blocks.back();
  }
  void do_update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                      MatrixView<const double> k, FactorView<float> v) override {
    const TargetLists& device = on_device(lists);
    Entries of_r(device, values_of(r));
    StagedMatrix steps(k);
    StagedFactors<float> factors(v);
    kernels_->update_rows(device, of_r.buffer.view(), scale, steps.view(), factors.view());
    finish();
    factors.back();
  }
  void do_fold(MatrixView<const double> u, Index block_width, const double* needed,
               FactorView<float> v) override {
    StagedMatrix by(u);
    StagedNumber due(needed);
    StagedFactors<float> factors(v);
    kernels_->fold(by.view(), block_width, due.data(), factors.view());
    finish();
    factors.back();
  }
  void do_product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                  MatrixView<float> w) override {
    StagedFactors<const float> factors(v);
    StagedMatrix by(u);
    StagedMatrix result(w);
    kernels_->product(factors.view(), by.view(), columns, result.view());
    finish();
    result.back();
  }
  void do_add_gram(FactorView<const float> v, MatrixView<FixedSum> g) override {
    StagedFactors<const float> factors(v);
    StagedMatrix sums(g);
    kernels_->add_gram(factors.view(), sums.view());
    finish();
    sums.back();
  }
  void do_values(MatrixView<const double> h, FactorView<const float> v,
                 MatrixView<float> z) override {
    StagedMatrix source(h);
    StagedFactors<const float> factors(v);
    StagedMatrix result(z);
    kernels_->values(source.view(), factors.view(), result.view());
    finish();
    result.back();
  }

  void do_multiply(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                   As b_as, Existing existing, MatrixView<double> c, Operands operands) override {
    StagedMatrix left(a), right(b);
    StagedMatrix result(c);
    kernels_->multiply(scale, left.view(), a_as, right.view(), b_as, existing, result.view(),
                       operands);
    finish();
    result.back();
  }
  void do_factorize(MatrixView<double> a, MatrixView<double> b, VectorView<double> least) override {
    StagedMatrix first(a), second(b);
    StagedVector pivots(least);
    kernels_->factorize(first.view(), second.view(), pivots.view());
    finish();
    first.back();
    second.back();
    pivots.back();
  }
  void do_solve(MatrixView<const double> factor, MatrixView<const double> b, MatrixView<double> x,
                Operands operands) override {
    StagedMatrix by(factor), from(b);
    StagedMatrix result(x);
    kernels_->solve(by.view(), b.data == x.data ? result.view() : from.view(), result.view(),
                    operands);
    finish();
    result.back();
  }
  void do_set_source(const DenseOperand& x, MatrixView<double> h) override {
    StagedMatrix from(x.values);
    StagedMatrix to(h);
    kernels_->set_source(from.view(), to.view());
    finish();
    to.back();
  }
  void do_scale_rows(VectorView<const float> weight, MatrixView<double> m) override {
    StagedVector weights(weight);
    StagedMatrix rows(m);
    kernels_->scale_rows(weights.view(), rows.view());
    finish();
    rows.back();
  }
  void do_add_sums(MatrixView<const FixedSum> sums, Existing existing,
                   MatrixView<double> m) override {
    StagedMatrix from(sums);
    StagedMatrix to(m);
    kernels_->add_sums(from.view(), existing, to.view());
    finish();
    to.back();
  }
  void do_add_to_rows(MatrixView<const double> h, double scale, MatrixView<const double> added,
                      MatrixView<double> m, VectorView<double> of_rows) override {
    StagedMatrix left(h), right(added);
    StagedMatrix to(m);
    StagedVector sums(of_rows);
    kernels_->add_to_rows(left.view(), scale, right.view(), to.view(), sums.view());
    finish();
    to.back();
    sums.back();
  }
  void do_send(MatrixView<const double> m, VectorView<const float> weight,
               MatrixView<float> x) override {
    StagedMatrix from(m);
    StagedVector weights(weight);
    StagedMatrix to(x);
    kernels_->send(from.view(), weights.view(), to.view());
    finish();
    to.back();
  }
  void do_combine(double keep, MatrixView<double> a, double scale,
                  MatrixView<const double> b) override {
    StagedMatrix to(a);
    StagedMatrix from(b);
    kernels_->combine(keep, to.view(), scale, from.view());
    finish();
    to.back();
  }
  void do_damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
               MatrixView<double> m) override {
    StagedMatrix matrix(base.matrix), terms(added);
    StagedMatrix to(m);
    kernels_->damp({matrix.view(), base.damping}, scale, terms.view(), to.view());
    finish();
    to.back();
  }
  void do_add_symmetric(double scale, MatrixView<const double> w, MatrixView<double> g) override {
    StagedMatrix from(w);
    StagedMatrix to(g);
    kernels_->add_symmetric(scale, from.view(), to.view());
    finish();
    to.back();
  }
  void do_judge(VectorView<const double> least, double limit, double scale,
                MatrixView<const double> h, double* share) override {
    StagedVector pivots(least);
    StagedMatrix source(h);
    StagedNumber found(share);
    kernels_->judge(pivots.view(), limit, scale, source.view(), found.data());
    found.back();
  }
  void do_look(MatrixView<const double> m, double limit, double* needed) override {
    StagedMatrix from(m);
    StagedNumber found(needed);
    kernels_->look(from.view(), limit, found.data());
    found.back();
  }
  void do_fold_gram(const double* needed, MatrixView<double> u, MatrixView<double> inverse,
                    MatrixView<double> gram) override {
    StagedNumber due(needed);
    StagedMatrix by(u), back(inverse), sums(gram);
    kernels_->fold_gram(due.data(), by.view(), back.view(), sums.view());
    finish();
    by.back();
    back.back();
    sums.back();
  }
  void do_set_identity(MatrixView<double> m) override {
    StagedMatrix to(m);
    kernels_->set_identity(to.view());
    finish();
    to.back();
  }
  void do_store(double value, double* to) override {
    StagedNumber found(to);
    kernels_->store(value, found.data());
    found.back();
  }

  std::unique_ptr<FactoredKernels> kernels_ = cuda::make_factored(*TestDevice::get().stream);
  std::map<const Index*, std::unique_ptr<Listed>> listed_;
};

}  // namespace

std::unique_ptr<FactoredKernels> samples::make_factored(Executor&) {
  return std::make_unique<StagedFactored>();
}

}  // namespace norn
