// SPDX-License-Identifier: Apache-2.0
// The GPU's preparation of batches and its masks, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedCsr;
using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

/// The first elements of a buffer of the GPU, on the host.
template <typename T>
Buffer<T> on_host(const Buffer<T>& device, Index count) {
  Buffer<T> host(count);
  device.read(host.data(), count);
  return host;
}

class StagedBatch final : public BatchKernels {
 private:
  void do_gather(CsrView stored, VectorView<const Index> row, Index entries,
                 CsrBuffer& gathered) override {
    StagedCsr staged_stored(stored);
    StagedVector staged_row(row);
    kernels_->gather(staged_stored.view(), staged_row.view(), entries, prepared_);
    bring_back(gathered);
  }
  void do_gather(MatrixView<const float> stored, VectorView<const Index> row,
                 MatrixView<float> x) override {
    StagedMatrix staged_stored(stored);
    StagedVector staged_row(row);
    StagedMatrix staged_x(x);
    kernels_->gather(staged_stored.view(), staged_row.view(), staged_x.view());
    TestDevice::get().finish();
    staged_x.back();
  }
  void do_find_runs(CsrView x, const ColumnRuns& runs, int* begin) override {
    StagedCsr staged_x(x);
    StagedVector staged_begin(begin, ColumnRuns::size(x.rows, runs.columns.count()));
    kernels_->find_runs(staged_x.view(), runs.columns, staged_begin.view());
    TestDevice::get().finish();
    staged_begin.back();
  }
  void do_prepare(CsrView x, VectorView<const float> weight, VectorView<const Index> example,
                  const InputPreparation& preparation, CsrBuffer& prepared) override {
    StagedCsr staged_x(x);
    StagedVector staged_weight(weight);
    StagedVector staged_example(example);
    StagedVector staged_feature_weight(preparation.feature_weight);
    InputPreparation staged = preparation;
    staged.feature_weight = staged_feature_weight.view();
    kernels_->prepare(staged_x.view(), staged_weight.view(), staged_example.view(), staged,
                      prepared_);
    bring_back(prepared);
  }
  void do_prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                        bool normalise_l2, MatrixView<float> x) override {
    StagedMatrix staged_data(data);
    StagedVector staged_weight(weight);
    StagedMatrix staged_x(x);
    kernels_->prepare_dense(staged_data.view(), staged_weight.view(), normalise_l2,
                            staged_x.view());
    TestDevice::get().finish();
    staged_x.back();
  }
  void do_mask(const DropoutMask& mask, MatrixView<const float> y, MatrixView<float> out) override {
    StagedMatrix staged_out(out);
    if (y.data == out.data) {  // in place
      kernels_->mask(mask, staged_out.view(), staged_out.view());
    } else {
      StagedMatrix staged_y(y);
      kernels_->mask(mask, staged_y.view(), staged_out.view());
      TestDevice::get().finish();
    }
    TestDevice::get().finish();
    staged_out.back();
  }

  void bring_back(CsrBuffer& batch) const {
    TestDevice::get().finish();
    batch.rows = prepared_.rows;
    batch.cols = prepared_.cols;
    batch.entry_limit = prepared_.entry_limit;
    batch.has_values = prepared_.has_values;
    batch.row_begin = on_host(prepared_.row_begin, batch.rows + 1);
    const Index entries = batch.row_begin.data()[batch.rows];
    batch.column = on_host(prepared_.column, entries);
    if (batch.has_values) batch.value = on_host(prepared_.value, entries);
  }

  std::unique_ptr<BatchKernels> kernels_ = cuda::make_batch(*TestDevice::get().stream);
  CsrBuffer prepared_;  // of the GPU; its capacity is kept
};

}  // namespace

std::unique_ptr<BatchKernels> samples::make_batch(Executor&) {
  return std::make_unique<StagedBatch>();
}

}  // namespace norn
