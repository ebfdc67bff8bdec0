// SPDX-License-Identifier: Apache-2.0
// The GPU's sparse products and row-wise updates, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <algorithm>
#include <deque>
#include <functional>

#include <gtest/gtest.h>

namespace norn {
namespace {

using staged::StagedCsr;
using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

/// Entries by which the host's limit is too large, as it is for batches in a GPU's memory.
constexpr Index kSlack = 70;

/// A transposed batch on the GPU, its limits larger than what occurs.
TransposedBatch on_device(const TransposedBatch& host) {
  Memory& memory = *TestDevice::get().memory;
  const Index entries = host.begin.data()[host.touched];
  TransposedBatch device;
  device.cols = host.cols;
  device.has_values = host.has_values;
  device.touched = std::min(host.cols, host.touched + kSlack);
  std::vector<Column> unit(host.unit.data(), host.unit.data() + host.touched);
  std::vector<RowOffset> begin(host.begin.data(), host.begin.data() + host.touched);
  unit.resize(std::size_t(device.touched), TransposedBatch::no_unit);
  begin.resize(std::size_t(device.touched + 1), entries);
  device.unit = Buffer<Column>(device.touched, memory);
  device.unit.write(unit.data(), device.touched);
  device.begin = Buffer<RowOffset>(device.touched + 1, memory);
  device.begin.write(begin.data(), device.touched + 1);
  device.example = Buffer<std::int32_t>(entries + kSlack, memory);
  device.example.write(host.example.data(), entries);
  if (host.has_values) {
    device.value = Buffer<float>(entries + kSlack, memory);
    device.value.write(host.value.data(), entries);
  }
  return device;
}

/// Copies a transposed batch back and leaves what lies beyond the units that occur.
void to_host(const TransposedBatch& device, TransposedBatch& host) {
  host.cols = device.cols;
  host.has_values = device.has_values;
  std::vector<Column> unit(std::size_t(device.touched));
  std::vector<RowOffset> begin(std::size_t(device.touched + 1));
  device.unit.read(unit.data(), device.touched);
  device.begin.read(begin.data(), device.touched + 1);
  const RowOffset entries = begin.back();
  host.touched = std::lower_bound(begin.begin(), begin.end(), entries) - begin.begin();
  for (Index t = host.touched; t < device.touched; ++t)
    ASSERT_EQ(unit[std::size_t(t)], TransposedBatch::no_unit);
  host.unit = Buffer<Column>(host.touched);
  std::copy_n(unit.begin(), host.touched, host.unit.data());
  host.begin = Buffer<RowOffset>(host.touched + 1);
  std::copy_n(begin.begin(), host.touched + 1, host.begin.data());
  host.example = Buffer<std::int32_t>(entries);
  device.example.read(host.example.data(), entries);
  host.value = Buffer<float>(host.has_values ? entries : 0);
  if (host.has_values) device.value.read(host.value.data(), entries);
}

class StagedOperand {
 public:
  explicit StagedOperand(const DenseOperand& host) : values_(host.values), bf16_(host.bf16) {}
  DenseOperand view() { return {values_.view(), bf16_.view()}; }

 private:
  StagedMatrix<const float> values_;
  StagedMatrix<const Bfloat16> bf16_;
};

class StagedRows {
 public:
  explicit StagedRows(const RowState& host) : w_(host.w), steps_done_(host.steps_done) {
    for (const MatrixView<float>& slot : host.slot) slots_.emplace_back(slot);
  }
  RowState view() {
    RowState rows{w_.view(), {}, steps_done_.view()};
    for (std::size_t s = 0; s < slots_.size(); ++s) rows.slot[s] = slots_[s].view();
    return rows;
  }
  void back() {
    w_.back();
    for (const StagedMatrix<float>& slot : slots_) slot.back();
    steps_done_.back();
  }

 private:
  StagedMatrix<float> w_;
  std::deque<StagedMatrix<float>> slots_;
  StagedVector<std::int64_t> steps_done_;
};

/// Runs kernels as they are, and every second time as a graph.
class GraphEverySecondTime {
 public:
  void run(const std::function<void()>& enqueue) {
    const TestDevice& device = TestDevice::get();
    if (++calls_ % 2 == 1) {
      enqueue();
    } else {
      cuda::check(cudaStreamBeginCapture(device.handle, cudaStreamCaptureModeThreadLocal), "begin");
      enqueue();
      cudaGraph_t graph = nullptr;
      cuda::check(cudaStreamEndCapture(device.handle, &graph), "cudaStreamEndCapture");
      cudaGraphExec_t runnable = nullptr;
      cuda::check(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
      cuda::check(cudaGraphLaunch(runnable, device.handle), "cudaGraphLaunch");
      device.finish();
      cuda::check(cudaGraphExecDestroy(runnable), "cudaGraphExecDestroy");
      cuda::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    }
    device.finish();
  }

 private:
  int calls_ = 0;
};

class StagedSparse final : public SparseKernels {
 private:
  /// A batch on the GPU. What was transposed last is there already, with the list of its segments:
  /// that is used every second time.
  const TransposedBatch& staged(const TransposedBatch& host) {
    if (last_ != nullptr && host.example.data() == last_ && ++uses_ % 2 == 0) return device_;
    copy_ = on_device(host);
    return copy_;
  }
  void do_multiply(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
                   MatrixView<float> z) override {
    StagedCsr a(x);
    StagedMatrix b(w);
    StagedVector d(bias);
    StagedMatrix c(z);
    queue_.run([&] {
      if (bias.size > 0)
        kernels_->affine(a.view(), b.view(), d.view(), c.view());
      else
        kernels_->multiply(a.view(), b.view(), c.view());
    });
    c.back();
  }
  void do_multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                           MatrixView<float> z) override {
    StagedMatrix a(x);
    StagedCsr b(f);
    StagedMatrix c(z);
    queue_.run([&] { kernels_->multiply_by_rows(a.view(), b.view(), existing, c.view()); });
    c.back();
  }
  void do_transpose(CsrView x, TransposedBatch& transposed) override {
    StagedCsr a(x);
    CsrView view = a.view();
    view.entry_limit += kSlack;
    queue_.run([&] { kernels_->transpose(view, device_); });
    to_host(device_, transposed);
    last_ = transposed.example.data();
  }
  void do_gradient(const TransposedBatch& xt, DenseOperand delta, float scale,
                   MatrixView<float> g) override {
    const TransposedBatch& a = staged(xt);
    StagedOperand b(delta);
    StagedMatrix c(g);
    queue_.run([&] { kernels_->gradient(a, b.view(), scale, c.view()); });
    c.back();
  }
  void do_update_rows(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                      const TransposedBatch& xt, DenseOperand delta, float scale,
                      const RowState& rows) override {
    const TransposedBatch& a = staged(xt);
    StagedOperand b(delta);
    StagedRows c(rows);
    queue_.run([&] { kernels_->update_rows(rule, schedule, step, a, b.view(), scale, c.view()); });
    c.back();
  }
  void do_mark_done(const TransposedBatch& xt, std::int64_t step,
                    VectorView<std::int64_t> steps_done) override {
    const TransposedBatch& a = staged(xt);
    StagedVector b(steps_done);
    queue_.run([&] { kernels_->mark_done(a, step, b.view()); });
    b.back();
  }
  void do_catch_up(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                   const RowState& rows) override {
    StagedRows a(rows);
    queue_.run([&] { kernels_->catch_up(rule, schedule, step, a.view()); });
    a.back();
  }
  void do_catch_up_batch(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, const RowState& rows) override {
    const TransposedBatch& a = staged(xt);
    StagedRows b(rows);
    queue_.run([&] { kernels_->catch_up(rule, schedule, step, a, b.view()); });
    b.back();
  }

  std::unique_ptr<SparseKernels> kernels_ = cuda::make_sparse(*TestDevice::get().stream);
  GraphEverySecondTime queue_;
  TransposedBatch device_;  // its capacity is kept
  TransposedBatch copy_;
  const std::int32_t* last_ = nullptr;  // the host's copy of device_
  int uses_ = 0;
};

}  // namespace

std::unique_ptr<SparseKernels> samples::make_sparse(Executor&) {
  return std::make_unique<StagedSparse>();
}

}  // namespace norn
