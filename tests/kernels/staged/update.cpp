// SPDX-License-Identifier: Apache-2.0
// The GPU's dense updates, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <deque>
#include <vector>

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedUpdate final : public UpdateKernels {
 private:
  /// Runs `work` on a copy of w on the GPU and takes back what it became.
  template <typename Work>
  static void change(MatrixView<float> w, const Work& work) {
    StagedMatrix staged(w);
    work(staged.view());
    TestDevice::get().finish();
    staged.back();
  }

  template <typename Work>
  static void add(MatrixView<const float> w, VectorView<double> sums, const Work& work) {
    StagedMatrix staged_w(w);
    StagedVector staged_sums(sums);
    work(staged_w.view(), staged_sums.view());
    TestDevice::get().finish();
    staged_sums.back();
  }

  void do_update(const UpdateRule& rule, const UpdateStep& step, MatrixView<float> w,
                 MatrixView<const float> g, SlotViews slot, MatrixView<Bfloat16> bf16) override {
    StagedMatrix staged_g(g);
    std::deque<StagedMatrix<float>> state;
    SlotViews views;
    for (std::size_t s = 0; s < slot.size(); ++s) views[s] = state.emplace_back(slot[s]).view();
    StagedMatrix upper(bf16);
    change(w, [&](auto to) {
      kernels_->update(rule, step, to, staged_g.view(), views, upper.view());
    });
    for (const StagedMatrix<float>& s : state) s.back();
    upper.back();
  }
  void do_update_vectors(const UpdateRule& rule, const UpdateStep& step,
                         std::span<const VectorUpdate> vectors) override {
    std::deque<StagedVector<float>> written;
    std::deque<StagedVector<const float>> read;
    std::vector<VectorUpdate> staged;
    const auto copy = [&](VectorView<float> v) { return written.emplace_back(v).view(); };
    for (const VectorUpdate& v : vectors) {
      VectorUpdate& on_device = staged.emplace_back();
      on_device.w = copy(v.w);
      on_device.g = read.emplace_back(v.g).view();
      for (std::size_t s = 0; s < v.slot.size(); ++s) on_device.slot[s] = copy(v.slot[s]);
    }
    kernels_->update_vectors(rule, step, staged);
    TestDevice::get().finish();
    for (const StagedVector<float>& v : written) v.back();
  }
  void do_initialise(const Initializer& initializer, Philox random, const WeightPlace& place,
                     MatrixView<float> w) override {
    change(w, [&](auto to) { kernels_->initialise(initializer, random, place, to); });
  }
  void do_clip_row_norms(float limit, MatrixView<float> w) override {
    change(w, [&](auto to) { kernels_->clip_row_norms(limit, to); });
  }
  void do_clip_column_norms(float limit, MatrixView<float> w) override {
    change(w, [&](auto to) { kernels_->clip_column_norms(limit, to); });
  }
  void do_add_row_squares(MatrixView<const float> w, VectorView<double> squares) override {
    add(w, squares, [&](auto from, auto to) { kernels_->add_row_squares(from, to); });
  }
  void do_add_column_squares(MatrixView<const float> w, VectorView<double> squares) override {
    add(w, squares, [&](auto from, auto to) { kernels_->add_column_squares(from, to); });
  }
  void do_scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w) override {
    StagedVector sums(squares);
    change(w, [&](auto to) { kernels_->scale_rows(limit, sums.view(), to); });
  }
  void do_scale_columns(float limit, VectorView<const double> squares,
                        MatrixView<float> w) override {
    StagedVector sums(squares);
    change(w, [&](auto to) { kernels_->scale_columns(limit, sums.view(), to); });
  }
  void do_norms(MatrixView<const float> w, double* squares, double* magnitudes) override {
    StagedMatrix staged_w(w);
    StagedVector first(squares, 1), second(magnitudes, 1);
    kernels_->norms(staged_w.view(), first.data(), second.data());
    TestDevice::get().finish();
    first.back();
    second.back();
  }

  std::unique_ptr<UpdateKernels> kernels_ = cuda::make_update(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<UpdateKernels> samples::make_update(Executor&) {
  return std::make_unique<StagedUpdate>();
}

}  // namespace norn
