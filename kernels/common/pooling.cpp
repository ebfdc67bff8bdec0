// SPDX-License-Identifier: Apache-2.0
// The pooling kernels' door: shapes are checked here, once for all devices.

#include "kernels/pooling.h"

#include "kernels/common/shape_text.h"

#include <algorithm>

namespace norn {
namespace {

// Whether the axes make sense and every window has a unit of the source.
bool is_valid(const Window& w) {
  for (std::size_t a = 0; a < 3; ++a)
    if (w.in[a] < 1 || w.out[a] < 1 || w.kernel[a] < 1 || w.stride[a] < 1 || w.padding[a] < 0 ||
        w.padding[a] >= w.kernel[a] || (w.out[a] - 1) * w.stride[a] - w.padding[a] >= w.in[a])
      return false;
  return w.channels >= 1;
}

bool has_no_windows(const Window& w) {
  return w.in == w.out && w.taps() == 1 && w.stride == std::array<Index, 3>{1, 1, 1};
}

bool fits(const PoolingSource& source) {
  return is_valid(source.window) && fits(source.x) &&
         source.x.cols() == source.window.places() * source.window.channels;
}

bool slides(const Pooling& pooling) {
  return std::holds_alternative<MaxPooling>(pooling) ||
         std::holds_alternative<AveragePooling>(pooling);
}

bool is_valid(const Pooling& pooling) {
  const auto* lrn = std::get_if<LocalResponseNormalization>(&pooling);
  return lrn == nullptr || lrn->n >= 1;
}

// Whether sources and results are those of one pooling. Units of Maxout go together whatever the
// channels of the sources; all others have the same channels.
bool fit(const Pooling& pooling, std::span<const PoolingSource> sources,
         const MatrixView<const float>& y) {
  return !sources.empty() && is_valid(pooling) && has_valid_stride(y) &&
         std::ranges::all_of(sources, [&](const PoolingSource& source) {
           const Window& w = source.window;
           return fits(source) && source.x.rows() == y.rows &&
                  y.cols == w.out_places() * w.channels &&
                  (std::holds_alternative<Maxout>(pooling) ||
                   w.channels == sources[0].window.channels) &&
                  (slides(pooling) || has_no_windows(w));
         });
}

bool has_copy(const DenseResult& y) {
  return y.bf16.data == nullptr || (y.bf16.rows == y.rows() && y.bf16.cols == y.cols());
}

// Whether dx may be what a delta of results gives to a source.
bool gives(const Pooling& pooling, std::span<const PoolingSource> sources, std::size_t source,
           const DenseOperand& delta, const DenseResult& dx) {
  return fit(pooling, sources, delta.values) && fits(delta) && source < sources.size() &&
         has_valid_stride(dx.values) && has_copy(dx) && dx.rows() == delta.rows() &&
         dx.cols() == sources[source].x.cols();
}

// Whether both are rows of the same number of units.
bool are_alike(const PoolingSource& first, const PoolingSource& second) {
  return fits(first) && fits(second) && first.x.rows() == second.x.rows() &&
         first.x.cols() == second.x.cols();
}

template <typename Sum>
bool has_rows(const PairSums<Sum>& sums, Index rows, bool with_squares) {
  const auto squares = [&](Index size) { return size == rows || (size == 0 && !with_squares); };
  return sums.products.size == rows && squares(sums.first_squares.size) &&
         sums.first_squares.size == sums.second_squares.size;
}

MatrixView<const float> first_of(std::span<const PoolingSource> sources) {
  return sources.empty() ? MatrixView<const float>{} : sources[0].x.values;
}

}  // namespace

void PoolingKernels::forward(const Pooling& pooling, std::span<const PoolingSource> sources,
                             const DenseResult& y) {
  require_fit(fit(pooling, sources, y.values) && has_copy(y), "pooling forward",
              "sources [E x places*C] whose windows all have a unit, y [E x windows*C]",
              first_of(sources), y.values);
  require(sources.size() == 1 || !y.is_bf16_alone(),
          "pooling forward: results in bf16 alone are those of one source");
  if (!y.empty()) do_forward(pooling, sources, y);
}

void PoolingKernels::backward(const Pooling& pooling, std::span<const PoolingSource> sources,
                              std::size_t source, const DenseOperand& delta, const DenseResult& dx,
                              Existing existing) {
  require_fit(
      gives(pooling, sources, source, delta, dx) &&
          (existing == Existing::overwrite || !dx.is_bf16_alone()),
      "pooling backward",
      "sources [E x places*C] whose windows all have a unit, delta [E x windows*C], dx [E x "
      "places*C]",
      first_of(sources), delta.values, dx.values);
  if (!dx.empty()) do_backward(pooling, sources, source, delta, dx, existing);
}

bool PoolingKernels::backward_through(const Pooling& pooling,
                                      std::span<const PoolingSource> sources, std::size_t source,
                                      const DenseOperand& delta, const Activation& f,
                                      const DenseResult& dx) {
  require_fit(
      gives(pooling, sources, source, delta, dx), "pooling backward_through",
      "sources [E x places*C] whose windows all have a unit, delta [E x windows*C], dx [E x "
      "places*C]",
      first_of(sources), delta.values, dx.values);
  require(slope_from(f) == SlopeFrom::y, "pooling backward_through: a slope of outputs");
  return dx.empty() || do_backward_through(pooling, sources, source, delta, f, dx);
}

void PoolingKernels::add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                                   const PairSums<FixedSum>& sums) {
  require_fit(are_alike(first, second) && has_rows(sums, first.x.rows(), false), "add_pair_sums",
              "first, second [E x units], sums [E] each, or squares []", first.x.values,
              second.x.values, sums.products, sums.first_squares, sums.second_squares);
  do_add_pair_sums(first, second, sums);
}

void PoolingKernels::compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                             MatrixView<float> y) {
  require_fit(y.cols == 1 && has_valid_stride(y) &&
                  has_rows(sums, y.rows, similarity == Similarity::cosine),
              "compare", "y [E x 1], sums [E] each; squares [] for dot products alone", y,
              sums.products, sums.first_squares, sums.second_squares);
  do_compare(similarity, sums, y);
}

void PoolingKernels::compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                                      MatrixView<const float> delta, const PoolingSource& first,
                                      const PoolingSource& second, MatrixView<float> dx,
                                      Existing existing) {
  require_fit(are_alike(first, second) && delta.cols == 1 && has_valid_stride(delta) &&
                  has_valid_stride(dx) && delta.rows == dx.rows && dx.rows == first.x.rows() &&
                  dx.cols == first.x.cols() &&
                  has_rows(sums, dx.rows, similarity == Similarity::cosine),
              "compare_backward",
              "delta [E x 1], first, second, dx [E x units], sums [E] each; squares [] for dot "
              "products alone",
              delta, first.x.values, second.x.values, dx, sums.products, sums.first_squares,
              sums.second_squares);
  if (!dx.empty()) do_compare_backward(similarity, sums, delta, first, second, dx, existing);
}

}  // namespace norn
