// SPDX-License-Identifier: Apache-2.0
// Dense products by BLAS, cut into canonical tiles that the lanes share.

#include "kernels/common/shape_text.h"
#include "kernels/cpu/blas_thread.h"
#include "kernels/cpu/dense_rows.h"
#include "kernels/cpu/families.h"
#include "src/tensor/block_partition.h"

#include <algorithm>

namespace norn {
namespace {

/// Tiles of the result. They are cut the same way for one lane and for many, since how BLAS rounds
/// depends on the shape that it is given. Smaller tiles pack their operands more often: these cost
/// 2-9 % of the speed of the product in one piece.
constexpr Index kTileRows = 256;
constexpr Index kTileCols = 512;

/// One side of a result cut into runs of at most `tile`, none of which crosses from one block to
/// the next. Some may be empty.
class Cuts {
 public:
  Cuts(Index size, Index block, Index tile)
      : size_(size),
        block_(block > 0 ? block : std::max<Index>(size, 1)),
        tile_(tile),
        per_block_((block_ + tile - 1) / tile) {}
  Index count() const { return (size_ + block_ - 1) / block_ * per_block_; }
  Range at(Index i) const {
    const Index block_end = std::min((i / per_block_ + 1) * block_, size_);
    const Index begin = i / per_block_ * block_ + i % per_block_ * tile_;
    return {std::min(begin, block_end), std::min(begin + tile_, block_end)};
  }

 private:
  Index size_;
  Index block_;
  Index tile_;
  Index per_block_;
};

class CpuDense final : public DenseKernels {
 public:
  explicit CpuDense(Executor& executor)
      : executor_(executor),
        rows_(make_cpu_dense_rows(executor, *row_product_instructions().front())) {}
  DenseProducts& by_row() override { return *rows_; }

 private:
  /// Calls product(tile, first row, first column) for every tile of the result, whose rows or
  /// columns are in blocks.
  template <typename Product>
  void for_each_tile(MatrixView<float> result, Index block_rows, Index block_cols,
                     const Product& product) {
    const OneBlasThread alone;
    const Cuts down(result.rows, block_rows, kTileRows), across(result.cols, block_cols, kTileCols);
    executor_.for_each(down.count() * across.count(), [&](Index tile, int) {
      const Range rows = down.at(tile / across.count()), cols = across.at(tile % across.count());
      if (rows.count() > 0 && cols.count() > 0)
        product(result.row_range(rows.begin, rows.count()).columns(cols.begin, cols.count()),
                rows.begin, cols.begin);
    });
  }

  void do_multiply_transposed(DenseOperand xs, DenseOperand ws, MatrixView<float> z,
                              Existing existing, Index block) override {
    const MatrixView<const float> x = xs.values, w = ws.values;
    const float keep = existing == Existing::add ? 1.0f : 0.0f;
    const blasint n = blas_size(x.cols), stride_x = stride_of(x), stride_w = stride_of(w);
    for_each_tile(z, 0, block, [&](MatrixView<float> tile, Index r, Index c) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blasint(tile.rows), blasint(tile.cols),
                  n, 1.0f, x.row(r), stride_x, w.row(c), stride_w, keep, tile.data,
                  stride_of(tile));
    });
  }

  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
                 Index block) override {
    executor_.for_ranges(z.rows, 16, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) std::copy(bias.begin(), bias.end(), z.row(r));
    });
    do_multiply_transposed(x, w, z, Existing::add, block);
  }

  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    do_multiply_each(delta, w, 0, {&dx, 1});
  }

  void do_multiply_each(DenseOperand deltas, DenseOperand ws, Index block,
                        std::span<const MatrixView<float>> dx) override {
    const MatrixView<const float> delta = deltas.values, w = ws.values;
    const Index each = block > 0 ? block : delta.cols;
    const blasint stride_d = stride_of(delta), stride_w = stride_of(w);
    Index first = 0;
    for (const MatrixView<float>& part : dx) {
      const blasint m = blas_size(std::min(each, delta.cols - first));
      for_each_tile(part, 0, 0, [&](MatrixView<float> tile, Index r, Index c) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blasint(tile.rows),
                    blasint(tile.cols), m, 1.0f, delta.row(r) + first, stride_d, w.row(first) + c,
                    stride_w, 0.0f, tile.data, stride_of(tile));
      });
      first += each;
    }
  }

  void do_gradient(DenseOperand deltas, DenseOperand xs, float scale, MatrixView<float> g,
                   Existing existing, Index block) override {
    const float keep = existing == Existing::add ? 1.0f : 0.0f;
    const MatrixView<const float> delta = deltas.values, x = xs.values;
    const blasint b = blas_size(delta.rows), stride_d = stride_of(delta), stride_x = stride_of(x);
    for_each_tile(g, block, 0, [&](MatrixView<float> tile, Index r, Index c) {
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, blasint(tile.rows), blasint(tile.cols),
                  b, scale, delta.data + r, stride_d, x.data + c, stride_x, keep, tile.data,
                  stride_of(tile));
    });
  }

  void do_transpose(MatrixView<const float> x, MatrixView<float> transposed) override {
    executor_.for_ranges(transposed.rows, 16, [&](Index begin, Index end, int) {
      for (Index c = begin; c < end; ++c) {
        float* row = transposed.row(c);
        for (Index r = 0; r < x.rows; ++r) row[r] = x(r, c);
        std::fill(row + x.rows, row + transposed.cols, 0.0f);
      }
    });
  }

  Executor& executor_;
  std::unique_ptr<DenseProducts> rows_;
};

}  // namespace

std::unique_ptr<DenseKernels> make_cpu_dense(Executor& executor) {
  return std::make_unique<CpuDense>(executor);
}

std::string describe_cpu_kernels() {
  // The configuration reads "OpenBLAS 0.3.21 DYNAMIC_ARCH ...".
  const std::string config = openblas_get_config();
  const std::size_t name_end = config.find(' ');
  const std::size_t version_end =
      name_end == std::string::npos ? name_end : config.find(' ', name_end + 1);
  return config.substr(0, version_end) + " " + openblas_get_corename();
}

}  // namespace norn
