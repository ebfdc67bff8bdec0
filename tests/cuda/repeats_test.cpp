// SPDX-License-Identifier: Apache-2.0
// Every kernel of every family, 1000 times on the same input: one hash.
#include "tests/cuda/repeats.h"

#include "kernels/precisions.h"

namespace norn::test {
namespace {

const Philox kRandom{0x1234567u, 0x89ABCDEFu};

TEST_F(RepeatsTest, Dense) {
  for (const NamedPrecision& named : kPrecisions) {
    const Precision precision = named.precision;
    SCOPED_TRACE(named.name);
    const auto dense = [&]() -> DenseKernels& { return *use(precision).dense; };
    {
      DenseKernels& kernels = dense();
      const DenseOperand x = operand(250, 520);
      const DenseOperand w = operand(700, 520);
      const MatrixView<float> z = matrix(250, 700);
      expect_one_hash("multiply_transposed",
                      [&] { kernels.multiply_transposed(x, w, z, Existing::add); });
    }
    {
      DenseKernels& kernels = dense();
      const DenseOperand x = operand(250, 520);
      const DenseOperand w = operand(700, 520);
      const VectorView<const float> bias{constant(numbers(700)), 700};
      const MatrixView<float> z = matrix(250, 700);
      expect_one_hash("affine", [&] { kernels.affine(x, w, bias, z); });
    }
    {
      // A long sum for few results: the library splits it.
      DenseKernels& kernels = dense();
      const DenseOperand delta = operand(130, 6000);
      const DenseOperand w = operand(6000, 136);
      const MatrixView<float> dx = matrix(130, 136);
      expect_one_hash("multiply", [&] { kernels.multiply(delta, w, dx); });
    }
    {
      DenseKernels& kernels = dense();
      const DenseOperand delta = operand(2000, 150);
      const DenseOperand x = operand(2000, 264);
      const MatrixView<float> g = matrix(150, 264);
      expect_one_hash("gradient", [&] { kernels.gradient(delta, x, 0.25f, g); });
    }
  }
}

TEST_F(RepeatsTest, Sparse) {
  Kernels& kernels = use(Precision::tf32);
  const Index examples = 200, sources = 900, units = 260;
  {
    const CsrView x = sparse(examples, sources, 40, true);
    const MatrixView<const float> w = constant_matrix(sources, units);
    const MatrixView<float> z = matrix(examples, units);
    expect_one_hash("multiply", [&] { kernels.sparse->multiply(x, w, z); });
  }
  for (const char* what :
       {"gradient", "update_rows", "catch_up", "catch_up of a batch", "mark_done"}) {
    const CsrView x = sparse(examples, sources, 40, false);
    TransposedBatch xt;
    kernels.queue->run([&] { kernels.sparse->transpose(x, xt); });
    const MatrixView<const float> delta = constant_matrix(examples, units);
    RowState rows;
    rows.w = matrix(sources, units);
    rows.slot = {matrix(sources, units), matrix(sources, units, 0.0f, 1.0f)};
    std::vector<std::int64_t> done(static_cast<std::size_t>(sources));
    for (std::size_t i = 0; i < done.size(); ++i) done[i] = std::int64_t(i % 7);
    rows.steps_done = {array(done), sources};
    const UpdateSchedule schedule{.rate = 0.01f, .l2 = 1e-3f, .l1 = 1e-4f};
    const std::string word = what;
    expect_one_hash(what, [&] {
      if (word == "gradient") kernels.sparse->gradient(xt, delta, 0.5f, rows.w);
      if (word == "update_rows")
        kernels.sparse->update_rows(Adam{}, schedule, 8, xt, delta, 0.5f, rows);
      if (word == "catch_up") kernels.sparse->catch_up(Adam{}, schedule, 8, rows);
      if (word == "catch_up of a batch") kernels.sparse->catch_up(Adam{}, schedule, 8, xt, rows);
      if (word == "mark_done") kernels.sparse->mark_done(xt, 8, rows.steps_done);
    });
  }
}

// Transposing a batch, seen through the gradient that follows from it.
TEST_F(RepeatsTest, Transpose) {
  Kernels& kernels = use(Precision::fp32);
  const CsrView x = sparse(300, 1200, 60, true);
  const MatrixView<const float> delta = constant_matrix(300, 8);
  const MatrixView<float> g = matrix(1200, 8);
  TransposedBatch xt;
  expect_one_hash("transpose", [&] {
    kernels.sparse->transpose(x, xt);
    kernels.sparse->gradient(xt, delta, 1.0f, g);
  });
}

TEST_F(RepeatsTest, Batch) {
  Kernels& kernels = use(Precision::fp32);
  {
    const CsrView x = sparse(300, 900, 60, true);
    std::vector<Index> number(300);
    for (std::size_t i = 0; i < number.size(); ++i) number[i] = Index(7 * i);
    const VectorView<const Index> examples{constant(number), 300};
    const VectorView<const float> weight{constant(numbers(300)), 300};
    const MatrixView<const float> w = constant_matrix(900, 16);
    const MatrixView<float> z = matrix(300, 16);
    CsrBuffer prepared;
    InputPreparation preparation{true, 0.4f, kRandom, 3};
    expect_one_hash("prepare", [&] {
      kernels.batch->prepare(x, weight, examples, preparation, prepared);
      kernels.sparse->multiply(prepared.view(), w, z);
    });
  }
  {
    const MatrixView<const float> data = constant_matrix(200, 300);
    const VectorView<const float> weight{constant(numbers(200)), 200};
    const MatrixView<float> x = matrix(200, 310);
    expect_one_hash("prepare_dense", [&] { kernels.batch->prepare_dense(data, weight, true, x); });
  }
  {
    const MatrixView<float> y = matrix(200, 300);
    expect_one_hash("dropout",
                    [&] { kernels.batch->mask(DropoutMask::inverted(0.3f, kRandom, 5, 7), y, y); });
  }
  const MatrixView<float> y = matrix(200, 300);
  expect_one_hash("alpha_dropout", [&] {
    kernels.batch->mask(DropoutMask::alpha(0.3f, -1.7f, kRandom, 5, 7), y, y);
    kernels.batch->mask(DropoutMask::alpha(0.3f, -1.7f, kRandom, 5, 7).slope(), y, y);
    kernels.batch->mask(DropoutMask::inverted(0.2f, kRandom, 5, 7).slope(), y, y);
  });
}

TEST_F(RepeatsTest, Pointwise) {
  Kernels& kernels = use(Precision::bf16);
  PointwiseKernels& pointwise = *kernels.pointwise;
  const auto row = [&] { return VectorView<const float>{constant(numbers(333)), 333}; };
  const auto check = [&](const char* name, const auto& run) {
    const VectorView<const float> bias = row();
    const MatrixView<const float> x = constant_matrix(1500, 333);
    const MatrixView<float> z = matrix(1500, 333);
    expect_one_hash(name, [&] { run(bias, x, z); });
  };
  check("set_rows", [&](auto bias, auto, auto z) { pointwise.set_rows(bias, z); });
  check("add", [&](auto, auto x, auto z) { pointwise.add(x, z); });
  check("copy", [&](auto, auto x, auto z) { pointwise.copy(x, z); });
  check("scale", [&](auto, auto, auto z) { pointwise.scale(0.7f, z); });
  check("activate", [&](auto, auto, auto z) { pointwise.activate(Tanh{}, z); });
  check("multiply_slope", [&](auto, auto x, auto z) { pointwise.multiply_slope(Sigmoid{}, x, z); });
  check("softmax_rows", [&](auto, auto, auto z) { pointwise.softmax_rows(z); });
  check("softmax_rows_backward",
        [&](auto, auto x, auto z) { pointwise.softmax_rows_backward(x, z); });
  const MatrixView<const float> x = constant_matrix(1500, 333);
  const MatrixView<Bfloat16> bf16 = empty_matrix<Bfloat16>(1500, 333);
  const VectorView<float> sum = zeros<float>(333);
  const VectorView<float> bf16_sum = zeros<float>(333);
  expect_one_hash("round and sum_columns", [&] {
    pointwise.cast_to_bf16(x, bf16);
    pointwise.sum_columns(x, 0.5f, sum);
    pointwise.sum_columns(bf16, 0.5f, bf16_sum);
  });
}

TEST_F(RepeatsTest, Fixed) {
  Kernels& kernels = use(Precision::fp32);
  PartialSums partial_sums;
  for (; partial_sums.count < PartialSums::kMost; ++partial_sums.count)
    partial_sums.of[partial_sums.count] = constant_matrix(400, 333);
  FixedMatrixView sum;
  sum.fine = empty_matrix<std::int64_t>(400, 333);
  sum.coarse = empty_matrix<std::int64_t>(400, 333);
  sum.coarse_used = zeros<std::int64_t>(1).data;
  sum.out_of_range = zeros<std::int64_t>(1).data;
  FixedMatrixView no_accumulators;
  no_accumulators.out_of_range = sum.out_of_range;
  FixedFormat* format = array(std::vector<FixedFormat>{FixedFormat::for_maximum(1e-5, 8)});
  const MatrixView<float> value = empty_matrix<float>(400, 333);
  const MatrixView<float> value_of_partial_sums = empty_matrix<float>(400, 333);
  float* maximum = zeros<float>(2).data;
  expect_one_hash("add, to_float, adapt", [&] {
    kernels.fixed->add(format, partial_sums.of[0], sum);
    kernels.fixed->add(format, partial_sums, sum);
    kernels.fixed->to_float(format, sum, value, maximum);
    kernels.fixed->to_float(format, no_accumulators, partial_sums, value_of_partial_sums,
                            maximum + 1);
    kernels.fixed->adapt(maximum, 8, format);
  });
}

TEST_F(RepeatsTest, Normalization) {
  Kernels& kernels = use(Precision::fp32);
  NormalizationKernels& normalization = *kernels.normalization;
  {
    BatchNormView norm;
    norm.scale = {constant(numbers(200)), 200};
    norm.bias = {constant(numbers(200)), 200};
    norm.running_mean = zeros<float>(200);
    norm.running_variance = zeros<float>(200);
    const MatrixView<float> z = matrix(1200, 200);
    const MatrixView<float> normalised = matrix(1200, 200);
    const MatrixView<float> delta = matrix(1200, 200);
    const VectorView<float> deviation = zeros<float>(200);
    const VectorView<float> g1 = zeros<float>(200);
    const VectorView<float> g2 = zeros<float>(200);
    expect_one_hash("batch_norm", [&] {
      normalization.batch_norm(norm, z, normalised, deviation);
      normalization.batch_norm_backward(norm.scale, normalised, deviation, delta, g1, g2);
      normalization.batch_norm_predict(norm, z);
    });
  }
  const MatrixView<float> y = matrix(1200, 200, 0.1f, 0.9f);
  const MatrixView<float> delta = matrix(1200, 200);
  const VectorView<FixedSum> squares = zeros<FixedSum>(1200);
  expect_one_hash("sparseness_penalty, add_row_squares, clip_rows", [&] {
    normalization.sparseness_penalty(0.1f, 2.0f, y, delta);
    normalization.add_row_squares(delta, squares);
    normalization.clip_rows(1.0f, squares, delta);
  });
}

TEST_F(RepeatsTest, Cost) {
  Kernels& kernels = use(Precision::bf16);
  const Index examples = 150, units = 1100;
  for (const Loss& loss : {Loss{CrossEntropy{}}, Loss{SquaredError{}}}) {
    TargetView target;
    target.sparse = sparse(examples, units, 50, true);
    const MatrixView<float> z = matrix(examples, units, -6.0f, 6.0f);
    const MatrixView<Bfloat16> bf16 = empty_matrix<Bfloat16>(examples, units);
    double* cost = zeros<double>(1).data;
    expect_one_hash("delta", [&] {
      kernels.cost->delta({Sigmoid{}, loss}, target, 0, z, cost, bf16);
    });
  }
}

TEST_F(RepeatsTest, SoftMaxCost) {
  Kernels& kernels = use(Precision::bf16);
  CostKernels& cost = *kernels.cost;
  const Index examples = 150, units = 1100;
  for (const Loss& loss : {Loss{CrossEntropy{}}, Loss{SquaredError{}}}) {
    TargetView target;
    target.sparse = sparse(examples, units, 50, false);
    const MatrixView<float> z = matrix(examples, units, -6.0f, 6.0f);
    const MatrixView<float> y = matrix(examples, units, -6.0f, 6.0f);
    const MatrixView<Bfloat16> bf16 = empty_matrix<Bfloat16>(examples, units);
    const MatrixView<float> maxima = empty_matrix<float>(1, examples);
    const MatrixView<float> sums = empty_matrix<float>(1, examples);
    const VectorView<float> maximum = zeros<float>(examples);
    const VectorView<std::int64_t> total = zeros<std::int64_t>(examples);
    const VectorView<std::int64_t> coupling = zeros<std::int64_t>(examples);
    std::int64_t* out_of_range = zeros<std::int64_t>(1).data;
    double* of_block = zeros<double>(1).data;
    const SoftMaxRows rows{maximum, total, coupling};
    const norn::SoftMaxCost rule{loss, TargetWeight::one};
    expect_one_hash("softmax", [&] {
      cost.softmax_statistics(z, {maxima.data, examples}, {sums.data, examples});
      cost.softmax_maximum(maxima, maximum);
      cost.softmax_total(maxima, sums, maximum, total, out_of_range);
      if (CostKernels::coupling_from_targets(rule))
        cost.softmax_coupling(rule, target, coupling, out_of_range);
      else
        cost.softmax_coupling(rule, target, 0, z, rows, coupling, out_of_range);
      cost.softmax_delta(rule, target, 0, rows, z, of_block, bf16);
      cost.softmax_values(rows, y);
    });
  }
}

template <std::size_t... I>
std::vector<UpdateRule> all_rules(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, UpdateRule>{}...};
}

TEST_F(RepeatsTest, Update) {
  Kernels& kernels = use(Precision::bf16);
  const UpdateStep step{0.01f, 1e-3f, 1e-4f, 1.5f, 2.0f};
  for (const UpdateRule& rule :
       all_rules(std::make_index_sequence<std::variant_size_v<UpdateRule>>())) {
    const MatrixView<float> w = matrix(500, 264);
    const MatrixView<const float> g = constant_matrix(500, 264);
    SlotViews slots;
    for (MatrixView<float>& slot : slots) slot = matrix(500, 264, 0.1f, 1.0f);
    const WeightView halves{empty_matrix<Bfloat16>(500, 264), empty_matrix<std::int16_t>(500, 264)};
    expect_one_hash("update", [&] {
      kernels.update->update(rule, step, w, g, slots);
      kernels.update->update(rule, step, halves, g, slots);
    });
  }
  const MatrixView<float> w = matrix(500, 264);
  expect_one_hash("initialise", [&] {
    kernels.update->initialise(Xavier{}, kRandom, {true, 0, 0, 264, 500}, w);
  });
  const MatrixView<float> v = matrix(500, 264);
  const WeightView halves{empty_matrix<Bfloat16>(500, 264), empty_matrix<std::int16_t>(500, 264)};
  double* norms = zeros<double>(2).data;
  const VectorView<double> of_rows = zeros<double>(500);
  const VectorView<double> of_columns = zeros<double>(264);
  expect_one_hash("norms and clips", [&] {
    kernels.update->split(v, halves);
    kernels.update->norms(halves, norms, norms + 1);
    kernels.update->join(halves, v);
    kernels.update->clip_row_norms(5.0f, v);
    kernels.update->clip_column_norms(4.0f, v);
    kernels.update->add_row_squares(v, of_rows);
    kernels.update->add_column_squares(v, of_columns);
    kernels.update->scale_rows(3.0f, of_rows, v);
    kernels.update->scale_columns(2.0f, of_columns, v);
  });
}

TEST_F(RepeatsTest, Select) {
  Kernels& kernels = use(Precision::fp32);
  const Index examples = 120, units = 3000, k = 50;
  const CsrView excluded = sparse(examples, units, 30, false);
  const CsrView factors = sparse(examples, units, 30, true);
  const MatrixView<float> score = matrix(examples, units);
  const MatrixView<float> best_scores = empty_matrix<float>(examples, k);
  TopK best, other;
  expect_one_hash("merge, multiply", [&] {
    kernels.select->begin(examples, k, best);
    kernels.select->begin(examples, k, other);
    kernels.select->multiply(factors, 0, score);
    kernels.select->merge(score.columns(0, 1000), 0, {excluded, {}}, best);
    kernels.select->merge(score.columns(1000, 2000), 1000, {excluded, {}}, other);
    kernels.select->merge(other, best);
    kernels.pointwise->copy(best.score.view(), best_scores);
  });
}

TEST_F(RepeatsTest, FusedOutput) {
  Kernels& kernels = use(Precision::bf16);
  const Index examples = 300, units = 1032, width = 200;
  OutputBlock block;
  block.x = operand(examples, width);
  block.w = operand(units, width);
  block.bias = {constant(numbers(units)), units};
  block.rule = UnitCost{Sigmoid{}, ScaledMarginalCrossEntropy{}};
  block.target.sparse = sparse(examples, units, 50, false);
  block.delta = {nullptr, examples, units, units};
  block.bf16_delta = empty_matrix<Bfloat16>(examples, units);
  block.cost = zeros<double>(1).data;
  expect_one_hash("output_delta", [&] {
    ASSERT_TRUE(kernels.fused->output_delta(block));
    kernels.fused->add_totals();
  });
}

TEST_F(RepeatsTest, FusedSoftMax) {
  Kernels& kernels = use(Precision::bf16);
  const Index examples = 300, units = 1032, width = 200;
  const SoftMaxCost rule{CrossEntropy{}};
  OutputBlock block;
  block.x = operand(examples, width);
  block.w = operand(units, width);
  block.bias = {constant(numbers(units)), units};
  block.rule = rule;
  block.target.sparse = sparse(examples, units, 50, false);
  block.delta = {nullptr, examples, units, units};
  block.bf16_delta = empty_matrix<Bfloat16>(examples, units);
  block.cost = zeros<double>(1).data;
  const MatrixView<float> maxima = empty_matrix<float>(1, examples);
  const MatrixView<float> sums = empty_matrix<float>(1, examples);
  const VectorView<float> maximum = zeros<float>(examples);
  const VectorView<std::int64_t> total = zeros<std::int64_t>(examples);
  const VectorView<std::int64_t> coupling = zeros<std::int64_t>(examples);
  std::int64_t* out_of_range = zeros<std::int64_t>(1).data;
  expect_one_hash("softmax_statistics, softmax_rows, output_delta", [&] {
    ASSERT_TRUE(kernels.fused->softmax_statistics(block, maxima, sums));
    kernels.cost->softmax_maximum(maxima, maximum);
    kernels.cost->softmax_total(maxima, sums, maximum, total, out_of_range);
    kernels.cost->softmax_coupling(rule, block.target, coupling, out_of_range);
    kernels.fused->softmax_rows(rule, block.target, {maximum, total, coupling});
    ASSERT_TRUE(kernels.fused->output_delta(block));
    kernels.fused->add_totals();
  });
}

TEST_F(RepeatsTest, FusedUpdate) {
  for (Precision precision : {Precision::tf32, Precision::bf16}) {
    Kernels& kernels = use(precision);
    const UpdateRule rule = precision == Precision::bf16 ? UpdateRule{Adam{}} : UpdateRule{Sgd{}};
    const DenseOperand delta = operand(700, 1032);
    const DenseOperand x = operand(700, 264);
    WeightView w = matrix(1032, 264);
    if (precision == Precision::bf16)
      w = {empty_matrix<Bfloat16>(1032, 264), empty_matrix<std::int16_t>(1032, 264)};
    const SlotViews slots{matrix(1032, 264), matrix(1032, 264, 0.1f, 1.0f)};
    const UpdateStep step{0.01f, 0.0f, 0.0f, 1.5f, 2.0f};
    expect_one_hash("update", [&] {
      ASSERT_TRUE(kernels.fused->update(rule, step, delta, x, 1e-3f, w, slots));
    });
  }
}

// Stored targets and rows of V.
TEST_F(RepeatsTest, FactoredRows) {
  using As = FactoredKernels::As;
  const Index examples = 200, units = 900;
  const std::vector<std::pair<const char*, Index>> cases = {
      {"read", 150}, {"update", 150}, {"fold", 150}, {"fold", 129},
      {"fold", 300}, {"values", 150}, {"gram", 150}, {"product", 150}};
  for (const auto& [what, width] : cases) {
    FactoredKernels& kernels = *use(Precision::tf32).factored;
    TargetLists lists;
    const CsrView targets = sparse(examples, units, 40, true);
    const FactorView<float> v{matrix(units, width - 1), {array(numbers(units)), units}};
    std::vector<double> numbers_of_h;
    for (float x : numbers(examples * width)) numbers_of_h.push_back(double(x));
    const MatrixView<const double> h{constant(numbers_of_h), examples, width, width};
    const MatrixView<double> u = empty_matrix<double>(width, width);
    const VectorView<double> r = zeros<double>(targets.entry_limit);
    const VectorView<double> cost = zeros<double>(targets.entry_limit);
    const MatrixView<FixedSum> sums = empty_matrix<FixedSum>(examples, width);
    const MatrixView<FixedSum> gram = empty_matrix<FixedSum>(width, width);
    const MatrixView<float> z = empty_matrix<float>(examples, units);
    const VectorView<double> needed = zeros<double>(1);
    const std::string word = what;
    expect_one_hash(what, [&] {
      kernels.list(targets, {0, units}, lists);
      kernels.read_entries(lists, v, h, {}, 100, r, cost, sums);
      kernels.multiply(1e-3, h, As::transposed, h, As::it_is, Existing::overwrite, u);
      kernels.store(1.0, needed.data);
      if (word == "update") kernels.update_rows(lists, r, 0.01, h, v);
      if (word == "update") kernels.sum_rows(lists, v, r, 100, sums);
      if (word == "fold") kernels.fold(u, 100, needed.data, v);
      if (word == "values") kernels.values(h, v, z);
      if (word == "gram") kernels.add_gram(v, gram);
      if (word == "product") kernels.product(v, u, {3, 100}, {z.data, units, 97, 97});
    });
  }
}

// Matrices of the batch and of the source's width.
TEST_F(RepeatsTest, FactoredMatrices) {
  using As = FactoredKernels::As;
  const Index rows = 400, width = 150;
  FactoredKernels& kernels = *use(Precision::tf32).factored;
  std::vector<double> numbers_of_h;
  for (float x : numbers(rows * width)) numbers_of_h.push_back(double(x));
  const MatrixView<const double> h{constant(numbers_of_h), rows, width, width};
  const auto square = [&] { return empty_matrix<double>(width, width); };
  const MatrixView<double> hh = square(), a = square(), b = square(), x = square(), y = square();
  const VectorView<double> least = zeros<double>(3), sums = zeros<double>(rows);
  const MatrixView<double> step = empty_matrix<double>(rows, width);
  expect_one_hash("factors", [&] {
    kernels.multiply(0.01, h, As::transposed, h, As::it_is, Existing::overwrite, hh);
    kernels.damp({hh, 0.1}, 0.5, hh, a);
    kernels.damp({}, 0.5, hh, b);
    kernels.factorize(a, b, least);
    kernels.solve(a, hh, x);
    kernels.solve(b, hh, y);
    kernels.multiply(1.0, h, As::it_is, x, As::it_is, Existing::overwrite, step);
    kernels.add_to_rows(h, 0.5, h, step, sums);
    kernels.look(y, 1e-3, least.data + 2);
    kernels.add_symmetric(0.5, x, hh);
    kernels.fold_gram(least.data + 2, x, y, hh);
  });
}

}  // namespace
}  // namespace norn::test
