// SPDX-License-Identifier: Apache-2.0
// Convolutions as products: the windows of a piece of the examples are written out as rows and
// multiplied with the filters by cuBLASLt. Products of examples are those whose rows stand alone; a
// unit takes what its windows give in the order of windows; a gradient is the sum over pieces of
// its examples, in their order. Pieces follow from the shapes alone.
#include "kernels/convolution.h"
#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/windows.cuh"

#include <algorithm>

namespace norn::cuda {
namespace {

/// Of the windows that are written out at a time: 24 MB as floats, which the second-level cache
/// holds.
constexpr Index kPieceElements = Index(6) << 20;
constexpr Index kLeastRows = 32;
constexpr Index kRun = 8;  // elements: rows of a piece are whole runs of 16 bytes as bfloat16

/// The columns of a row of a window, with zeros up to a whole run.
Index depth_of(const Window& window) {
  return (window.taps() * window.channels + kRun - 1) / kRun * kRun;
}
Index rows_of_piece(Index depth) {
  return std::max(kPieceElements / depth, kLeastRows);
}

__device__ void put(float& to, float value) {
  to = value;
}
__device__ void put(Bfloat16& to, float value) {
  to = Bfloat16::rounded(value);
}

/// piece(r, tap * C + c) = what window first + r of the examples reads there.
template <typename Element>
struct WriteWindows {
  WindowMap map;
  MatrixView<const float> x;
  Index first;
  MatrixView<Element> piece;
  __device__ void operator()(Index r, int c) const {
    const int windows = map.windows(), tap = c / map.channels, channel = c % map.channels;
    const Index example = (first + r) / windows;
    const int window = int((first + r) % windows);
    const int px = map.first(0, window % map.out[0]) + tap % map.kernel[0];
    const int py =
        map.first(1, window / map.out[0] % map.out[1]) + tap / map.kernel[0] % map.kernel[1];
    const int pz =
        map.first(2, window / (map.out[0] * map.out[1])) + tap / (map.kernel[0] * map.kernel[1]);
    const bool is_inside = px >= 0 && px < map.in[0] && py >= 0 && py < map.in[1] && pz >= 0 &&
                           pz < map.in[2] && tap < map.kernel[0] * map.kernel[1] * map.kernel[2];
    float value = 0.0f;
    if (is_inside)
      value = x.row(example)[((pz * map.in[1] + py) * map.in[0] + px) * map.place_stride +
                             channel * map.channel_stride];
    put(piece(r, c), value);
  }
};

/// dx += what the windows of a piece give; where window 0 of an example is among them, and nothing
/// is kept, from 0 on.
struct GatherWindows {
  WindowMap map;
  MatrixView<const float> piece;  ///< of windows [first, first + rows) of all examples
  Index first;
  Index first_example;
  bool keeps;
  MatrixView<float> dx;
  __device__ void operator()(Index row, int c) const {
    const Index example = first_example + row, start = example * map.windows();
    const UnitPlace unit(map, c);
    float& to = dx(example, c);
    float sum = keeps || start < first ? to : 0.0f;
    for_windows_of(map, unit, [&](int window, int x, int y, int z) {
      const Index r = start + window - first;
      if (r < 0 || r >= piece.rows) return;
      const int kx = unit.at[0] - map.first(0, x), ky = unit.at[1] - map.first(1, y),
                kz = unit.at[2] - map.first(2, z);
      const int tap = (kz * map.kernel[1] + ky) * map.kernel[0] + kx;
      sum += piece(r, Index(tap) * map.channels + unit.channel);
    });
    to = sum;
  }
};

/// to(k, tap * C + c) = filters(k, c * taps + tap), and zeros behind the last one.
template <typename Element>
struct TurnFilters {
  int channels;
  int taps;
  MatrixView<const float> filters;
  MatrixView<Element> to;
  __device__ void operator()(Index k, int c) const {
    const int tap = c / channels;
    put(to(k, c), tap < taps ? filters(k, c % channels * taps + tap) : 0.0f);
  }
};

/// to(r, j * inner + i) = from(r, i * outer + j), or += it.
struct TurnRows {
  int outer;
  int inner;
  MatrixView<const float> from;
  MatrixView<float> to;
  bool adds;
  __device__ void operator()(Index r, int c) const {
    const float value = from(r, Index(c % inner) * outer + c / inner);
    to(r, c) = adds ? value + to(r, c) : value;
  }
};

class CudaConvolution final : public ConvolutionKernels {
 public:
  CudaConvolution(const Stream& stream, DenseKernels& dense)
      : stream_(stream),
        dense_(dense),
        piece_(stream.memory),
        filters_(stream.memory),
        rounded_piece_(stream.memory),
        rounded_filters_(stream.memory) {}

 private:
  bool rounds() const { return stream_.precision == Precision::bf16; }

  template <typename Element>
  MatrixView<Element> turn(const Window& window, MatrixView<const float> filters,
                           Workspace<Element>& memory) {
    const Index depth = depth_of(window);
    const MatrixView<Element> to{memory.reserve(filters.rows * depth), filters.rows, depth, depth};
    for_cells(stream_, "turn filters", to.rows, to.cols,
              TurnFilters<Element>{int(window.channels), int(window.taps()), filters, to});
    return to;
  }
  /// Filters as products want them: [K x taps*C], the channel fastest.
  DenseOperand turned(const Window& window, MatrixView<const float> filters) {
    if (!rounds()) return MatrixView<const float>(turn(window, filters, filters_));
    const MatrixView<const Bfloat16> bf16 = turn(window, filters, rounded_filters_);
    return {MatrixView<const float>{nullptr, bf16.rows, bf16.cols, bf16.stride}, bf16};
  }

  template <typename Element>
  MatrixView<Element> write(const Window& window, MatrixView<const float> x, Index first,
                            Index count, Workspace<Element>& memory) {
    const Index depth = depth_of(window);
    const MatrixView<Element> piece{memory.reserve(count * depth), count, depth, depth};
    for_cells(stream_, "write windows", count, depth,
              WriteWindows<Element>{WindowMap(window), x, first, piece});
    return piece;
  }
  /// Windows [first, first + count) of all examples.
  DenseOperand windows(const Window& window, MatrixView<const float> x, Index first, Index count) {
    if (!rounds()) return MatrixView<const float>(write(window, x, first, count, piece_));
    const MatrixView<const Bfloat16> bf16 = write(window, x, first, count, rounded_piece_);
    return {MatrixView<const float>{nullptr, count, bf16.cols, bf16.stride}, bf16};
  }

  template <typename Body>
  static void for_pieces(const Window& window, Index examples, const Body& body) {
    const Index all = examples * window.out_places(), most = rows_of_piece(depth_of(window));
    for (Index first = 0; first < all; first += most) body(first, std::min(most, all - first));
  }

  void do_forward(const Window& window, MatrixView<const float> x, MatrixView<const float> filters,
                  MatrixView<float> z, Existing existing) override {
    const DenseOperand w = turned(window, filters);
    const MatrixView<float> flat{z.data, z.rows * window.out_places(), filters.rows, filters.rows};
    for_pieces(window, z.rows, [&](Index first, Index count) {
      dense_.by_row().multiply_transposed(windows(window, x, first, count), w,
                                          flat.row_range(first, count), existing);
    });
  }

  void do_input_delta(const Window& window, MatrixView<const float> delta,
                      MatrixView<const float> filters, MatrixView<float> dx,
                      Existing existing) override {
    const DenseOperand w = turned(window, filters);
    const Index places = window.out_places(), depth = depth_of(window);
    const MatrixView<const float> flat{delta.data, delta.rows * places, filters.rows, filters.rows};
    for_pieces(window, dx.rows, [&](Index first, Index count) {
      const MatrixView<float> piece{piece_.reserve(count * depth), count, depth, depth};
      dense_.by_row().multiply(flat.row_range(first, count), w, piece);
      const Index example = first / places, end = (first + count + places - 1) / places;
      for_cells(
          stream_, "gather windows", end - example, dx.cols,
          GatherWindows{WindowMap(window), piece, first, example, existing == Existing::add, dx});
    });
  }

  void do_gradient(const Window& window, MatrixView<const float> delta, MatrixView<const float> x,
                   float scale, MatrixView<float> term) override {
    const Index depth = depth_of(window), windows_of_all = x.rows * window.out_places();
    const MatrixView<float> sum{filters_.reserve(term.rows * depth), term.rows, depth, depth};
    const MatrixView<const float> flat{delta.data, windows_of_all, term.rows, term.rows};
    if (windows_of_all == 0)
      check(cudaMemsetAsync(sum.data, 0, std::size_t(sum.size()) * sizeof(float), stream_.stream),
            "cudaMemsetAsync");
    for_pieces(window, x.rows, [&](Index first, Index count) {
      dense_.gradient(flat.row_range(first, count), windows(window, x, first, count), scale, sum,
                      first == 0 ? Existing::overwrite : Existing::add);
    });
    const Index used = window.taps() * window.channels;
    turn_rows(window.channels, sum.columns(0, used), term, Existing::overwrite);
  }

  void turn_rows(Index outer, MatrixView<const float> from, MatrixView<float> to,
                 Existing existing) {
    for_cells(stream_, "turn rows", to.rows, to.cols,
              TurnRows{int(outer), int(from.cols / outer), from, to, existing == Existing::add});
  }
  void do_to_file_order(Index channels, MatrixView<const float> from,
                        MatrixView<float> to) override {
    turn_rows(channels, from, to, Existing::overwrite);
  }
  void do_to_channels_last(Index channels, MatrixView<const float> from, MatrixView<float> to,
                           Existing existing) override {
    turn_rows(from.cols / channels, from, to, existing);
  }

  Stream stream_;
  DenseKernels& dense_;
  Workspace<float> piece_;
  Workspace<float> filters_;
  Workspace<Bfloat16> rounded_piece_;
  Workspace<Bfloat16> rounded_filters_;
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_convolution(const Stream& stream, DenseKernels& dense) {
  return std::make_unique<CudaConvolution>(stream, dense);
}

}  // namespace norn::cuda
