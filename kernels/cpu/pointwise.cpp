// SPDX-License-Identifier: Apache-2.0
// Pointwise work on the CPU.
#include "kernels/pointwise.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/mask_row.h"
#include "kernels/cpu/strips.h"
#include "src/base/checksum.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace norn {
namespace {

class CpuPointwiseKernels final : public PointwiseKernels {
 public:
  explicit CpuPointwiseKernels(Executor& executor) : executor_(executor) {}

 private:
  /// Calls body(row) for every row of a matrix with `cols` columns.
  template <typename Body>
  void for_rows(Index rows, Index cols, const Body& body) {
    executor_.for_ranges(rows, strips::rows_per_task(cols),
                         [&](Index begin, Index end, int /*lane*/) {
                           for (Index r = begin; r < end; ++r) body(r);
                         });
  }

  void do_set_rows(VectorView<const float> row, MatrixView<float> z) override {
    for_rows(z.rows, z.cols, [&](Index r) { std::copy(row.begin(), row.end(), z.row(r)); });
  }

  void do_add(MatrixView<const float> x, MatrixView<float> z) override {
    for_rows(z.rows, z.cols, [&](Index r) {
      const float* from = x.row(r);
      float* to = z.row(r);
      for (Index c = 0; c < z.cols; ++c) to[c] += from[c];
    });
  }

  void do_copy(MatrixView<const float> x, MatrixView<float> z) override {
    for_rows(z.rows, z.cols, [&](Index r) { std::copy_n(x.row(r), z.cols, z.row(r)); });
  }

  void do_scale(float factor, MatrixView<float> z) override {
    for_rows(z.rows, z.cols, [&](Index r) {
      float* row = z.row(r);
      for (Index c = 0; c < z.cols; ++c) row[c] *= factor;
    });
  }

  void do_cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16) override {
    for_rows(x.rows, x.cols, [&](Index r) {
      for (Index c = 0; c < x.cols; ++c) bf16(r, c) = Bfloat16::rounded(x(r, c));
    });
  }

  void do_activate(const Activation& f, MatrixView<float> z_to_y) override {
    std::visit(
        [&](const auto& function) {
          for_rows(z_to_y.rows, z_to_y.cols, [&](Index r) {
            const auto activation = function;  // a copy that stores to the row cannot alias
            float* row = z_to_y.row(r);
            const Index cols = z_to_y.cols;
            for (Index c = 0; c < cols; ++c) row[c] = activation.value(row[c]);
          });
        },
        f);
  }

  void do_activate_layer(const Activation& f, const DropoutMask& dropout, MatrixView<float> z_to_y,
                         const ActivationCopies& copies) override {
    std::visit(
        [&](const auto& function) {
          for_rows(z_to_y.rows, z_to_y.cols, [&](Index r) {
            const auto activation = function;
            float* row = z_to_y.row(r);
            const Index cols = z_to_y.cols;
            if (copies.z.data != nullptr) std::copy_n(row, cols, copies.z.row(r));
            for (Index c = 0; c < cols; ++c) row[c] = activation.value(row[c]);
            if (copies.before_dropout.data != nullptr)
              std::copy_n(row, cols, copies.before_dropout.row(r));
            if (dropout.drops()) mask_row(dropout, r, cols, row, row);
            if (copies.bf16.data == nullptr) return;
            for (Index c = 0; c < cols; ++c) copies.bf16(r, c) = Bfloat16::rounded(row[c]);
          });
        },
        f);
    const MatrixView<float> transposed = copies.transposed;
    if (transposed.data == nullptr) return;
    for_rows(transposed.rows, transposed.cols, [&](Index c) {
      float* row = transposed.row(c);
      for (Index r = 0; r < transposed.cols; ++r) row[r] = r < z_to_y.rows ? z_to_y(r, c) : 0.0f;
    });
  }

  void do_multiply_slope(const Activation& f, MatrixView<const float> x, MatrixView<float> delta,
                         MatrixView<Bfloat16> bf16) override {
    std::visit(
        [&](const auto& function) {
          for_rows(delta.rows, delta.cols, [&](Index r) {
            const auto activation = function;
            const float* from = x.row(r);
            float* row = delta.row(r);
            const Index cols = delta.cols;
            for (Index c = 0; c < cols; ++c) row[c] *= activation.slope(from[c]);
          });
        },
        f);
    if (bf16.data != nullptr) do_cast_to_bf16(delta, bf16);
  }

  void do_sum_columns(std::span<const ColumnSum> sums) override {
    for (const ColumnSum& one : sums) sum_columns_of(one.delta, one.scale, one.sum);
  }

  void sum_columns_of(MatrixView<const float> delta, float scale, VectorView<float> sum) {
    executor_.for_ranges(delta.cols, strips::columns_per_task(delta.rows),
                         [&](Index begin, Index end, int /*lane*/) {
                           std::array<double, strips::kWidth> total{};
                           const Index count = end - begin;
                           for (Index r = 0; r < delta.rows; ++r) {
                             const float* row = delta.row(r) + begin;
                             for (Index c = 0; c < count; ++c)
                               total[std::size_t(c)] += double(row[c]);
                           }
                           for (Index c = 0; c < count; ++c)
                             sum[begin + c] = float(double(scale) * total[std::size_t(c)]);
                         });
  }

  void do_sum_bf16_columns(MatrixView<const Bfloat16> delta, float scale,
                           VectorView<float> sum) override {
    executor_.for_ranges(delta.cols, strips::columns_per_task(delta.rows),
                         [&](Index begin, Index end, int) {
                           for (Index c = begin; c < end; ++c) {
                             double total = 0.0;
                             for (Index r = 0; r < delta.rows; ++r)
                               total += double(delta(r, c).value());
                             sum[c] = float(double(scale) * total);
                           }
                         });
  }

  void do_softmax_rows(MatrixView<float> z_to_y) override {
    for_rows(z_to_y.rows, z_to_y.cols, [&](Index r) {
      float* row = z_to_y.row(r);
      const Index cols = z_to_y.cols;
      float top = cols > 0 ? row[0] : 0.0f;
      for (Index c = 1; c < cols; ++c) top = row[c] > top ? row[c] : top;
      for (Index c = 0; c < cols; ++c) row[c] = math::exp_nonpositive(row[c] - top);
      double total = 0;
      for (Index c = 0; c < cols; ++c) total += double(row[c]);
      const float inverse = float(1.0 / total);
      for (Index c = 0; c < cols; ++c) row[c] *= inverse;
    });
  }

  void do_softmax_rows_backward(MatrixView<const float> y, MatrixView<float> dy_to_delta) override {
    for_rows(y.rows, y.cols, [&](Index r) {
      const float* output = y.row(r);
      float* row = dy_to_delta.row(r);
      double coupling = 0;
      for (Index c = 0; c < y.cols; ++c) coupling += double(row[c]) * double(output[c]);
      const float shared = float(coupling);
      for (Index c = 0; c < y.cols; ++c) row[c] = output[c] * (row[c] - shared);
    });
  }

  void do_checksum(VectorView<const std::byte> bytes, std::uint64_t* sum) override {
    constexpr Index kChunk = 1 << 20;  // of whole words
    const Index chunks = (bytes.size + kChunk - 1) / kChunk;
    std::atomic<std::uint64_t> total{0};
    executor_.for_each(chunks, [&](Index chunk, int) {
      const Index from = chunk * kChunk;
      total += norn::checksum(bytes.data + from, std::size_t(std::min(kChunk, bytes.size - from)),
                              std::uint64_t(from) / sizeof(std::uint32_t));
    });
    *sum += total;
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<PointwiseKernels> make_cpu_pointwise(Executor& executor) {
  return std::make_unique<CpuPointwiseKernels>(executor);
}

}  // namespace norn
