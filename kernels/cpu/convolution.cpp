// SPDX-License-Identifier: Apache-2.0
// Convolutions as products: the windows of a piece of the examples are written out as rows, which
// stay in a cache, and multiplied with the filters.
#include "kernels/convolution.h"

#include "kernels/cpu/dense_rows.h"
#include "kernels/cpu/families.h"
#include "src/tensor/block_partition.h"

#include <algorithm>
#include <vector>

namespace norn {
namespace {

/// Of the windows that are written out at a time, by one lane: 1 MiB. A function of the shapes
/// alone.
constexpr Index kPieceElements = Index(1) << 18;
constexpr Index kMostRows = 512;
constexpr Index kLeastRows = 32;
constexpr Index kTasksOfLane = 4;

Index rows_of_piece(Index depth) {
  return std::clamp<Index>(kPieceElements / std::max<Index>(depth, 1), kLeastRows, kMostRows);
}

MatrixView<float> matrix(std::vector<float>& memory, Index rows, Index cols) {
  memory.resize(std::size_t(std::max<Index>(rows * cols, 1)));
  return {memory.data(), rows, cols, cols};
}

/// How a window reads an example.
class Taps {
 public:
  explicit Taps(const Window& window)
      : window_(window),
        place_stride_(window.order == UnitOrder::channels_last ? window.channels : 1),
        channel_stride_(window.order == UnitOrder::channels_last ? 1 : window.places()) {}

  Index channels() const { return window_.channels; }
  Index place_stride() const { return place_stride_; }
  Index channel_stride() const { return channel_stride_; }

  /// use(number of the tap, first element) of each tap of window `number`; of those outside of the
  /// source the element is -1.
  template <typename Use>
  void for_each(Index number, const Use& use) const {
    const Index x = number % window_.out[0] * window_.stride[0] - window_.padding[0];
    const Index y =
        number / window_.out[0] % window_.out[1] * window_.stride[1] - window_.padding[1];
    const Index z =
        number / (window_.out[0] * window_.out[1]) * window_.stride[2] - window_.padding[2];
    Index tap = 0;
    for (Index kz = 0; kz < window_.kernel[2]; ++kz)
      for (Index ky = 0; ky < window_.kernel[1]; ++ky) {
        const bool is_row = within(z + kz, 2) && within(y + ky, 1);
        const Index row = ((z + kz) * window_.in[1] + y + ky) * window_.in[0];
        for (Index kx = 0; kx < window_.kernel[0]; ++kx, ++tap)
          use(tap, is_row && within(x + kx, 0) ? (row + x + kx) * place_stride_ : Index(-1));
      }
  }

 private:
  bool within(Index place, std::size_t axis) const {
    return place >= 0 && place < window_.in[axis];
  }
  const Window& window_;
  Index place_stride_;
  Index channel_stride_;
};

/// row [taps * C], the channel fastest.
void write_window(const Taps& taps, const float* example, Index window, float* row) {
  const Index channels = taps.channels(), stride = taps.channel_stride();
  taps.for_each(window, [&](Index tap, Index first) {
    float* to = row + tap * channels;
    if (first < 0)
      std::fill_n(to, channels, 0.0f);
    else if (stride == 1)
      std::copy_n(example + first, channels, to);
    else
      for (Index c = 0; c < channels; ++c) to[c] = example[first + c * stride];
  });
}

void add_window(const Taps& taps, const float* row, Index window, float* example) {
  const Index channels = taps.channels(), stride = taps.channel_stride();
  taps.for_each(window, [&](Index tap, Index first) {
    if (first < 0) return;
    const float* from = row + tap * channels;
    if (stride == 1)
      for (Index c = 0; c < channels; ++c) example[first + c] += from[c];
    else
      for (Index c = 0; c < channels; ++c) example[first + c * stride] += from[c];
  });
}

class CpuConvolution final : public ConvolutionKernels {
 public:
  explicit CpuConvolution(Executor& executor)
      : executor_(executor),
        products_(make_cpu_dense_rows(executor, *row_product_instructions().front())),
        dense_(make_cpu_dense(executor)) {}

 private:
  /// Filters of files as products want them: [K x taps*C], the channel fastest.
  MatrixView<float> turned(const Window& window, MatrixView<const float> filters,
                           std::vector<float>& memory) {
    const MatrixView<float> to = matrix(memory, filters.rows, filters.cols);
    turn_rows(window.taps(), filters, to, Existing::overwrite);
    return to;
  }

  /// to(r, j * inner + i) = from(r, i * outer + j), with outer * inner columns.
  void turn_rows(Index outer, MatrixView<const float> from, MatrixView<float> to,
                 Existing existing) {
    const Index inner = from.cols / outer;
    executor_.for_ranges(from.rows, 8, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) turn_row(from.row(r), outer, inner, to.row(r), existing);
    });
  }
  static void turn_row(const float* from, Index outer, Index inner, float* to, Existing existing) {
    for (Index j = 0; j < outer; ++j)
      for (Index i = 0; i < inner; ++i) {
        float& element = to[j * inner + i];
        element = from[i * outer + j] + (existing == Existing::add ? element : 0.0f);
      }
  }

  /// write(piece, first row) of windows [begin, end) of all examples.
  static void write_windows(const Window& window, const Taps& taps, MatrixView<const float> x,
                            Range windows, MatrixView<float> piece) {
    const Index places = window.out_places();
    for (Index w = windows.begin; w < windows.end; ++w)
      write_window(taps, x.row(w / places), w % places, piece.row(w - windows.begin));
  }

  void do_forward(const Window& window, const DenseOperand& x, MatrixView<const float> filters,
                  VectorView<const float> bias, MatrixView<float> z, Existing existing) override {
    std::vector<float> memory;
    const MatrixView<float> w = turned(window, filters, memory);
    const Taps taps(window);
    const Index windows = z.rows * window.out_places();
    const MatrixView<float> flat{z.data, windows, filters.rows, filters.rows};
    executor_.for_ranges(windows, rows_of_piece(w.cols), [&](Index begin, Index end, int) {
      std::vector<float> rows;
      const MatrixView<float> piece = matrix(rows, end - begin, w.cols);
      write_windows(window, taps, x.values, {begin, end}, piece);
      for (Index r = begin; r < end && !bias.empty(); ++r)
        std::copy_n(bias.data, bias.size, flat.row(r));
      products_->multiply_transposed(MatrixView<const float>(piece), MatrixView<const float>(w),
                                     flat.row_range(begin, end - begin),
                                     bias.empty() ? existing : Existing::add);
    });
  }

  void do_input_delta(const Window& window, const DenseOperand& operand,
                      MatrixView<const float> filters, MatrixView<float> dx,
                      Existing existing) override {
    const MatrixView<const float> delta = operand.values;
    std::vector<float> memory;
    const MatrixView<float> w = turned(window, filters, memory);
    const Taps taps(window);
    const Index places = window.out_places(), most = rows_of_piece(w.cols);
    const MatrixView<const float> flat{delta.data, delta.rows * places, filters.rows, filters.rows};
    // Windows of an example overlap, so that one lane takes all of it.
    const Index together =
        std::max<Index>(1, std::min(most / places, dx.rows / (kTasksOfLane * executor_.lanes())));
    executor_.for_ranges(dx.rows, together, [&](Index begin, Index end, int) {
      for (Index e = begin; e < end && existing == Existing::overwrite; ++e)
        std::fill_n(dx.row(e), dx.cols, 0.0f);
      std::vector<float> rows;
      for (Index first = begin * places; first < end * places; first += most) {
        const Index count = std::min(most, end * places - first);
        const MatrixView<float> piece = matrix(rows, count, w.cols);
        products_->multiply(flat.row_range(first, count), MatrixView<const float>(w), piece);
        for (Index r = 0; r < count; ++r)
          add_window(taps, piece.row(r), (first + r) % places, dx.row((first + r) / places));
      }
    });
  }

  void do_gradient(const Window& window, const DenseOperand& delta, const DenseOperand& operand,
                   float scale, MatrixView<float> term) override {
    const MatrixView<const float> x = operand.values;
    std::vector<float> memory, rows;
    const MatrixView<float> sum = matrix(memory, term.rows, term.cols);
    std::fill_n(sum.data, sum.size(), 0.0f);
    const Taps taps(window);
    const Index windows = x.rows * window.out_places(), most = rows_of_piece(sum.cols);
    const MatrixView<const float> flat{delta.values.data, windows, term.rows, term.rows};
    for (Index first = 0; first < windows; first += most) {
      const Index count = std::min(most, windows - first);
      const MatrixView<float> piece = matrix(rows, count, sum.cols);
      executor_.for_ranges(count, 32, [&](Index begin, Index end, int) {
        write_windows(window, taps, x, {first + begin, first + end},
                      piece.row_range(begin, end - begin));
      });
      dense_->gradient(flat.row_range(first, count), MatrixView<const float>(piece), scale, sum,
                       Existing::add);
    }
    turn_rows(window.channels, sum, term, Existing::overwrite);
  }

  void do_to_file_order(Index channels, const DenseOperand& from, MatrixView<float> to) override {
    turn_rows(channels, from.values, to, Existing::overwrite);
  }

  void do_to_channels_last(Index channels, MatrixView<const float> from, MatrixView<float> to,
                           Existing existing) override {
    turn_rows(from.cols / channels, from, to, existing);
  }

  Executor& executor_;
  std::unique_ptr<DenseProducts> products_;
  std::unique_ptr<DenseKernels> dense_;
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_cpu_convolution(Executor& executor) {
  return std::make_unique<CpuConvolution>(executor);
}

}  // namespace norn
