// SPDX-License-Identifier: Apache-2.0
// Convolutions as products. In bfloat16 a Hopper GPU reads the windows of most layers where they
// stand (window_product.cu). Otherwise the windows of a piece of the examples are written out as
// rows and multiplied with the filters by cuBLASLt. Products of examples are those whose rows stand
// alone; the delta of a source of as many places as windows is one of them, with filters mirrored;
// else a unit takes what its windows give in the order of windows. A gradient is the sum over
// pieces of its examples, in their order. Pieces follow from the shapes alone.
#include "kernels/convolution.h"
#include "kernels/cuda/dense/many_rows.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/window_cells.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"

#include <algorithm>

namespace norn::cuda {
namespace {

using namespace window_pieces;

/// Whether the windows, one behind the other, are the source as it stands: filters of one place, or
/// of all of them.
bool windows_are_source(const Window& window) {
  bool of_one = true, of_all = true;
  for (std::size_t a = 0; a < 3; ++a) {
    if (window.padding[a] != 0) return false;
    of_one = of_one && window.kernel[a] == 1 && window.stride[a] == 1;
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
bool is_there(const DenseOperand& operand) {
  return operand.bf16.data != nullptr && is_run(operand.bf16) && is_packable<8>(operand.bf16);
}

class CudaConvolution final : public ConvolutionKernels {
 public:
  CudaConvolution(const Stream& stream, DenseKernels& dense)
      : stream_(stream),
        dense_(dense),
        rows_(products_of_many_rows(dense)),
        piece_(stream.memory),
        filters_(stream.memory),
        mirrored_(stream.memory),
        rounded_piece_(stream.memory),
        rounded_delta_(stream.memory),
        rounded_filters_(stream.memory),
        images_(stream.memory) {}

 private:
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
    const bool reads = reads_windows(window, filters.rows);
    return turned(window, filters, reads ? of_read(window) : of_written(window));
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

  /// The windows times the filters. Windows that are written out have results without an activation
  /// function.
  void multiply(const Window& window, const DenseOperand& x, const DenseOperand& filters,
                const WindowResult& to) {
    const MatrixView<float> z = to.result;
    if (reads_windows(window, z.cols)) return multiply_read(window, x, filters, to);
    for_pieces(window, x.rows(), [&](Index first, Index count) {
      const DenseOperand piece = windows(window, x, first, count);
      if (to.bias.empty())
        rows_.multiply_transposed(piece, filters, z.row_range(first, count), to.existing);
      else
        rows_.affine(piece, filters, to.bias, z.row_range(first, count));
    });
  }

  /// Results in bf16 alone of windows that are written out: those are images of one place each.
  void multiply_written(const Window& window, const DenseOperand& x, const DenseOperand& filters,
                        const WindowResult& to) {
    for_pieces(window, x.rows(), [&](Index first, Index count) {
      const MatrixView<const Bfloat16> piece =
          write(window, x.values, first, count, rounded_piece_);
      multiply_windows(stream_, places_of(count, piece.cols),
                       {piece.data, 1, piece.size(), piece.size()}, filters.bf16,
                       to.of_examples({first, first + count}, 1));
    });
  }

  // As many examples at a time as the second-level cache holds, where they must be rounded first.
  void multiply_read(const Window& window, const DenseOperand& x, const DenseOperand& filters,
                     const WindowResult& to) {
    if (!rounds())
      return multiply_windows(stream_, window, without_gaps(x.values), filters.values, to);
    const Index most = is_there(x) ? x.rows() : examples_of_piece(x.cols());
    for (Index first = 0; first < x.rows(); first += most) {
      const Index count = std::min(most, x.rows() - first);
      multiply_windows(stream_, window, round(x.row_range(first, count), rounded_piece_),
                       filters.bf16, to.of_examples({first, first + count}, window.out_places()));
    }
  }

  static DenseOperand by_windows(const DenseOperand& delta, Index windows, Index filters) {
    DenseOperand flat(by_places(delta.values, windows, filters));
    if (delta.is_bf16_alone()) flat.bf16 = by_places(delta.bf16, windows, filters);
    return flat;
  }
  /// Results of examples as those of windows, or places.
  template <typename T>
  static MatrixView<T> by_places(MatrixView<T> results, Index places, Index channels) {
    return {results.data, results.rows * places, channels, channels};
  }

  void do_forward(const Window& window, const DenseOperand& x, MatrixView<const float> filters,
                  VectorView<const float> bias, MatrixView<float> z, Existing existing) override {
    multiply(window, x, turned(window, filters),
             {.result = by_places(z, window.out_places(), filters.rows),
              .existing = existing,
              .bias = bias});
  }
  bool do_forward_to_outputs(const Window& window, const DenseOperand& x,
                             MatrixView<const float> filters, VectorView<const float> bias,
                             const Activation& f, const DropoutMask& dropout,
                             const DenseResult& y) override {
    const std::optional<SignedSlopes> slopes = SignedSlopes::of(f);
    const bool reads = reads_windows(window, filters.rows);
    if (!slopes || ((!reads || dropout.drops()) && !y.is_bf16_alone())) return false;
    const Index places = window.out_places();
    const DenseOperand w = turned(window, filters);
    const WindowResult to{.result = by_places(y.values, places, filters.rows),
                          .bias = bias,
                          .f = *slopes,
                          .bf16 = by_places(y.bf16, places, filters.rows),
                          .dropout = dropout};
    reads ? multiply(window, x, w, to) : multiply_written(window, x, w, to);
    return true;
  }

  void do_input_delta(const Window& window, const DenseOperand& operand,
                      MatrixView<const float> filters, MatrixView<float> dx,
                      Existing existing) override {
    if (has_mirror(window, filters.rows))
      input_delta_by_mirror(window, operand, filters, dx, existing);
    else
      gather_input_delta(window, operand, filters, {.dx = dx, .adds = existing == Existing::add});
  }
  // Whole examples at a time: what an example's place gets is complete in one piece.
  void gather_input_delta(const Window& window, const DenseOperand& delta,
                          MatrixView<const float> filters, const GivenDelta& to) {
    const Index places = window.out_places(), depth = depth_of(window);
    const DenseOperand w = turned(window, filters, {window.channels, depth});
    const DenseOperand flat = by_windows(delta, places, filters.rows);
    const bool fours = has_channels_last(window) && window.channels % 4 == 0 && to.is_packable<4>();
    const Index most = examples_gathered(window, rounds());
    for (Index example = 0; example < delta.rows(); example += most) {
      const Index examples = std::min(most, delta.rows() - example);
      const Index first = example * places, count = examples * places;
      const MatrixView<float> piece{piece_.reserve(count * depth), count, depth, depth};
      rows_.multiply(flat.row_range(first, count), w, piece);
      const auto gather = [&](auto n) {
        for_cells(stream_, "gather windows", examples, to.dx.cols / n(),
                  GatherWindows<n()>{WindowMap(window), piece, example, to});
      };
      if (fours)
        gather(std::integral_constant<int, 4>{});
      else
        gather(std::integral_constant<int, 1>{});
    }
  }

  // What is added, or has gaps, goes through memory of its own: its bits are those without.
  void input_delta_by_mirror(const Window& window, const DenseOperand& delta,
                             MatrixView<const float> filters, MatrixView<float> dx,
                             Existing existing) {
    const Window mirror = mirror_of(window, filters.rows);
    const DenseOperand w = mirrored(mirror, window.channels, filters);
    const bool is_direct = existing == Existing::overwrite && is_run(dx) && is_packable<4>(dx);
    float* const to = is_direct ? dx.data : mirrored_.reserve(dx.size());
    multiply(mirror, delta, w,
             {.result = {to, dx.rows * window.places(), window.channels, window.channels}});
    if (!is_direct)
      for_cells(stream_, "take delta", dx.rows, dx.cols,
                TakeDelta{{to, dx.rows, dx.cols, dx.cols}, dx, existing == Existing::add});
  }

  bool do_input_delta_through(const Window& window, const DenseOperand& delta,
                              MatrixView<const float> filters, const Activation& f, float kept,
                              const DenseOperand& x, const DenseResult& dx) override {
    std::optional<SignedSlopes> slopes = SignedSlopes::of(f, kept);
    if (x.cols() == 0) slopes = SignedSlopes{};
    if (!slopes) return false;
    if (!has_mirror(window, filters.rows)) {
      GivenDelta to{.dx = dx.values, .slopes = x.cols() > 0, .f = *slopes, .x = x.values};
      to.x_bf16 = x.bf16;
      to.bf16 = dx.bf16;
      gather_input_delta(window, delta, filters, to);
      return true;
    }
    const Window mirror = mirror_of(window, filters.rows);
    if (!reads_windows(mirror, window.channels)) return false;
    const Index places = window.places(), channels = window.channels;
    WindowResult to{.result = by_places(dx.values, places, channels),
                    .f = *slopes,
                    .bf16 = by_places(dx.bf16, places, channels)};
    if (x.cols() > 0 && to.is_bf16_alone())
      to.bf16_outputs = by_places(x.bf16, places, channels);
    else if (x.cols() > 0)
      to.outputs = by_places(x.values, places, channels);
    multiply(mirror, delta, mirrored(mirror, channels, filters), to);
    return true;
  }

  void do_gradient(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                   float scale, MatrixView<float> term) override {
    const Index windows_of_all = x.rows() * window.out_places();
    if (windows_of_all > 0 && rounds()) {
      if (reads_windows(window, term.rows)) return gradient_read(window, delta, x, scale, term);
      if (fills_tiles(term.rows) && device_reads_windows())
        return gradient_written(window, delta, x, scale, term);
    }
    const FilterColumns columns = of_written(window);
    const MatrixView<float> sum{filters_.reserve(term.rows * columns.depth), term.rows,
                                columns.depth, columns.depth};
    const DenseOperand flat = by_windows(delta, window.out_places(), term.rows);
    if (windows_of_all == 0)
      check(cudaMemsetAsync(sum.data, 0, std::size_t(sum.size()) * sizeof(float), stream_.stream),
            "cudaMemsetAsync");
    for_pieces(window, x.rows(), [&](Index first, Index count) {
      dense_.gradient(flat.row_range(first, count), windows(window, x, first, count), scale, sum,
                      first == 0 ? Existing::overwrite : Existing::add);
    });
    turn_rows(columns.padded,
              MatrixView<const float>(sum.columns(0, window.taps() * columns.padded)), term,
              Existing::overwrite);
  }

  void gradient_read(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                     float scale, MatrixView<float> term) {
    const FilterColumns columns = of_read(window);
    const Index slices = gradient_slices(window, term.rows, x.rows());
    const MatrixView<float> parts = slices_of(slices, term.rows, columns.depth);
    multiply_window_slices(stream_, window,
                           by_places(round(delta, rounded_delta_), window.out_places(), term.rows),
                           round(x, rounded_piece_), 1, slices, parts);
    add_slices(window, columns, parts, slices, scale, term);
  }
  // Those in front are equally long, the last may be shorter: its gradient is made by itself.
  bool do_gradients(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                    std::span<const Range> runs, float scale, Index filters,
                    MatrixView<float> terms) override {
    const FilterColumns columns = of_read(window);
    const auto term = [&](std::size_t run) {
      const Index depth = window.taps() * window.channels;
      return MatrixView<float>{terms.row(Index(run)), filters, depth, depth};
    };
    std::size_t equal = 0;
    while (equal < runs.size() && runs[equal].count() == runs[0].count() &&
           (equal == 0 || runs[equal].begin == runs[equal - 1].end))
      ++equal;
    if (equal < 2 || runs[0].count() == 0 || !rounds() || !reads_windows(window, filters) ||
        !is_there(delta) || !is_there(x))
      return false;
    const Index slices = gradient_slices(window, filters, runs[0].count());
    const Index examples = Index(equal) * runs[0].count(), first = runs[0].begin;
    const MatrixView<float> parts = slices_of(Index(equal) * slices, filters, columns.depth);
    multiply_window_slices(
        stream_, window,
        by_places(delta.bf16.row_range(first, examples), window.out_places(), filters),
        x.bf16.row_range(first, examples), Index(equal), slices, parts);
    for (std::size_t run = 0; run < equal; ++run)
      add_slices(window, columns, parts.row_range(Index(run) * slices * filters, slices * filters),
                 slices, scale, term(run));
    for (std::size_t run = equal; run < runs.size(); ++run)
      do_gradient(window, delta.row_range(runs[run].begin, runs[run].count()),
                  x.row_range(runs[run].begin, runs[run].count()), scale, term(run));
    return true;
  }
  /// The slices of all pieces, one behind the other.
  void gradient_written(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                        float scale, MatrixView<float> term) {
    const FilterColumns columns = of_written(window);
    const Index most = rows_of_piece(columns.depth, true), windows = x.rows() * window.out_places();
    const Index of_piece = written_slices(window, term.rows);
    const Index slices = quotient_up(windows, most) * of_piece;
    const MatrixView<float> parts =
        slices_of(slices, term.rows, round_up(columns.depth, kBox<Bfloat16>));
    const MatrixView<const Bfloat16> rounded =
        by_places(round(delta, rounded_delta_), window.out_places(), term.rows);
    for_pieces(window, x.rows(), [&](Index first, Index count) {
      const MatrixView<const Bfloat16> piece =
          write(window, x.values, first, count, rounded_piece_);
      const Index slice = first / most * of_piece;
      multiply_window_slices(stream_, places_of(count, piece.cols), rounded.row_range(first, count),
                             {piece.data, 1, piece.size(), piece.size()}, 1, of_piece,
                             parts.row_range(slice * term.rows, of_piece * term.rows));
    });
    add_slices(window, columns, parts, slices, scale, term);
  }
  MatrixView<float> slices_of(Index slices, Index filters, Index depth) {
    return {filters_.reserve(slices * filters * depth), slices * filters, depth, depth};
  }
  void add_slices(const Window& window, const FilterColumns& columns, MatrixView<const float> parts,
                  Index slices, float scale, MatrixView<float> term) {
    for_cells(stream_, "add slices", term.rows, columns.depth,
              AddSlices{{int(window.channels), int(columns.padded), int(window.taps())},
                        parts,
                        int(slices),
                        scale,
                        term});
  }

  template <typename T>
  void turn_rows(Index outer, MatrixView<const T> from, MatrixView<float> to, Existing existing) {
    for_cells(stream_, "turn rows", to.rows, to.cols,
              TurnRows<T>{int(outer), int(from.cols / outer), from, to, existing == Existing::add});
  }
  void do_to_file_order(Index channels, const DenseOperand& from, MatrixView<float> to) override {
    if (from.is_bf16_alone())
      turn_rows(channels, from.bf16, to, Existing::overwrite);
    else
      turn_rows(channels, from.values, to, Existing::overwrite);
  }
  void do_to_channels_last(Index channels, MatrixView<const float> from, MatrixView<float> to,
                           Existing existing) override {
    turn_rows(from.cols / channels, from, to, existing);
  }

  Stream stream_;
  DenseKernels& dense_;
  DenseProducts& rows_;  ///< that stand alone
  Workspace<float> piece_;
  Workspace<float> filters_;
  Workspace<float> mirrored_;
  Workspace<Bfloat16> rounded_piece_;
  Workspace<Bfloat16> rounded_delta_;
  Workspace<Bfloat16> rounded_filters_;
  Workspace<Bfloat16> images_;
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_convolution(const Stream& stream, DenseKernels& dense) {
  return std::make_unique<CudaConvolution>(stream, dense);
}

}  // namespace norn::cuda
