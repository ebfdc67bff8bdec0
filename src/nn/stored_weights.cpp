// SPDX-License-Identifier: Apache-2.0
// Floats of weights that a device may hold in halves.
#include "src/nn/stored_weights.h"

#include <algorithm>
#include <cstring>

namespace norn {
namespace {

constexpr Index kRunElements = Index(1) << 21;  // 8 MiB of floats

// Calls body(first, count) for runs of rows of so many columns.
template <typename Body>
void for_runs(Index rows, Index cols, const Body& body) {
  const Index run = std::max<Index>(1, kRunElements / std::max<Index>(1, cols));
  for (Index first = 0; first < rows; first += run) body(first, std::min(run, rows - first));
}

template <typename T>
std::size_t bytes(Index elements) {
  return std::size_t(elements) * sizeof(T);
}

template <typename T>
void read(const Memory& memory, MatrixView<const T> from, MatrixView<T> host) {
  if (!from.empty())
    memory.read_rows(from.data, bytes<T>(from.stride), host.data, bytes<T>(host.stride),
                     bytes<T>(from.cols), std::size_t(from.rows));
}
template <typename T>
void write(Memory& memory, MatrixView<const T> host, MatrixView<T> to) {
  if (!to.empty())
    memory.write_rows(to.data, bytes<T>(to.stride), host.data, bytes<T>(host.stride),
                      bytes<T>(to.cols), std::size_t(to.rows));
}

// Calls body(first, halves) for runs of rows of halves that are in main memory meanwhile.
template <typename Body>
void for_halves(const WeightView& weights, const Body& body) {
  for_runs(weights.rows(), weights.cols(), [&](Index first, Index count) {
    Matrix<Bfloat16> high(count, weights.cols());
    Matrix<std::int16_t> low(count, weights.cols());
    body(first, WeightView{high.view(), low.view()});
  });
}

}  // namespace

void edit_rows(const Compute& compute, const WeightView& weights,
               const std::function<void(Index first, MatrixView<float> rows)>& edit) {
  if (!weights.is_split()) return edit(0, weights.floats);
  UpdateKernels& kernels = *compute.kernels.update;
  for_runs(weights.rows(), weights.cols(), [&](Index first, Index count) {
    Matrix<float> rows(count, weights.cols(), compute.memory);
    const WeightView part = weights.row_range(first, count);
    kernels.join(part, rows.view());
    edit(first, rows.view());
    kernels.split(rows.view(), part);
  });
}

void clip_row_norms(const Compute& compute, float limit, const WeightView& weights) {
  edit_rows(compute, weights, [&](Index, MatrixView<float> rows) {
    compute.kernels.update->clip_row_norms(limit, rows);
  });
}

void read_weights(const Memory& memory, const WeightView& weights, MatrixView<float> host) {
  if (!weights.is_split()) return read<float>(memory, weights.floats, host);
  for_halves(weights, [&](Index first, const WeightView& halves) {
    const WeightView part = weights.row_range(first, halves.rows());
    read<Bfloat16>(memory, part.high, halves.high);
    read<std::int16_t>(memory, part.low, halves.low);
    for (Index r = 0; r < halves.rows(); ++r)
      for (Index c = 0; c < halves.cols(); ++c)
        host(first + r, c) = FloatHalves{halves.high(r, c), halves.low(r, c)}.joined();
  });
}

void write_weights(Memory& memory, MatrixView<const float> host, const WeightView& weights) {
  if (!weights.is_split()) return write<float>(memory, host, weights.floats);
  for_halves(weights, [&](Index first, const WeightView& halves) {
    for (Index r = 0; r < halves.rows(); ++r)
      for (Index c = 0; c < halves.cols(); ++c) {
        const FloatHalves of = FloatHalves::of(host(first + r, c));
        halves.high(r, c) = of.high;
        halves.low(r, c) = of.low;
      }
    const WeightView part = weights.row_range(first, halves.rows());
    write<Bfloat16>(memory, halves.high, part.high);
    write<std::int16_t>(memory, halves.low, part.low);
  });
}

}  // namespace norn
