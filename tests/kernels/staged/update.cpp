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

  /// The same for weights that may be in halves.
  template <typename Work>
  static void change_weights(const WeightView& w, const Work& work) {
    if (!w.is_split()) return change(w.floats, work);
    StagedMatrix high(w.high);
    StagedMatrix low(w.low);
    work(WeightView{high.view(), low.view()});
    TestDevice::get().finish();
    high.back();
    low.back();
  }

  template <typename Work>
  static void add(MatrixView<const float> w, VectorView<double> sums, const Work& work) {
    StagedMatrix staged_w(w);
    StagedVector staged_sums(sums);
    work(staged_w.view(), staged_sums.view());
    TestDevice::get().finish();
    staged_sums.back();
  }

  void do_update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                 MatrixView<const float> g, SlotViews slot) override {
    StagedMatrix staged_g(g);
    std::deque<StagedMatrix<float>> state;
    SlotViews views;
    for (std::size_t s = 0; s < slot.size(); ++s) views[s] = state.emplace_back(slot[s]).view();
    change_weights(w, [&](auto to) { kernels_->update(rule, step, to, staged_g.view(), views); });
    for (const StagedMatrix<float>& s : state) s.back();
  }
  void do_join(WeightView w, MatrixView<float> floats) override {
    StagedMatrix staged_floats(floats);
    change_weights(w, [&](auto from) { kernels_->join(from, staged_floats.view()); });
    staged_floats.back();
  }
  void do_split(MatrixView<const float> floats, WeightView w) override {
    StagedMatrix staged_floats(floats);
    change_weights(w, [&](auto to) { kernels_->split(staged_floats.view(), to); });
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
  void do_norms(WeightView w, double* squares, double* magnitudes) override {
    StagedVector first(squares, 1), second(magnitudes, 1);
    change_weights(w, [&](auto from) { kernels_->norms(from, first.data(), second.data()); });
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
