// SPDX-License-Identifier: Apache-2.0
// Batches on their way to the device.
#include "src/step/device_batch.h"

#include "src/step/upload.h"

namespace norn {

void DeviceBatch::load(const Context& context, const HostBatch& batch) {
  view_ = BatchView();
  view_.examples = batch.examples;
  view_.first = batch.first;
  view_.width = batch.width;
  view_.is_sparse = batch.is_sparse;
  view_.weight = {batch.weight.data(), Index(batch.weight.size())};
  view_.example = {batch.example.data(), Index(batch.example.size())};
  stored_ = batch.stored;
  if (!stored_ && batch.is_sparse) view_.sparse = batch.csr();
  if (!stored_ && !batch.is_sparse) view_.dense = batch.matrix();
  row_ = {batch.row.data(), stored_ ? Index(batch.row.size()) : 0};
  entries_ = batch.entries;
  copy_ = &copies_[turn_];
  if (context.compute.memory.is_host()) return;

  Copy& copy = *copy_;
  turn_ = (turn_ + 1) % copies_.size();
  if (stored_)
    row_.data = upload(context, row_.data, row_.size, copy.row);
  else
    upload_contents(context, batch, copy);
  view_.weight.data = upload(context, view_.weight.data, view_.weight.size, copy.weight);
  view_.example.data = upload(context, view_.example.data, view_.example.size, copy.example);
}

void DeviceBatch::upload_contents(const Context& context, const HostBatch& batch, Copy& copy) {
  if (!batch.is_sparse) {
    MatrixView<const float>& dense = view_.dense;
    dense.data = upload(context, dense.data, dense.rows * dense.stride, copy.dense);
    return;
  }
  const CsrView host = view_.sparse;
  const Index entries = Index(host.entries());
  CsrView& sparse = view_.sparse;
  sparse.entry_limit = entries;
  sparse.row_begin = upload(context, host.row_begin, host.rows + 1, copy.row_begin);
  sparse.column = upload(context, host.column, entries, copy.column);
  sparse.value = host.value ? upload(context, host.value, entries, copy.value) : nullptr;
}

BatchView DeviceBatch::view(const Compute& compute) {
  if (!stored_) return view_;
  const Kernels& kernels = compute.kernels;
  BatchKernels& batch = kernels.prefetch_batch ? *kernels.prefetch_batch : *kernels.batch;
  if (view_.is_sparse) {
    batch.gather(stored_->sparse, row_, entries_, copy_->gathered);
    view_.sparse = copy_->gathered.view();
    return view_;
  }
  Matrix<float>& dense = copy_->gathered_dense;
  if (dense.rows() < view_.examples)
    dense = Matrix<float>(view_.examples, view_.width,
                          kernels.prefetch_memory ? *kernels.prefetch_memory : compute.memory);
  const MatrixView<float> x = dense.first_rows(view_.examples);
  batch.gather(stored_->dense, row_, x);
  view_.dense = x;
  return view_;
}

}  // namespace norn
