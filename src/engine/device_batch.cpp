// SPDX-License-Identifier: Apache-2.0
// Batches on their way to the device.
#include "src/engine/device_batch.h"

namespace norn {
namespace {

template <typename T>
const T* upload(const Compute& compute, const T* host, Index count, Buffer<T>& buffer) {
  if (count == 0) return nullptr;
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 4, compute.memory);
  compute.kernels.queue->upload(buffer.data(), host, std::size_t(count) * sizeof(T));
  return buffer.data();
}

}  // namespace

BatchView DeviceBatch::load(const Compute& compute, const HostBatch& batch) {
  BatchView view;
  view.examples = batch.examples;
  view.width = batch.width;
  view.is_sparse = batch.is_sparse;
  view.sparse = batch.is_sparse ? batch.csr() : CsrView{};
  if (!batch.is_sparse) view.dense = batch.matrix();
  view.weight = {batch.weight.data(), Index(batch.weight.size())};
  view.example = {batch.example.data(), Index(batch.example.size())};
  if (compute.memory.is_host()) return view;

  Copy& copy = copies_[turn_];
  turn_ = (turn_ + 1) % copies_.size();
  if (batch.is_sparse) {
    const CsrView host = view.sparse;
    const Index entries = Index(host.entries());
    CsrView& sparse = view.sparse;
    sparse.entry_limit = entries;
    sparse.row_begin = upload(compute, host.row_begin, host.rows + 1, copy.row_begin);
    sparse.column = upload(compute, host.column, entries, copy.column);
    sparse.value = host.value ? upload(compute, host.value, entries, copy.value) : nullptr;
  } else {
    view.dense.data =
        upload(compute, view.dense.data, view.dense.rows * view.dense.stride, copy.dense);
  }
  view.weight.data = upload(compute, view.weight.data, view.weight.size, copy.weight);
  view.example.data = upload(compute, view.example.data, view.example.size, copy.example);
  return view;
}

}  // namespace norn
