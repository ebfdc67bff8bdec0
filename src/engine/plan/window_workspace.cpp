// SPDX-License-Identifier: Apache-2.0
// The largest of each kind, over all convolutions and what they do.
#include "src/engine/plan/window_workspace.h"

#include "kernels/window_phases.h"
#include "kernels/window_pieces.h"
#include "src/step/layers/example_edges.h"
#include "src/tensor/example_partition.h"

#include <algorithm>

namespace norn {
namespace {

using namespace window_pieces;

class Needs {
 public:
  explicit Needs(const StepFacts& facts)
      : facts_(facts),
        rounds_(facts.device().precision.casts_operands()),
        reads_(facts.device().precision.rounds()) {}

  void add_edge(int edge) {
    const Window window = facts_.window(edge);
    const int layer = facts_.edge(edge).destination, source = facts_.edge(edge).source;
    const Index filters = facts_.channels(layer);
    const bool is_rounded = !facts_.is_input(source) && facts_.gives_bf16_rows(source);
    add_product(window, filters, is_rounded);
    if (!facts_.training()) return;
    add_gradient(window, filters, is_rounded, facts_.gives_bf16_delta(layer));
    if (!step::sends_delta(facts_, edge)) return;
    if (has_mirror(window, filters))
      add_product(mirror_of(window, filters), window.channels, facts_.gives_bf16_delta(layer));
    else
      add_delta(window, filters, step::places_phases(facts_, edge));
  }
  /// Memory that is asked for again grows by a quarter.
  Index bytes() const {
    const Index floats = piece_ + filters_ + mirrored_ + turned_;
    const Index halves = rounded_piece_ + rounded_delta_ + rounded_filters_ + operands_ + images_;
    return (floats * Index(sizeof(float)) + halves * Index(sizeof(Bfloat16))) * 5 / 4;
  }

 private:
  bool reads(const Window& window, Index filters) const {
    return reads_ && can_read(window, filters);
  }
  bool folds(const Window& window, Index filters) const {
    return reads_ && can_fold(window, filters, rounds_);
  }
  static void raise(Index& most, Index elements) { most = std::max(most, elements); }
  Index rows_of(const Window& window, Index examples) const {
    return std::min(examples * window.out_places(),
                    rows_of_piece(written_depth(window, rounds_), rounds_));
  }
  void write(const Window& window, Index examples) {
    const Index rows = rows_of(window, examples);
    raise(rounds_ ? rounded_piece_ : piece_, rows * written_depth(window, rounds_));
    if (writes_places(window, rounds_))
      raise(images_, (rows / window.out_places() + 2) * window.places() * 4);
  }

  // `is_rounded`: the operand has a bf16 copy.
  void add_product(const Window& window, Index filters, bool is_rounded) {
    const Index units = window.places() * window.channels;
    if (reads(window, filters)) {
      if (!rounds_)
        return raise(filters_, filters * window.taps() * padded_channels<float>(window));
      if (!is_rounded)
        raise(rounded_piece_,
              units * std::min(facts_.example_capacity(), examples_of_piece(units)));
      raise(rounded_filters_, filters * window.taps() * padded_channels<Bfloat16>(window));
      return;
    }
    if (folds(window, filters)) {
      const Window of = folded(window);
      const Index width = of.places() * of.channels;
      raise(images_, width * std::min(facts_.example_capacity(), examples_of_piece(width)));
      return raise(rounded_filters_, filters * of.taps() * padded_channels<Bfloat16>(of));
    }
    write(window, facts_.example_capacity());
    raise(rounds_ ? rounded_filters_ : filters_, filters * written_depth(window, rounds_));
  }
  void add_gradient(const Window& window, Index filters, bool is_rounded, bool has_delta) {
    const Index examples = ExamplePartition::make(facts_.batch()).run_length();
    if (folds(window, filters)) {
      const Window of = folded(window);
      raise(images_, examples * of.places() * of.channels);
      raise(filters_,
            gradient_slices(of, filters, examples) * filters * gradient_columns(of, filters));
      if (!has_delta) raise(rounded_delta_, examples * window.out_places() * filters);
      return;
    }
    if (!rounds_ && reads_ && can_turn(window, filters, examples))
      return add_turned(window, filters, examples);
    if (!rounds_ || !reads(window, filters)) {
      const bool are_together = rounds_ && fills_tiles(filters) && has_delta;
      const Index runs = std::max<Index>(
          1, are_together ? std::min(own_runs(), runs_written(window, examples)) : 1);
      write(window, runs * examples);
      const Index rows = rows_of(window, examples), depth = written_depth(window, rounds_);
      if (!rounds_ || !fills_tiles(filters)) {
        raise(filters_, filters * depth);
        if (rounds_) raise(operands_, rows * filters);
        return;
      }
      const Index pieces = quotient_up(examples * window.out_places(), rows_of_piece(depth, true));
      raise(filters_, runs * pieces * written_slices(window, filters) * filters *
                          gradient_columns(places_of(rows, depth), filters));
      if (!has_delta) raise(rounded_delta_, examples * window.out_places() * filters);
      return;
    }
    if (!is_rounded) raise(rounded_piece_, examples * window.places() * window.channels);
    if (!has_delta) raise(rounded_delta_, examples * window.out_places() * filters);
    raise(filters_, own_runs() * gradient_slices(window, filters, examples) * filters *
                        gradient_columns(window, filters));
  }
  Index own_runs() const {
    return ExamplePartition::runs_of(facts_.settings().rank, facts_.ranks()).count();
  }
  void add_turned(const Window& window, Index filters, Index run) {
    const Index examples = examples_turned(window, filters, run);
    const Index runs = std::min(own_runs(), runs_turned(window, filters, run));
    raise(turned_, runs * turned_floats(window, filters, examples));
    raise(filters_, runs * quotient_up(run, examples) * turned_slices(window, filters, run) *
                        filters * window.taps() * padded_channels<float>(window));
    // The last run may be too short to be turned.
    Index shorter = run - 1;
    while (shorter > 0 && can_turn(window, filters, shorter)) --shorter;
    if (shorter > 0) write(window, shorter);
  }
  void add_phases(const Window& window, Index filters, bool are_placed) {
    const Index units = window.places() * window.channels;
    if (!are_placed)
      raise(mirrored_,
            std::min(facts_.example_capacity(), window_phases::examples_at_once(units)) * units);
    for (Index number = 0; number < window_phases::count(window); ++number) {
      const Window of = window_phases::window_of(window, number, filters);
      const Index padded = rounds_ ? padded_channels<Bfloat16>(of) : padded_channels<float>(of);
      raise(rounds_ ? rounded_filters_ : filters_, window.channels * of.taps() * padded);
    }
  }
  // Windows that are written out, and the operands of that.
  void add_delta(const Window& window, Index filters, bool are_placed) {
    if (reads_ && window_phases::can_read(window, filters))
      return add_phases(window, filters, are_placed);
    const Index rows = std::min(facts_.example_capacity(), examples_gathered(window, rounds_)) *
                       window.out_places();
    raise(piece_, rows * depth_of(window));
    raise(rounds_ ? rounded_filters_ : filters_, filters * depth_of(window));
    if (rounds_) raise(operands_, rows * filters);
  }

  const StepFacts& facts_;
  bool rounds_;  ///< operands to bf16
  bool reads_;   ///< windows where they stand
  Index piece_ = 0, filters_ = 0, mirrored_ = 0, turned_ = 0;
  Index rounded_piece_ = 0, rounded_delta_ = 0, rounded_filters_ = 0, operands_ = 0;
  Index images_ = 0;
};

}  // namespace

Index window_workspace(const StepFacts& facts) {
  Needs needs(facts);
  for (int layer : facts.order())
    if (facts.is_convolution(layer))
      for (int edge : facts.matrices(layer)) needs.add_edge(edge);
  return needs.bytes();
}

}  // namespace norn
