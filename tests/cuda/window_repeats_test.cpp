// SPDX-License-Identifier: Apache-2.0
// The kernels of windows and of layers by example, 1000 times on the same input: one hash.
#include "kernels/precisions.h"
#include "tests/cuda/repeats.h"

namespace norn::test {
namespace {

Window image(UnitOrder order) {
  Window w;
  w.in = {19, 17, 1};
  w.out = {10, 9, 1};
  w.kernel = {3, 3, 1};
  w.stride = {2, 2, 1};
  w.padding = {1, 1, 0};
  w.channels = 24;
  w.order = order;
  return w;
}

TEST_F(RepeatsTest, Convolution) {
  const Window few = image(UnitOrder::channels_last);
  Window many = few;  // channels, as many windows as places: read where they stand in bf16
  many.out = many.in;
  many.stride = {1, 1, 1};
  many.channels = 72;  // turned in tf32 for gradients
  for (int round = 0; round < 2 * int(std::size(kPrecisions)); ++round) {
    const Precision precision = kPrecisions[round / 2].precision;
    const Window w = round % 2 == 0 ? few : many;
    const Index examples = 30, filters = 40, windows = w.out_places();
    const Index units = w.places() * w.channels;
    SCOPED_TRACE(name_of(precision));
    for (const char* what : {"forward", "input_delta", "gradient"}) {
      ConvolutionKernels& kernels = *use(precision).convolution;
      const MatrixView<const float> x = constant_matrix(examples, units);
      const MatrixView<const float> f = constant_matrix(filters, w.channels * w.taps());
      const MatrixView<const float> delta = constant_matrix(examples, windows * filters);
      const MatrixView<float> z = matrix(examples, windows * filters);
      const MatrixView<float> dx = matrix(examples, units);
      const MatrixView<float> term = matrix(filters, w.channels * w.taps());
      const std::string word = what;
      expect_one_hash(what, [&] {
        if (word == "forward") kernels.forward(w, x, f, z, Existing::add);
        if (word == "input_delta") kernels.input_delta(w, delta, f, dx, Existing::add);
        if (word == "gradient") kernels.gradient(w, delta, x, 0.5f, term);
      });
    }
  }
}

// Tiles of floats of every width: what is added to, what functions make and what slopes need.
TEST_F(RepeatsTest, ConvolutionToFloats) {
  Window w = image(UnitOrder::channels_last);
  w.out = w.in;
  w.stride = {1, 1, 1};
  for (const Precision precision : {Precision::tf32, Precision::bf16})
    for (const Index channels : {64, 96, 136})
      for (const Index filters : {64, 96, 136}) {
        w.channels = channels;
        ConvolutionKernels& kernels = *use(precision).convolution;
        const Index examples = 20, windows = w.out_places(), units = w.places() * w.channels;
        SCOPED_TRACE(testing::Message() << name_of(precision) << ", channels " << w.channels
                                        << ", filters " << filters);
        const MatrixView<const float> x = constant_matrix(examples, units);
        const MatrixView<const float> delta = constant_matrix(examples, windows * filters);
        const MatrixView<const float> f = constant_matrix(filters, w.channels * w.taps());
        const VectorView<const float> bias{constant(numbers(filters)), filters};
        const MatrixView<float> y = empty_matrix<float>(examples, windows * filters);
        const MatrixView<float> sums = matrix(examples, windows * filters);
        const MatrixView<float> dx = empty_matrix<float>(examples, units);
        expect_one_hash("to floats", [&] {
          kernels.forward_to_outputs(w, x, f, bias, Relu{}, {}, {y, {}});
          kernels.forward(w, x, f, sums, Existing::add);
          kernels.input_delta_through(w, delta, f, Relu{}, 1.0f, x, {dx, {}});
        });
      }
}

// Of turned images in tf32: runs together, and the last by itself.
TEST_F(RepeatsTest, GradientsOfRuns) {
  Window w = image(UnitOrder::channels_last);
  w.out = w.in;
  w.stride = {1, 1, 1};
  for (const Index channels : {32, 64, 72, 128})
    for (const Index filters : {40, 136}) {
      ConvolutionKernels& kernels = *use(Precision::tf32).convolution;
      w.channels = channels;
      const Index examples = 20, depth = w.channels * w.taps();
      SCOPED_TRACE(testing::Message() << "channels " << channels << ", filters " << filters);
      const MatrixView<const float> x = constant_matrix(examples, w.places() * w.channels);
      const MatrixView<const float> delta = constant_matrix(examples, w.out_places() * filters);
      const MatrixView<float> terms = matrix(3, filters * depth);
      const std::vector<Range> runs{{0, 8}, {8, 16}, {16, 20}};
      expect_one_hash("in tf32", [&] {
        if (!kernels.gradients(w, delta, x, runs, 0.5f, filters, terms))
          kernels.gradient(w, delta, x, 0.5f, {terms.row(0), filters, depth, depth});
      });
    }
}

// Read where they stand, without and with strides; images that are written out and folded.
TEST_F(RepeatsTest, ConvolutionInBf16Alone) {
  if (!use(Precision::bf16).computes_in_bf16) GTEST_SKIP() << "this GPU does not compute in bf16";
  Window reads = image(UnitOrder::channels_last), strides = reads, written = reads, folded;
  reads.out = reads.in;
  reads.stride = {1, 1, 1};
  reads.channels = strides.channels = 72;
  written = reads;
  written.channels = 3;
  written.order = UnitOrder::file;
  folded = written;
  folded.out = {5, 5, 1};
  folded.stride = {4, 4, 1};
  for (const Window& w : {reads, strides, written, folded})
    for (const Index filters : {40, 96, 136}) {
      ConvolutionKernels& kernels = *use(Precision::bf16).convolution;
      const Index examples = 20, windows = w.out_places(), units = w.places() * w.channels;
      SCOPED_TRACE(testing::Message() << "stride " << w.stride[0] << ", channels " << w.channels
                                      << ", filters " << filters);
      const auto alone = [](Index rows, Index cols, MatrixView<Bfloat16> bf16) {
        return DenseResult({nullptr, rows, cols, cols}, bf16);
      };
      const DenseOperand x = operand(examples, units), delta = operand(examples, windows * filters);
      const MatrixView<const float> f = constant_matrix(filters, w.channels * w.taps());
      const VectorView<const float> bias{constant(numbers(filters)), filters};
      const DenseResult y =
          alone(examples, windows * filters, empty_matrix<Bfloat16>(examples, windows * filters));
      const DenseResult dx = alone(examples, units, empty_matrix<Bfloat16>(examples, units));
      DropoutMask dropout = DropoutMask::inverted(0.3f, {1, 2}, 7, 0);
      dropout.places = windows;
      const Index depth = w.channels * w.taps();
      const MatrixView<float> terms = matrix(3, filters * depth);
      const std::vector<Range> runs{{0, 8}, {8, 16}, {16, 20}};
      expect_one_hash("in bf16", [&] {
        kernels.forward_to_outputs(w, x, f, bias, Relu{}, dropout, y);
        kernels.gradients(w, delta, x, runs, 0.5f, filters, terms);
        kernels.gradient(w, delta, x, 0.5f, {terms.row(0), filters, depth, depth});
        if (w.channels > 4) kernels.input_delta_through(w, delta, f, Relu{}, 1.25f, x, dx);
      });
    }
}

TEST_F(RepeatsTest, PoolingInBf16Alone) {
  const Window slides = image(UnitOrder::channels_last);
  Window places = slides;
  places.out = places.in;
  places.kernel = places.stride = {1, 1, 1};
  places.padding = {0, 0, 0};
  for (const Pooling& pooling :
       {Pooling(MaxPooling{}), Pooling(AveragePooling{}), Pooling(LocalResponseNormalization{})}) {
    Kernels& kernels = use(Precision::bf16);
    const Window& w = pooling.index() < 2 ? slides : places;
    const Index examples = 30, units = w.places() * w.channels;
    const Index results = w.out_places() * w.channels;
    const auto alone = [](const DenseOperand& x) {
      return DenseOperand({nullptr, x.rows(), x.cols(), x.cols()}, x.bf16);
    };
    const PoolingSource sources[] = {{w, alone(operand(examples, units))}};
    const DenseOperand delta = alone(operand(examples, results));
    const DenseResult y({nullptr, examples, results, results},
                        empty_matrix<Bfloat16>(examples, results));
    const DenseResult dx({nullptr, examples, units, units},
                         empty_matrix<Bfloat16>(examples, units));
    const MatrixView<double> of_runs = empty_matrix<double>(1, results);
    const VectorView<FixedSum> sums = zeros<FixedSum>(results);
    expect_one_hash("in bf16", [&] {
      kernels.pooling->forward(pooling, sources, y);
      kernels.pooling->backward_through(pooling, sources, 0, delta, Relu{}, dx);
      kernels.run_sums->sum_columns(delta, {}, std::vector<Range>{{0, examples}}, of_runs, sums);
    });
  }
}

TEST_F(RepeatsTest, Pooling) {
  const Window file = image(UnitOrder::file);
  Window last = image(UnitOrder::channels_last), places = file;
  places.out = places.in;
  places.kernel = places.stride = {1, 1, 1};
  places.padding = {0, 0, 0};
  const Index examples = 30, units = file.places() * file.channels;
  for (const Pooling& pooling : {Pooling(MaxPooling{}), Pooling(AveragePooling{}),
                                 Pooling(LocalResponseNormalization{}), Pooling(Maxout{})}) {
    PoolingKernels& kernels = *use(Precision::tf32).pooling;
    const bool slides = pooling.index() < 2;
    last = slides ? image(UnitOrder::channels_last) : places;
    last.order = UnitOrder::channels_last;
    const PoolingSource sources[] = {{slides ? file : places, constant_matrix(examples, units)},
                                     {last, constant_matrix(examples, units)}};
    const Index results = last.out_places() * last.channels;
    const MatrixView<const float> delta = constant_matrix(examples, results);
    const MatrixView<float> y = matrix(examples, results), dx = matrix(examples, units);
    expect_one_hash("forward and backward", [&] {
      kernels.forward(pooling, sources, y);
      kernels.backward(pooling, sources, 1, delta, dx, Existing::add);
    });
  }
  PoolingKernels& kernels = *use(Precision::tf32).pooling;
  const PoolingSource first{file, constant_matrix(examples, units)};
  const PoolingSource second{last, constant_matrix(examples, units)};
  const auto sums_of = [&] { return zeros<FixedSum>(examples); };
  const PairSums<FixedSum> sums{sums_of(), sums_of(), sums_of()};
  const MatrixView<float> y = matrix(examples, 1), dx = matrix(examples, units);
  expect_one_hash("similarity", [&] {
    kernels.add_pair_sums(first, second, sums);
    kernels.compare(Similarity::cosine, sums, y);
    kernels.compare_backward(Similarity::cosine, sums, y, first, second, dx, Existing::add);
  });
}

TEST_F(RepeatsTest, RunSums) {
  Kernels& kernels = use(Precision::tf32);
  const Index units = 70, rows = 9000;
  const std::vector<Range> runs = {{0, 1}, {1, 3000}, {3000, 4500}, {4500, rows}};
  const MatrixView<const float> a = constant_matrix(rows, units), b = constant_matrix(rows, units);
  const MatrixView<float> z = matrix(rows, units), normalised = matrix(rows, units);
  const MatrixView<float> delta = matrix(rows, units);
  const MatrixView<double> of_runs = empty_matrix<double>(Index(runs.size()), 2 * units);
  const VectorView<FixedSum> sums = zeros<FixedSum>(2 * units);
  const auto vector = [&] { return zeros<float>(units); };
  const VectorView<float> mean = vector(), variance = vector(), inverse = vector();
  const VectorView<float> slope = vector(), bias = vector(), values = zeros<float>(2 * units);
  const VectorView<const float> scale{constant(numbers(units)), units};
  const VectorView<float> sum = zeros<float>(rows * units);
  expect_one_hash("sums and normalisation", [&] {
    kernels.run_sums->sum_columns(a, b, runs, of_runs, sums);
    kernels.run_sums->to_float(sums, 0.5, values);
    kernels.run_sums->add_terms(
        std::vector<VectorView<const float>>{{a.data, a.size()}, {b.data, b.size()}}, sum);
    kernels.normalization->normalise_rows({scale, scale, mean, variance}, sums, rows, z, normalised,
                                          inverse);
    kernels.normalization->normalise_rows_backward(scale, sums, rows, rows / 9, normalised, inverse,
                                                   delta, slope, bias);
  });
}

}  // namespace
}  // namespace norn::test
