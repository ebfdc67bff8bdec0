// SPDX-License-Identifier: Apache-2.0
// The convolution kernels' door: shapes are checked here, once for all devices.

#include "kernels/convolution.h"

#include "kernels/common/shape_text.h"

namespace norn {
namespace {

template <typename T>
bool is_dense(const MatrixView<T>& m) {
  return m.stride == m.cols || m.rows <= 1;
}

bool has_copy(const DenseResult& y) {
  return y.bf16.data == nullptr ||
         (y.bf16.rows == y.rows() && y.bf16.cols == y.cols() && is_dense(y.bf16));
}

// Whether slopes can be read in x as dx is written.
bool are_outputs(const DenseOperand& x, const DenseResult& dx) {
  return x.rows() == dx.rows() && x.cols() == dx.cols() && is_dense(x.values) &&
         (!dx.is_bf16_alone() || (x.bf16.data != nullptr && is_dense(x.bf16)));
}

bool is_valid(const Window& window) {
  for (std::size_t a = 0; a < 3; ++a)
    if (window.in[a] < 1 || window.out[a] < 1 || window.kernel[a] < 1 || window.stride[a] < 1 ||
        window.padding[a] < 0)
      return false;
  return window.channels >= 1;
}

// Whether a source, filters and results are those of one window.
bool fit(const Window& window, const MatrixView<const float>& x,
         const MatrixView<const float>& filters, const MatrixView<const float>& z) {
  return is_valid(window) && x.cols == window.places() * window.channels &&
         filters.cols == window.channels * window.taps() &&
         z.cols == window.out_places() * filters.rows && x.rows == z.rows && is_dense(z) &&
         has_valid_stride(x) && has_valid_stride(filters);
}

}  // namespace

void ConvolutionKernels::forward(const Window& window, const DenseOperand& x,
                                 MatrixView<const float> filters, MatrixView<float> z,
                                 Existing existing) {
  require_fit(fit(window, x.values, filters, z), "convolution forward",
              "x [E x places*C], filters [K x C*taps], z [E x windows*K] without gaps", x.values,
              filters, z);
  if (!z.empty()) do_forward(window, x, filters, {}, z, existing);
}

void ConvolutionKernels::forward_from_bias(const Window& window, const DenseOperand& x,
                                           MatrixView<const float> filters,
                                           VectorView<const float> bias, MatrixView<float> z) {
  require_fit(fit(window, x.values, filters, z) && bias.size == filters.rows,
              "convolution forward_from_bias",
              "x [E x places*C], filters [K x C*taps], bias [K], z [E x windows*K] without gaps",
              x.values, filters, bias, z);
  if (!z.empty()) do_forward(window, x, filters, bias, z, Existing::overwrite);
}

bool ConvolutionKernels::forward_to_outputs(const Window& window, const DenseOperand& x,
                                            MatrixView<const float> filters,
                                            VectorView<const float> bias, const Activation& f,
                                            const DropoutMask& dropout, const DenseResult& y) {
  require_fit(fit(window, x.values, filters, y.values) && bias.size == filters.rows && has_copy(y),
              "convolution forward_to_outputs",
              "x [E x places*C], filters [K x C*taps], bias [K], y [E x windows*K] without gaps",
              x.values, filters, bias, y.values);
  return y.empty() || do_forward_to_outputs(window, x, filters, bias, f, dropout, y);
}

void ConvolutionKernels::input_delta(const Window& window, const DenseOperand& delta,
                                     MatrixView<const float> filters, MatrixView<float> dx,
                                     Existing existing) {
  require_fit(fit(window, dx, filters, delta.values), "convolution input_delta",
              "delta [E x windows*K] without gaps, filters [K x C*taps], dx [E x places*C]",
              delta.values, filters, dx);
  if (!dx.empty()) do_input_delta(window, delta, filters, dx, existing);
}

bool ConvolutionKernels::input_delta_through(const Window& window, const DenseOperand& delta,
                                             MatrixView<const float> filters, const Activation& f,
                                             float kept, const DenseOperand& x,
                                             const DenseResult& dx) {
  require_fit(fit(window, dx.values, filters, delta.values) && is_dense(dx.values) &&
                  has_copy(dx) && (x.cols() == 0 || are_outputs(x, dx)),
              "convolution input_delta_through",
              "delta [E x windows*K], filters [K x C*taps], x, dx [E x places*C], without gaps",
              delta.values, filters, x.values, dx.values);
  require(slope_from(f) == SlopeFrom::y, "convolution input_delta_through: a slope of outputs");
  return dx.empty() || do_input_delta_through(window, delta, filters, f, kept, x, dx);
}

void ConvolutionKernels::gradient(const Window& window, const DenseOperand& delta,
                                  const DenseOperand& x, float scale, MatrixView<float> term) {
  require_fit(fit(window, x.values, term, delta.values), "convolution gradient",
              "delta [E x windows*K] without gaps, x [E x places*C], term [K x C*taps]",
              delta.values, x.values, term);
  if (!term.empty()) do_gradient(window, delta, x, scale, term);
}

bool ConvolutionKernels::gradients(const Window& window, const DenseOperand& delta,
                                   const DenseOperand& x, std::span<const Range> runs, float scale,
                                   Index filters, MatrixView<float> terms) {
  const Index depth = window.channels * window.taps();
  const MatrixView<const float> term{nullptr, filters, depth, depth};
  require_fit(fit(window, x.values, term, delta.values) && Index(runs.size()) <= terms.rows &&
                  filters * depth <= terms.cols,
              "convolution gradients",
              "delta [E x windows*K] without gaps, x [E x places*C], terms [runs x K*C*taps]",
              delta.values, x.values, terms);
  for (const Range& run : runs)
    require(run.begin >= 0 && run.begin <= run.end && run.end <= x.rows(),
            "convolution gradients: a run is not of the examples");
  return do_gradients(window, delta, x, runs, scale, filters, terms);
}

void ConvolutionKernels::to_file_order(Index channels, const DenseOperand& from,
                                       MatrixView<float> to) {
  require_fit(channels >= 1 && from.cols() % channels == 0 && from.rows() == to.rows &&
                  from.cols() == to.cols && has_valid_stride(from.values) && has_valid_stride(to),
              "to_file_order", "from, to [E x P*C]", from.values, to);
  if (!to.empty()) do_to_file_order(channels, from, to);
}

void ConvolutionKernels::to_channels_last(Index channels, MatrixView<const float> from,
                                          MatrixView<float> to, Existing existing) {
  require_fit(channels >= 1 && from.cols % channels == 0 && from.rows == to.rows &&
                  from.cols == to.cols && has_valid_stride(from) && has_valid_stride(to),
              "to_channels_last", "from, to [E x P*C]", from, to);
  if (!to.empty()) do_to_channels_last(channels, from, to, existing);
}

}  // namespace norn
