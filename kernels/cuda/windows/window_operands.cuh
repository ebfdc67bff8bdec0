// SPDX-License-Identifier: Apache-2.0
// Operands of convolutions as products want them: filters in other orders, rounded copies, windows
// that are written out.
#pragma once

#include "kernels/cuda/windows/fold_cells.cuh"
#include "kernels/cuda/windows/window_cells.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/dense.h"
#include "kernels/window_pieces.h"

#include <algorithm>
#include <type_traits>

namespace norn::cuda {

using namespace window_pieces;

/// Whether the windows, one behind the other, are the source as it stands: filters of one place, or
/// of all of them.
inline bool windows_are_source(const Window& window) {
  bool of_one = true, of_all = true;
  for (std::size_t a = 0; a < 3; ++a) {
    if (window.padding[a] != 0) return false;
    of_one =
        of_one && window.kernel[a] == 1 && window.stride[a] == 1 && window.out[a] == window.in[a];
    of_all = of_all && window.kernel[a] == window.in[a] && window.out[a] == 1;
  }
  return (of_one || of_all) && has_channels_last(window) &&
         depth_of(window) == window.taps() * window.channels;
}

template <typename T>
bool is_run(MatrixView<T> m) {
  return m.stride == m.cols || m.rows <= 1;
}
/// Whether an operand has a bf16 copy that the copy engine can read.
inline bool is_there(const DenseOperand& operand) {
  return operand.bf16.data != nullptr && is_run(operand.bf16) && is_packable<8>(operand.bf16);
}

class WindowOperands {
 protected:
  explicit WindowOperands(const Stream& stream)
      : stream_(stream),
        piece_(stream.memory),
        filters_(stream.memory),
        rounded_piece_(stream.memory),
        rounded_filters_(stream.memory),
        images_(stream.memory) {}

  bool rounds() const { return stream_.precision == Precision::bf16; }
  /// Whether windows are read where they stand, by products with so many filters.
  bool reads_windows(const Window& window, Index filters) const {
    return stream_.precision != Precision::fp32 && can_read(window, filters) &&
           device_reads_windows();
  }

  /// How filters stand in a product.
  struct FilterColumns {
    Index padded;  ///< of a tap
    Index depth;   ///< of all
  };
  FilterColumns of_read(const Window& window) const {
    const Index padded =
        rounds() ? padded_channels<Bfloat16>(window) : padded_channels<float>(window);
    return {padded, window.taps() * padded};
  }
  /// In what a gradient in bfloat16 is summed in.
  static FilterColumns of_gradient(const Window& window, Index filters) {
    return {gradient_channels(window, filters), gradient_columns(window, filters)};
  }
  bool folds(const Window& window, Index filters) const {
    return can_fold(window, filters, rounds()) && device_reads_windows();
  }
  FilterColumns of_written(const Window& window) const {
    return {written_channels(window, rounds()), written_depth(window, rounds())};
  }

  /// Calls make(columns, to) with room for filters as products want them: [rows x depth].
  template <typename Make>
  DenseOperand make_filters(const Window& window, Index rows, const FilterColumns& of,
                            const Make& make) {
    const TapColumns columns{int(window.channels), int(of.padded), int(window.taps())};
    if (!rounds()) {
      const MatrixView<float> to{filters_.reserve(rows * of.depth), rows, of.depth, of.depth};
      make(columns, to);
      return MatrixView<const float>(to);
    }
    const MatrixView<Bfloat16> to{rounded_filters_.reserve(rows * of.depth), rows, of.depth,
                                  of.depth};
    make(columns, to);
    return {MatrixView<const float>{nullptr, rows, of.depth, of.depth}, to};
  }
  /// The channel fastest.
  DenseOperand turned(const Window& window, MatrixView<const float> filters,
                      const FilterColumns& of) {
    return make_filters(window, filters.rows, of,
                        [&]<typename T>(const TapColumns& columns, MatrixView<T> to) {
                          for_cells(stream_, "turn filters", to.rows, to.cols,
                                    TurnFilters<T>{columns, filters, to});
                        });
  }
  /// For products whose windows are read where they stand or written out.
  DenseOperand turned(const Window& window, MatrixView<const float> filters) {
    if (folds(window, filters.rows)) return folded_filters(window, filters);
    const bool reads = reads_windows(window, filters.rows);
    return turned(window, filters, reads ? of_read(window) : of_written(window));
  }
  DenseOperand folded_filters(const Window& window, MatrixView<const float> filters) {
    const Window of = folded(window);
    return make_filters(of, filters.rows, of_read(of),
                        [&]<typename T>(const TapColumns& columns, MatrixView<T> to) {
                          for_cells(stream_, "fold filters", to.rows, to.cols,
                                    FoldFilters<T>{columns, FoldMap(window, of), filters, to});
                        });
  }
  MatrixView<const Bfloat16> folded_images(const Window& window, MatrixView<const float> x) {
    const Window of = folded(window);
    const Index width = of.places() * of.channels;
    const MatrixView<Bfloat16> images{images_.reserve(x.rows * width), x.rows, width, width};
    for_cells(stream_, "fold images", x.rows, width / 4,
              FoldImages{FoldMap(window, of), x, images});
    return images;
  }
  /// The filter fastest.
  DenseOperand mirrored(const Window& mirror, Index channels, MatrixView<const float> filters) {
    const bool reads = reads_windows(mirror, channels);
    return make_filters(mirror, channels, reads ? of_read(mirror) : of_written(mirror),
                        [&]<typename T>(const TapColumns& columns, MatrixView<T> to) {
                          for_cells(stream_, "mirror filters", to.rows, to.cols,
                                    MirrorFilters<T>{columns, filters, to});
                        });
  }

  /// The bf16 copy of an operand without gaps, which may be there already.
  MatrixView<const Bfloat16> round(const DenseOperand& operand, Workspace<Bfloat16>& memory) {
    if (is_there(operand)) return operand.bf16;
    const MatrixView<const float> x = operand.values;
    const MatrixView<Bfloat16> rounded{memory.reserve(x.size()), x.rows, x.cols, x.cols};
    run_elements<4>(stream_, "round", elements_of<4>(x, rounded), RoundWork{x, rounded});
    return rounded;
  }

  /// A matrix as the copy engine reads it.
  MatrixView<const float> without_gaps(MatrixView<const float> x) {
    if (is_run(x) && is_packable<4>(x)) return {x.data, x.rows, x.cols, x.cols};
    const MatrixView<float> copy{piece_.reserve(x.size()), x.rows, x.cols, x.cols};
    for_cells(stream_, "copy", x.rows, x.cols, TakeDelta{x, copy, false});
    return copy;
  }

  template <typename Element>
  MatrixView<Element> write(const Window& window, MatrixView<const float> x, Index first,
                            Index count, Workspace<Element>& memory) {
    const Index depth = written_depth(window, rounds());
    const MatrixView<Element> piece{memory.reserve(count * depth), count, depth, depth};
    if constexpr (std::is_same_v<Element, Bfloat16>)
      if (writes_places(window, true)) return write_images(window, x, first, piece), piece;
    const WindowPiece<Element> work(window, x, first, piece);
    const bool is_whole = has_channels_last(window) && window.channels % kRun == 0 &&
                          is_packable<4>(x) && work.map.channel_stride == 1;
    const unsigned blocks =
        blocks_for(work.chunks(), kWindowThreads, Index(64) * stream_.multiprocessors);
    if (is_whole)
      write_windows_kernel<true><<<blocks, kWindowThreads, 0, stream_.stream>>>(work);
    else
      write_windows_kernel<false><<<blocks, kWindowThreads, 0, stream_.stream>>>(work);
    check_launch("write windows");
    return piece;
  }
  /// The images that they are of are turned first.
  void write_images(const Window& window, MatrixView<const float> x, Index first,
                    MatrixView<Bfloat16> piece) {
    const Index of_example = window.out_places(), example = first / of_example;
    const Index examples = quotient_up(first + piece.rows, of_example) - example;
    Window of_words = window;
    of_words.channels = 4;
    of_words.order = UnitOrder::channels_last;
    const Index width = window.places() * of_words.channels;
    const MatrixView<Bfloat16> images{images_.reserve(examples * width), examples, width, width};
    for_cells(stream_, "turn images", examples, window.places(),
              TurnImages{x.row_range(example, examples), images, int(window.places()),
                         int(window.channels)});
    const ImagePiece work(of_words, images, first, piece);
    write_images_kernel<<<blocks_for(work.chunks(), kWindowThreads,
                                     Index(64) * stream_.multiprocessors),
                          kWindowThreads, 0, stream_.stream>>>(work);
    check_launch("write windows of images");
  }
  /// Windows [first, first + count) of all examples.
  DenseOperand windows(const Window& window, const DenseOperand& operand, Index first,
                       Index count) {
    const MatrixView<const float> x = operand.values;
    if (windows_are_source(window) && is_run(x) && is_packable<4>(x)) {
      const Index depth = depth_of(window);
      return MatrixView<const float>{x.data + first * depth, count, depth, depth};
    }
    if (!rounds()) return MatrixView<const float>(write(window, x, first, count, piece_));
    const MatrixView<const Bfloat16> bf16 = write(window, x, first, count, rounded_piece_);
    return {MatrixView<const float>{nullptr, count, bf16.cols, bf16.stride}, bf16};
  }

  template <typename Body>
  void for_pieces(const Window& window, Index examples, const Body& body) {
    const Index all = examples * window.out_places();
    const Index most = rows_of_piece(written_depth(window, rounds()), rounds());
    for (Index first = 0; first < all; first += most) body(first, std::min(most, all - first));
  }

  Stream stream_;
  Workspace<float> piece_;
  Workspace<float> filters_;
  Workspace<Bfloat16> rounded_piece_;
  Workspace<Bfloat16> rounded_filters_;
  Workspace<Bfloat16> images_;
};

}  // namespace norn::cuda
