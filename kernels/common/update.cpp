// SPDX-License-Identifier: Apache-2.0
// The update kernels' door: shapes are checked here, once for all devices.

#include "kernels/update.h"

#include "kernels/common/shape_text.h"

namespace norn {

namespace {

// Whether the rows of floats or halves do not overlap, and halves have one shape.
bool is_valid(const WeightView& w) {
  return has_valid_stride(w.floats) && has_valid_stride(w.high) && has_valid_stride(w.low) &&
         (!w.is_split() ||
          (w.low.data != nullptr && w.low.rows == w.rows() && w.low.cols == w.cols()));
}

}  // namespace

void UpdateKernels::update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                           MatrixView<const float> g, SlotViews slot) {
  bool fits = g.rows == w.rows() && g.cols == w.cols() && is_valid(w) && has_valid_stride(g);
  for (int i = 0; i < slots_of(rule); ++i) {
    const MatrixView<float>& s = slot[std::size_t(i)];
    fits = fits && s.rows == w.rows() && s.cols == w.cols() && has_valid_stride(s);
  }
  require_fit(fits, "update", "w, g and as many slots as the rule has in one shape", w.floats,
              w.low, g, slot);
  if (w.empty()) return;
  do_update(rule, step, w, g, slot);
}

void UpdateKernels::update_vectors(const UpdateRule& rule, const UpdateStep& step,
                                   std::span<const VectorUpdate> vectors) {
  for (const VectorUpdate& vector : vectors) {
    bool fits = vector.g.size == vector.w.size;
    for (int i = 0; i < slots_of(rule); ++i)
      fits = fits && vector.slot[std::size_t(i)].size == vector.w.size;
    require_fit(fits, "update_vectors", "w, g and as many slots as the rule has of one size",
                vector.w, vector.g, vector.slot);
  }
  do_update_vectors(rule, step, vectors);
}

void UpdateKernels::initialise(const Initializer& initializer, Philox random,
                               const WeightPlace& place, MatrixView<float> w) {
  const Index sources = place.first_source + (place.by_destination ? w.cols : w.rows);
  const Index destinations = place.first_destination + (place.by_destination ? w.rows : w.cols);
  if (place.first_source < 0 || place.first_destination < 0 || sources > place.sources ||
      destinations > place.destinations)
    throw ShapeError(fmt::format(
        "initialise: weights up to source {} and destination {} are not within a matrix of {} x {}",
        sources, destinations, place.sources, place.destinations));
  require_fit(has_valid_stride(w), "initialise", "rows that do not overlap", w);
  if (w.empty()) return;
  do_initialise(initializer, random, place, w);
}

void UpdateKernels::join(WeightView w, MatrixView<float> floats) {
  require_fit((w.is_split() || w.empty()) && is_valid(w) && floats.rows == w.rows() &&
                  floats.cols == w.cols() && has_valid_stride(floats),
              "join", "halves and floats of one shape", w.high, w.low, floats);
  if (!w.empty()) do_join(w, floats);
}

void UpdateKernels::split(MatrixView<const float> floats, WeightView w) {
  require_fit((w.is_split() || w.empty()) && is_valid(w) && floats.rows == w.rows() &&
                  floats.cols == w.cols() && has_valid_stride(floats),
              "split", "floats and halves of one shape", floats, w.high, w.low);
  if (!w.empty()) do_split(floats, w);
}

void UpdateKernels::clip_row_norms(float limit, MatrixView<float> w) {
  require_fit(has_valid_stride(w), "clip_row_norms", "rows that do not overlap", w);
  if (w.empty()) return;
  do_clip_row_norms(limit, w);
}

void UpdateKernels::clip_column_norms(float limit, MatrixView<float> w) {
  require_fit(has_valid_stride(w), "clip_column_norms", "rows that do not overlap", w);
  if (w.empty()) return;
  do_clip_column_norms(limit, w);
}

void UpdateKernels::add_row_squares(MatrixView<const float> w, VectorView<double> squares) {
  require_fit(has_valid_stride(w) && squares.size == w.rows, "add_row_squares",
              "a sum for each row", w, squares);
  if (!w.empty()) do_add_row_squares(w, squares);
}

void UpdateKernels::add_column_squares(MatrixView<const float> w, VectorView<double> squares) {
  require_fit(has_valid_stride(w) && squares.size == w.cols, "add_column_squares",
              "a sum for each column", w, squares);
  if (!w.empty()) do_add_column_squares(w, squares);
}

void UpdateKernels::scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w) {
  require_fit(has_valid_stride(w) && squares.size == w.rows, "scale_rows", "a sum for each row", w,
              squares);
  if (!w.empty()) do_scale_rows(limit, squares, w);
}

void UpdateKernels::scale_columns(float limit, VectorView<const double> squares,
                                  MatrixView<float> w) {
  require_fit(has_valid_stride(w) && squares.size == w.cols, "scale_columns",
              "a sum for each column", w, squares);
  if (!w.empty()) do_scale_columns(limit, squares, w);
}

void UpdateKernels::norms(WeightView w, double* squares, double* magnitudes) {
  require(squares != nullptr && magnitudes != nullptr,
          "norms: squares and magnitudes must be given");
  require_fit(is_valid(w), "norms", "rows that do not overlap", w.floats, w.low);
  do_norms(w, squares, magnitudes);
}

}  // namespace norn
