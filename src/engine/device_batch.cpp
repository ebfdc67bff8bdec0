// SPDX-License-Identifier: Apache-2.0
// Batches on their way to the device.
#include "src/engine/device_batch.h"

namespace norn {
namespace {

template <typename T>
const T* upload(const Compute& compute, const T* host, Index count, Buffer<T>& buffer) {
  if (count == 0) return nullptr;
  if (buffer.size() < count) {
    // What the memory hands out may still be read by work that is under way.
    compute.kernels.queue->wait_for_all();
    buffer = Buffer<T>(count + count / 4, compute.memory);
  }
  compute.kernels.queue->upload(buffer.data(), host, std::size_t(count) * sizeof(T));
  return buffer.data();
}

}  // namespace

void DeviceBatch::load(const Compute& compute, const HostBatch& batch) {
  view_ = BatchView();
  view_.examples = batch.examples;
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
  if (compute.memory.is_host()) return;

  Copy& copy = *copy_;
  turn_ = (turn_ + 1) % copies_.size();
  if (stored_)
    row_.data = upload(compute, row_.data, row_.size, copy.row);
  else
    upload_contents(compute, batch, copy);
  view_.weight.data = upload(compute, view_.weight.data, view_.weight.size, copy.weight);
  view_.example.data = upload(compute, view_.example.data, view_.example.size, copy.example);
}

void DeviceBatch::upload_contents(const Compute& compute, const HostBatch& batch, Copy& copy) {
  if (!batch.is_sparse) {
    MatrixView<const float>& dense = view_.dense;
    dense.data = upload(compute, dense.data, dense.rows * dense.stride, copy.dense);
    return;
  }
  const CsrView host = view_.sparse;
  const Index entries = Index(host.entries());
  CsrView& sparse = view_.sparse;
  sparse.entry_limit = entries;
  sparse.row_begin = upload(compute, host.row_begin, host.rows + 1, copy.row_begin);
  sparse.column = upload(compute, host.column, entries, copy.column);
  sparse.value = host.value ? upload(compute, host.value, entries, copy.value) : nullptr;
}

BatchView DeviceBatch::view(const Compute& compute) {
  if (!stored_) return view_;
  const Kernels& kernels = compute.kernels;
  BatchKernels& batch = kernels.batch_ahead ? *kernels.batch_ahead : *kernels.batch;
  if (view_.is_sparse) {
    batch.gather(stored_->sparse, row_, entries_, copy_->gathered);
    view_.sparse = copy_->gathered.view();
    return view_;
  }
  Matrix<float>& dense = copy_->gathered_dense;
  if (dense.rows() < view_.examples)
    dense = Matrix<float>(view_.examples, view_.width,
                          kernels.memory_ahead ? *kernels.memory_ahead : compute.memory);
  const MatrixView<float> x = dense.first_rows(view_.examples);
  batch.gather(stored_->dense, row_, x);
  view_.dense = x;
  return view_;
}

}  // namespace norn
