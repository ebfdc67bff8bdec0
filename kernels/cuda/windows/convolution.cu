// SPDX-License-Identifier: Apache-2.0
// Convolutions as products. A Hopper GPU reads the windows of most layers where they stand
// (window_product.cu), in bfloat16 also of images that are folded for it, and for gradients in tf32
// of turned copies (turned_product.cu). Otherwise the windows of a piece of the examples are
// written out as rows and multiplied with the filters, there by the same products, else by
// cuBLASLt's. Products of examples are those whose rows stand alone; the delta of a source of as
// many places as windows is one of them, with filters mirrored, and where windows stride one for
// each phase of the places; else a unit takes what its windows give in the order of windows. A
// gradient is the sum over slices or pieces of its examples, in their order. All of these follow
// from the shapes alone.
#include "kernels/convolution.h"
#include "kernels/cuda/dense/many_rows.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/phase_cells.cuh"
#include "kernels/cuda/windows/turned_images.h"
#include "kernels/cuda/windows/turned_product.h"
#include "kernels/cuda/windows/window_operands.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"

#include <algorithm>

namespace norn::cuda {
namespace {

class CudaConvolution final : public ConvolutionKernels, private WindowOperands {
 public:
  CudaConvolution(const Stream& stream, DenseKernels& dense)
      : WindowOperands(stream),
        dense_(dense),
        rows_(products_of_many_rows(dense)),
        mirrored_(stream.memory),
        turned_(stream.memory),
        rounded_delta_(stream.memory) {}

 private:
  /// The windows times the filters. Windows that are written out have results without an activation
  /// function.
  void multiply(const Window& window, const DenseOperand& x, const DenseOperand& filters,
                const WindowResult& to) {
    const MatrixView<float> z = to.result;
    if (reads_windows(window, z.cols)) return multiply_read(window, x, filters, to);
    if (folds(window, z.cols)) return multiply_folded(window, x.values, filters, to);
    for_pieces(window, x.rows(), [&](Index first, Index count) {
      const DenseOperand piece = windows(window, x, first, count);
      if (to.bias.empty())
        rows_.multiply_transposed(piece, filters, z.row_range(first, count), to.existing);
      else
        rows_.affine(piece, filters, to.bias, z.row_range(first, count));
    });
  }

  void multiply_folded(const Window& window, MatrixView<const float> x, const DenseOperand& filters,
                       const WindowResult& to) {
    const Window of = folded(window);
    const Index most = examples_of_piece(of.places() * of.channels);
    for (Index first = 0; first < x.rows; first += most) {
      const Index count = std::min(most, x.rows - first);
      multiply_windows(stream_, of, folded_images(window, x.row_range(first, count)), filters.bf16,
                       to.of_examples({first, first + count}, of.out_places()));
    }
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
    const bool reads = reads_windows(window, filters.rows) || folds(window, filters.rows);
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
      collect_input_delta(window, operand, filters, {.dx = dx, .adds = existing == Existing::add});
  }
  void collect_input_delta(const Window& window, const DenseOperand& delta,
                           MatrixView<const float> filters, const GivenDelta& to) {
    const bool reads = stream_.precision != Precision::fp32 && device_reads_windows();
    if (reads && window_phases::can_read(window, filters.rows))
      input_delta_by_phases(window, delta, filters, to);
    else
      gather_input_delta(window, delta, filters, to);
  }
  DenseOperand filters_of_phase(const Window& window, Index number, const Window& of,
                                MatrixView<const float> filters) {
    const FilterColumns columns = of_read(of);
    return make_filters(
        of, window.channels, columns, [&]<typename T>(const TapColumns&, MatrixView<T> filled) {
          for_cells(stream_, "filters of a phase", filled.rows, filled.cols,
                    PhaseFilters<T>(window, number, columns.padded, filters, filled));
        });
  }
  /// Whether phases go where they belong at once: in bf16 alone.
  bool places_phases(const Window& window, const DenseOperand& delta, Index filters,
                     const GivenDelta& to) const {
    const auto is_mapped = [](const auto& m) { return is_run(m) && is_packable<8>(m); };
    return rounds() && window_phases::can_place(window, filters) && is_there(delta) &&
           to.dx.data == nullptr && is_mapped(to.bf16) &&
           (!to.slopes || (to.x_bf16.data != nullptr && is_mapped(to.x_bf16)));
  }
  void place_phases(const Window& window, const DenseOperand& delta,
                    MatrixView<const float> filters, const GivenDelta& to) {
    const Index channels = window.channels, row = window.in[0] * channels;
    for (Index number = 0; number < window_phases::count(window); ++number) {
      const Window of = window_phases::window_of(window, number, filters.rows);
      const Index rows = delta.rows() * of.out_places();
      const Index first = number / window.stride[0] * row + number % window.stride[0] * channels;
      WindowResult result{.result = {nullptr, rows, channels, channels},
                          .f = to.f,
                          .bf16 = {to.bf16.data + first, rows, channels, channels}};
      if (to.slopes) result.bf16_outputs = {to.x_bf16.data + first, rows, channels, channels};
      result.places = {of.out[0], of.out[1], window.stride[0] * channels, window.stride[1] * row,
                       window.in[1] * row};
      multiply(of, delta, filters_of_phase(window, number, of, filters), result);
    }
  }
  void input_delta_by_phases(const Window& window, const DenseOperand& delta,
                             MatrixView<const float> filters, const GivenDelta& to) {
    if (places_phases(window, delta, filters.rows, to))
      return place_phases(window, delta, filters, to);
    const Index channels = window.channels, most = window_phases::examples_at_once(to.dx.cols);
    for (Index first = 0; first < delta.rows(); first += most) {
      const Index count = std::min(most, delta.rows() - first);
      PhaseSums phases{};
      float* sums = mirrored_.reserve(count * to.dx.cols);
      for (Index number = 0; number < window_phases::count(window); ++number) {
        const Window of = window_phases::window_of(window, number, filters.rows);
        const Index places = of.out_places();
        if (places == 0 || of.taps() == 0) continue;
        multiply(of, delta.row_range(first, count), filters_of_phase(window, number, of, filters),
                 {.result = {sums, count * places, channels, channels}});
        phases.of[number] = {sums, int(of.out[0]), int(places)};
        sums += count * places * channels;
      }
      const auto take = [&](auto n) {
        for_cells(stream_, "take phases", count, to.dx.cols / n(),
                  TakePhases<n()>{WindowMap(window), phases, first, to});
      };
      if (to.is_packable<4>())
        take(std::integral_constant<int, 4>{});
      else
        take(std::integral_constant<int, 1>{});
    }
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
      collect_input_delta(window, delta, filters, to);
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
      if (folds(window, term.rows)) return gradient_folded(window, delta, x, scale, term);
      if (fills_tiles(term.rows) && device_reads_windows())
        return gradient_written(window, delta, x, scale, term);
    }
    if (windows_of_all > 0 && turns(window, term.rows, x.rows()))
      return gradient_turned(window, delta, x, scale, term);
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
    const FilterColumns columns = of_gradient(window, term.rows);
    const Index slices = gradient_slices(window, term.rows, x.rows());
    const MatrixView<float> parts = slices_of(slices, term.rows, columns.depth);
    multiply_window_slices(stream_, window,
                           by_places(round(delta, rounded_delta_), window.out_places(), term.rows),
                           round(x, rounded_piece_), 1, slices, parts);
    add_slices(window, columns, parts, slices, scale, term);
  }
  bool turns(const Window& window, Index filters, Index run) const {
    return stream_.precision == Precision::tf32 && can_turn(window, filters, run) &&
           device_reads_windows();
  }
  void multiply_turned(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                       Index runs, Index slices, MatrixView<float> parts) {
    const Index filters = delta.cols() / window.out_places(), examples = x.rows() / runs;
    const Index length = turned_length(window, examples), channels = runs * window.channels;
    float* const memory = turned_.reserve((channels + runs * filters) * length);
    const MatrixView<float> of_x{memory, channels, length, length};
    const MatrixView<float> of_delta{of_x.row(channels), runs * filters, length, length};
    turn_places(stream_, window, window.in[0], window.in[1], runs, x.values, of_x);
    turn_places(stream_, window, window.out[0], window.out[1], runs, delta.values, of_delta);
    multiply_turned_slices(stream_, window, examples, of_delta, of_x, runs, slices, parts);
  }
  /// A part of the examples at a time, the slices of all of them one behind the other.
  void gradient_turned(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                       float scale, MatrixView<float> term) {
    const FilterColumns columns = of_read(window);
    const Index most = examples_turned(window, term.rows, x.rows());
    const Index of_piece = turned_slices(window, term.rows, x.rows());
    const Index slices = quotient_up(x.rows(), most) * of_piece;
    const MatrixView<float> parts = slices_of(slices, term.rows, columns.depth);
    for (Index first = 0; first < x.rows(); first += most) {
      const Index count = std::min(most, x.rows() - first), slice = first / most * of_piece;
      multiply_turned(window, delta.row_range(first, count), x.row_range(first, count), 1, of_piece,
                      parts.row_range(slice * term.rows, of_piece * term.rows));
    }
    add_slices(window, columns, parts, slices, scale, term);
  }
  struct Runs {
    Index most = 0;    ///< at a time, fewer than two where each is made by itself
    Index slices = 0;  ///< of a run
    bool are_written = false;
  };
  /// How gradients of equal runs of so many examples are made together.
  Runs runs_of(const Window& window, const DenseOperand& delta, const DenseOperand& x,
               Index filters, Index count, Index length) const {
    if (count < 2 || length == 0) return {};
    if (turns(window, filters, length))
      return {runs_turned(window, filters, length), turned_slices(window, filters, length)};
    if (!rounds() || !is_there(delta)) return {};
    if (reads_windows(window, filters))
      return {is_there(x) ? count : 0, gradient_slices(window, filters, length)};
    if (folds(window, filters) || !fills_tiles(filters) || !device_reads_windows()) return {};
    return {x.values.data == nullptr ? 0 : runs_written(window, length),
            written_slices(window, filters), true};
  }
  /// Of so many equal runs, in which rows of parts are slices of a run.
  void multiply_runs(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                     Index filters, Index runs, const Runs& of, MatrixView<float> parts) {
    if (!rounds()) return multiply_turned(window, delta, x, runs, of.slices, parts);
    const MatrixView<const Bfloat16> rows = by_places(delta.bf16, window.out_places(), filters);
    if (!of.are_written)
      return multiply_window_slices(stream_, window, rows, x.bf16, runs, of.slices, parts);
    const MatrixView<const Bfloat16> piece = write(window, x.values, 0, rows.rows, rounded_piece_);
    multiply_window_slices(stream_, places_of(piece.rows, piece.cols), rows,
                           {piece.data, 1, piece.size(), piece.size()}, runs, of.slices, parts);
  }
  // Those in front are equally long, the last may be shorter: its gradient is made by itself.
  bool do_gradients(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                    std::span<const Range> runs, float scale, Index filters,
                    MatrixView<float> terms) override {
    const auto term = [&](std::size_t run) {
      const Index depth = window.taps() * window.channels;
      return MatrixView<float>{terms.row(Index(run)), filters, depth, depth};
    };
    std::size_t equal = 0;
    while (equal < runs.size() && runs[equal].count() == runs[0].count() &&
           (equal == 0 || runs[equal].begin == runs[equal - 1].end))
      ++equal;
    const Index length = equal == 0 ? 0 : runs[0].count();
    const Runs of = runs_of(window, delta, x, filters, Index(equal), length);
    if (of.most < 2) return false;
    const FilterColumns columns = of.are_written ? of_written(window)
                                  : rounds()     ? of_gradient(window, filters)
                                                 : of_read(window);
    const Index summed =
        of.are_written ? gradient_columns(places_of(1, columns.depth), filters) : columns.depth;
    for (Index begin = 0; begin < Index(equal); begin += of.most) {
      const Index count = std::min(of.most, Index(equal) - begin);
      const Index first = runs[std::size_t(begin)].begin, examples = count * length;
      const MatrixView<float> parts = slices_of(count * of.slices, filters, summed);
      multiply_runs(window, delta.row_range(first, examples), x.row_range(first, examples), filters,
                    count, of, parts);
      add_slices(window, columns, parts, of.slices, scale, term(std::size_t(begin)), count,
                 terms.stride);
    }
    for (std::size_t run = equal; run < runs.size(); ++run)
      do_gradient(window, delta.row_range(runs[run].begin, runs[run].count()),
                  x.row_range(runs[run].begin, runs[run].count()), scale, term(run));
    return true;
  }
  void gradient_folded(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                       float scale, MatrixView<float> term) {
    const Window of = folded(window);
    const FilterColumns columns = of_gradient(of, term.rows);
    const Index slices = gradient_slices(of, term.rows, x.rows());
    const MatrixView<float> parts = slices_of(slices, term.rows, columns.depth);
    multiply_window_slices(stream_, of,
                           by_places(round(delta, rounded_delta_), of.out_places(), term.rows),
                           folded_images(window, x.values), 1, slices, parts);
    for_cells(stream_, "add folded slices", term.rows, columns.depth,
              AddFoldedSlices{{int(of.channels), int(columns.padded), int(of.taps())},
                              FoldMap(window, of),
                              parts,
                              int(slices),
                              scale,
                              term});
  }
  /// The slices of all pieces, one behind the other.
  void gradient_written(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                        float scale, MatrixView<float> term) {
    const FilterColumns columns = of_written(window);
    const Index most = rows_of_piece(columns.depth, true), windows = x.rows() * window.out_places();
    const Index of_piece = written_slices(window, term.rows);
    const Index slices = quotient_up(windows, most) * of_piece;
    const MatrixView<float> parts =
        slices_of(slices, term.rows, gradient_columns(places_of(most, columns.depth), term.rows));
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
  /// The terms of so many runs, which are `next` elements apart.
  void add_slices(const Window& window, const FilterColumns& columns, MatrixView<const float> parts,
                  Index slices, float scale, MatrixView<float> term, Index runs = 1,
                  Index next = 0) {
    for_cells(stream_, "add slices", runs * term.rows, columns.depth,
              AddSlices{{int(window.channels), int(columns.padded), int(window.taps())},
                        parts,
                        int(slices),
                        scale,
                        term,
                        next});
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

  DenseKernels& dense_;
  DenseProducts& rows_;  ///< that stand alone
  Workspace<float> mirrored_;
  Workspace<float> turned_;
  Workspace<Bfloat16> rounded_delta_;
};

}  // namespace

std::unique_ptr<ConvolutionKernels> make_convolution(const Stream& stream, DenseKernels& dense) {
  return std::make_unique<CudaConvolution>(stream, dense);
}

}  // namespace norn::cuda
