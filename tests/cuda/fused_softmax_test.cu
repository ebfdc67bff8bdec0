// SPDX-License-Identifier: Apache-2.0
// Both passes over a SoftMax layer inside its product, in bfloat16 and in tf32, against float64
// sums of the same operands, whose values both formats hold.
#include "kernels/cost.h"
#include "src/tensor/buffer.h"
#include "tests/cuda/fused_support.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace norn {
namespace {

constexpr float kBiasScale = 0.375f;

Index round_up(Index value, Index multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct LayerProblem {
  Shape shape;
  Padded<float> x, w, delta, transposed;
  Padded<Bfloat16> bf16_x, bf16_w, bf16_delta;
  std::vector<float> bias, weight, value;
  std::vector<float> entry_weight;  ///< of the stored targets, where has_entry_weights
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;
  Index first_unit = 1000;
  bool has_values = true;
  bool is_weighted = true;
  bool has_entry_weights = false;
};

/// What comes of it.
struct Evaluated {
  std::vector<float> maximum, sum;  ///< [blocks x B]
  std::vector<double> costs;        ///< of the blocks
  std::vector<float> gradient;      ///< of the biases
  std::vector<float> delta;         ///< [B x W]
  bool operator==(const Evaluated&) const = default;
};

class FusedSoftMaxTest : public FusedTest, public ::testing::WithParamInterface<Precision> {
 protected:
  bool rounds() const { return GetParam() == Precision::bf16; }

  void fill(Padded<float>& values, Padded<Bfloat16>& bf16, Index rows, Index cols,
            float deviation) {
    values = Padded<float>(rows, round_up(cols, 8), memory_);
    bf16 = Padded<Bfloat16>(rows, round_up(cols, 8), memory_);
    std::normal_distribution<float> normal(0.0f, deviation);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) {
        bf16(r, c) = Bfloat16::rounded(normal(random_));
        values(r, c) = bf16(r, c).value();
      }
    values.send();
    bf16.send();
  }
  LayerProblem draw(const Shape& shape, int stored, float deviation = 2.0f) {
    LayerProblem p;
    p.shape = shape;
    fill(p.x, p.bf16_x, shape.examples, shape.width, 1.0f);
    fill(p.w, p.bf16_w, shape.units, shape.width, deviation / std::sqrt(float(shape.width)));
    p.delta = Padded<float>(shape.examples, round_up(shape.units, 8), memory_);
    p.transposed = Padded<float>(shape.units, round_up(shape.examples, 8), memory_);
    p.bf16_delta = Padded<Bfloat16>(shape.examples, round_up(shape.units, 8), memory_);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (Index i = 0; i < shape.units; ++i) p.bias.push_back(uniform(random_));
    for (Index b = 0; b < shape.examples; ++b) {
      p.weight.push_back(1.5f + uniform(random_));
      std::set<Column> columns;  // some are another rank's
      for (int i = 0; i < stored; ++i)
        columns.insert(
            Column(p.first_unit - 20 + Index(random_() % std::uint64_t(shape.units + 40))));
      p.column.insert(p.column.end(), columns.begin(), columns.end());
      p.row_begin.push_back(RowOffset(p.column.size()));
    }
    for (std::size_t i = 0; i < p.column.size(); ++i) p.value.push_back(1.2f + uniform(random_));
    for (std::size_t i = 0; i < p.column.size(); ++i)
      p.entry_weight.push_back(i % 9 == 0 ? 0.0f : 2.0f + 2.0f * uniform(random_));
    return p;
  }

  /// A problem on the device, and where its results come to stand.
  struct OnDevice {
    SoftMaxCost rule;
    LayerProblem& p;
    Index width;  ///< of a block
    Buffer<float> bias, weight, value, entry_weight;
    Buffer<RowOffset> row_begin;
    Buffer<Column> column;
    Matrix<float> maxima, sums;
    Buffer<double> costs;
    Buffer<float> gradient;
    TargetView target;
    Index blocks() const { return maxima.view().rows; }
  };
  OnDevice send(const SoftMaxCost& rule, LayerProblem& p, Index width) {
    const Index blocks = (p.shape.units + width - 1) / width;
    OnDevice d{rule,
               p,
               width,
               on_gpu(p.bias),
               on_gpu(p.weight),
               on_gpu(p.value),
               on_gpu(p.entry_weight),
               on_gpu(p.row_begin),
               on_gpu(p.column),
               Matrix<float>(blocks, p.shape.examples, memory_),
               Matrix<float>(blocks, p.shape.examples, memory_),
               Buffer<double>(blocks, memory_),
               Buffer<float>(p.shape.units, memory_),
               {}};
    d.target.sparse = {d.row_begin.data(),
                       d.column.data(),
                       p.has_values ? d.value.data() : nullptr,
                       p.shape.examples,
                       p.first_unit + p.shape.units + 20,
                       Index(p.column.size())};
    if (p.is_weighted) d.target.weight = d.weight.view();
    if (p.has_entry_weights) d.target.entry_weight = d.entry_weight.data();
    p.delta.send();
    p.transposed.send();
    p.bf16_delta.send();
    return d;
  }
  OutputBlock block_of(OnDevice& d, Index first, Index count) const {
    LayerProblem& p = d.p;
    const Index depth = p.shape.width;
    OutputBlock block;
    block.x = {p.x.view().columns(0, depth), p.bf16_x.view().columns(0, depth)};
    block.w = {p.w.view().row_range(first, count).columns(0, depth),
               p.bf16_w.view().row_range(first, count).columns(0, depth)};
    block.bias = d.bias.view().range(first, count);
    block.rule = d.rule;
    block.target = d.target;
    block.first_unit = p.first_unit + first;
    if (count > d.width) block.block_width = d.width;
    if (rounds()) {
      block.bf16_delta = p.bf16_delta.view().columns(first, count);
    } else {
      block.delta = p.delta.view().columns(first, count);
      block.transposed_delta =
          p.transposed.view().row_range(first, count).columns(0, round_up(p.shape.examples, 4));
    }
    block.cost = d.costs.data() + first / d.width;
    block.bias_gradient = d.gradient.view().range(first, count);
    block.bias_scale = kBiasScale;
    return block;
  }
  /// Both passes, in calls of `at_once` blocks of `width` units.
  Evaluated run(const SoftMaxCost& rule, LayerProblem& p, Index width, Index at_once) {
    OnDevice d = send(rule, p, width);
    const Index batch = p.shape.examples;
    const auto for_calls = [&](const auto& body) {
      for (Index b = 0; b < d.blocks(); b += at_once)
        body(b, block_of(d, b * width, std::min(p.shape.units - b * width, at_once * width)));
    };
    for_calls([&](Index b, const OutputBlock& block) {
      const Index count = std::min(at_once, d.blocks() - b);
      EXPECT_TRUE(kernels_->softmax_statistics(block, d.maxima.view().row_range(b, count),
                                               d.sums.view().row_range(b, count)));
    });
    Buffer<float> maximum(batch, memory_);
    Buffer<std::int64_t> total = Buffer<std::int64_t>::zeros(batch, memory_);
    Buffer<std::int64_t> coupling = Buffer<std::int64_t>::zeros(batch, memory_);
    Buffer<std::int64_t> flag = Buffer<std::int64_t>::zeros(1, memory_);
    const auto cost = cuda::make_cost({nullptr, memory_, GetParam(), 1});
    cost->softmax_maximum(d.maxima.view(), maximum.view());
    cost->softmax_total(d.maxima.view(), d.sums.view(), maximum.view(), total.view(), flag.data());
    cost->softmax_coupling(rule, d.target, coupling.view(), flag.data());
    kernels_->softmax_rows(rule, d.target, {maximum.view(), total.view(), coupling.view()});
    for_calls([&](Index, const OutputBlock& block) { EXPECT_TRUE(kernels_->output_delta(block)); });
    kernels_->add_totals();
    return fetch(d);
  }
  Evaluated fetch(OnDevice& d) const {
    LayerProblem& p = d.p;
    Evaluated evaluated;
    const auto numbers = std::size_t(d.blocks() * p.shape.examples);
    evaluated.maximum.resize(numbers);
    evaluated.sum.resize(numbers);
    evaluated.costs.resize(std::size_t(d.blocks()));
    evaluated.gradient.resize(std::size_t(p.shape.units));
    d.costs.read(evaluated.costs.data(), d.costs.size());
    d.gradient.read(evaluated.gradient.data(), d.gradient.size());
    cuda::check(cudaMemcpy(evaluated.maximum.data(), d.maxima.view().data, numbers * sizeof(float),
                           cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    cuda::check(cudaMemcpy(evaluated.sum.data(), d.sums.view().data, numbers * sizeof(float),
                           cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    p.delta.fetch();
    p.transposed.fetch();
    p.bf16_delta.fetch();
    for (Index b = 0; b < p.shape.examples; ++b)
      for (Index u = 0; u < p.shape.units; ++u) {
        evaluated.delta.push_back(rounds() ? p.bf16_delta(b, u).value() : p.delta(b, u));
        const float delta = p.delta(b, u);
        const float transposed = p.transposed(u, b);
        EXPECT_TRUE(rounds() || transposed == delta ||
                    (std::isnan(transposed) && std::isnan(delta)));
      }
    EXPECT_TRUE(p.delta.padding_is_intact() && p.transposed.padding_is_intact() &&
                p.bf16_delta.padding_is_intact());
    return evaluated;
  }

  static std::vector<std::vector<double>> pre_activations(LayerProblem& p) {
    std::vector<std::vector<double>> z(std::size_t(p.shape.examples));
    for (Index b = 0; b < p.shape.examples; ++b)
      for (Index u = 0; u < p.shape.units; ++u) {
        double sum = p.bias[std::size_t(u)];
        for (Index k = 0; k < p.shape.width; ++k) sum += double(p.x(b, k)) * double(p.w(u, k));
        z[std::size_t(b)].push_back(sum);
      }
    return z;
  }
  /// What stored entry i of a row counts for, as documented.
  static double tau(const SoftMaxCost& rule, const LayerProblem& p, std::size_t row,
                    std::size_t i) {
    return unweighted_tau(rule, p, row, i) *
           (p.has_entry_weights ? double(p.entry_weight[i]) : 1.0);
  }
  static double unweighted_tau(const SoftMaxCost& rule, const LayerProblem& p, std::size_t row,
                               std::size_t i) {
    const double value = p.has_values ? double(p.value[i]) : 1.0;
    const double weight = p.is_weighted ? double(p.weight[row]) : 1.0;
    const double count = double(p.row_begin[row + 1] - p.row_begin[row]);
    const double shared =
        p.is_weighted || rule.target_weight == TargetWeight::one ? weight : 1.0 / count;
    if (const auto* l = std::get_if<ScaledMarginalCrossEntropy>(&rule.loss))
      return double(l->one_scale) * shared;
    if (const auto* l = std::get_if<DataScaledMarginalCrossEntropy>(&rule.loss))
      return double(l->one_scale) * weight * value;
    return p.has_values ? weight * value : shared;
  }

  void expect_statistics(const std::vector<std::vector<double>>& z, const Evaluated& evaluated,
                         Index width) {
    const Index batch = Index(z.size());
    for (std::size_t i = 0; i < evaluated.maximum.size(); ++i) {
      const std::vector<double>& row = z[i % std::size_t(batch)];
      const Index first = Index(i) / batch * width;
      const auto begin = row.begin() + first;
      const auto end = row.begin() + std::min(Index(row.size()), first + width);
      ASSERT_NEAR(evaluated.maximum[i], *std::max_element(begin, end), 1e-4);
      double sum = 0;
      for (auto at = begin; at != end; ++at) sum += std::exp(*at - double(evaluated.maximum[i]));
      ASSERT_NEAR(evaluated.sum[i], sum, 2e-5 * sum) << "block " << Index(i) / batch;
    }
  }
  void expect_deltas(const SoftMaxCost& rule, LayerProblem& p, const Evaluated& evaluated,
                     Index width) {
    const std::vector<std::vector<double>> z = pre_activations(p);
    expect_statistics(z, evaluated, width);
    double cost = 0, terms = 0;
    std::vector<double> gradient(std::size_t(p.shape.units), 0.0);
    std::vector<double> magnitude(std::size_t(p.shape.units), 0.0);
    for (std::size_t b = 0; b < z.size(); ++b) {
      double total = 0;
      for (double x : z[b]) total += std::exp(x);
      std::vector<double> target(z[b].size(), -1.0);
      double coupling = 0;
      for (auto i = std::size_t(p.row_begin[b]); i < std::size_t(p.row_begin[b + 1]); ++i) {
        coupling += tau(rule, p, b, i);
        const Index unit = Index(p.column[i]) - p.first_unit;
        if (unit >= 0 && unit < p.shape.units) target[std::size_t(unit)] = tau(rule, p, b, i);
      }
      for (std::size_t u = 0; u < z[b].size(); ++u) {
        const double y = std::exp(z[b][u]) / total;
        const bool is_stored = target[u] >= 0.0;
        if (is_stored) {
          cost += target[u] * (std::log(total) - z[b][u]);
          terms += target[u] * (std::abs(std::log(total)) + std::abs(z[b][u]));
        }
        const double delta = is_stored ? double(rule.boost_one) * (y * coupling - target[u])
                                       : double(rule.boost_zero) * y * coupling;
        const double actual = double(evaluated.delta[b * z[b].size() + u]);
        const double relative = rounds() ? 0.0041 : 2e-5;
        // A target is subtracted, which may leave little.
        const double subtracted =
            is_stored ? double(rule.boost_one) * (y * coupling + target[u]) : 0.0;
        ASSERT_NEAR(actual, delta, relative * std::abs(delta) + 1e-5 * subtracted + 1e-6 * coupling)
            << "row " << b << ", unit " << u << (is_stored ? ", stored" : "");
        gradient[u] += actual;
        magnitude[u] += std::abs(actual);
      }
    }
    EXPECT_NEAR(std::accumulate(evaluated.costs.begin(), evaluated.costs.end(), 0.0), cost,
                5e-6 * std::abs(cost) + 5e-7 * terms);  // which may leave nothing: of one unit
    for (std::size_t u = 0; u < gradient.size(); ++u)
      ASSERT_NEAR(evaluated.gradient[u], kBiasScale * gradient[u], 4e-6 * kBiasScale * magnitude[u])
          << "unit " << u;
  }

  Index below(Index limit) { return Index(random_() % std::uint64_t(limit)); }
  SoftMaxCost random_rule() {
    const Loss losses[] = {CrossEntropy{}, CrossEntropy{},
                           ScaledMarginalCrossEntropy{.one_target = 1.0f, .one_scale = 1.5f},
                           DataScaledMarginalCrossEntropy{.one_target = 1.0f, .one_scale = 0.5f}};
    SoftMaxCost rule{losses[below(4)], below(2) ? TargetWeight::one : TargetWeight::inverse_count};
    if (below(2)) rule.boost_one = 30.0f;
    if (below(2)) rule.boost_zero = 0.25f;
    return rule;
  }

  std::unique_ptr<FusedKernels> kernels_ = make(GetParam());
};

TEST_P(FusedSoftMaxTest, RandomLayersAgreeWithFloat64) {
  for (int i = 0; i < 12; ++i) {
    const Shape shape{64 + below(400), 1 + below(900), 64 + below(322)};
    const Index width = 128 * (1 + below(3));
    SCOPED_TRACE(::testing::Message() << shape.examples << " x " << shape.units << " x "
                                      << shape.width << " in blocks of " << width);
    LayerProblem p = draw(shape, int(below(40)));
    p.has_values = below(2) == 1;
    p.is_weighted = below(2) == 1;
    p.has_entry_weights = below(2) == 1;
    const SoftMaxCost rule = random_rule();
    expect_deltas(rule, p, run(rule, p, width, 1 + below(8)), width);
    if (HasFatalFailure()) return;
  }
}

TEST_P(FusedSoftMaxTest, TilesMayBeFullOfStoredTargets) {
  for (const int stored : {0, 400}) {
    LayerProblem p = draw({200, 264, 128}, stored);
    p.is_weighted = false;
    const SoftMaxCost rule{CrossEntropy{}, TargetWeight::inverse_count};
    expect_deltas(rule, p, run(rule, p, 264, 1), 264);
  }
}

TEST_P(FusedSoftMaxTest, PreActivationsMayBeFarApart) {
  LayerProblem p = draw({136, 700, 64}, 20, 10.0f);
  for (std::size_t u = 0; u < p.bias.size(); ++u) {
    if (u % 31 == 0) p.bias[u] = 300.0f;
    if (u % 11 == 0) p.bias[u] = -200.0f;
    if (u >= 512) p.bias[u] = -1000.0f;  // a block whose terms are nothing beside the others'
  }
  const SoftMaxCost rule{CrossEntropy{}, TargetWeight::one};
  const Evaluated evaluated = run(rule, p, 256, 2);
  const std::vector<std::vector<double>> z = pre_activations(p);
  for (std::size_t b = 0; b < z.size(); ++b) {
    double sum = 0;
    for (std::size_t u = 0; u < z[b].size(); ++u) {
      ASSERT_TRUE(std::isfinite(evaluated.delta[b * z[b].size() + u]));
      sum += double(evaluated.delta[b * z[b].size() + u]);
    }
    EXPECT_TRUE(std::isfinite(sum));
  }
  for (double cost : evaluated.costs) EXPECT_TRUE(std::isfinite(cost));
}

TEST_P(FusedSoftMaxTest, OfABlockTheBitsAreTheSameWhateverComesWithIt) {
  for (const Shape& shape : {Shape{200, 1000, 72}, Shape{64, 650, 130}, Shape{129, 2058, 64}}) {
    LayerProblem p = draw(shape, 30);
    const SoftMaxCost rule = random_rule();
    const Evaluated alone = run(rule, p, 256, 1);
    for (const Index at_once : {2, 3, 8})
      EXPECT_TRUE(run(rule, p, 256, at_once) == alone) << shape.units << ", " << at_once;
  }
}

TEST_P(FusedSoftMaxTest, RunsHaveTheSameBits) {
  LayerProblem p = draw({1030, 6000, 128}, 50);
  const SoftMaxCost rule{CrossEntropy{}, TargetWeight::one};
  const Evaluated first = run(rule, p, 1024, 8);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(rule, p, 1024, 8) == first);
}

TEST_P(FusedSoftMaxTest, NanReachesEveryDeltaOfItsRowAndNoOther) {
  LayerProblem p = draw({100, 300, 64}, 5);
  p.bf16_x(7, 3) = Padded<Bfloat16>::poison();
  p.x(7, 3) = std::numeric_limits<float>::quiet_NaN();
  p.x.send();
  p.bf16_x.send();
  const Evaluated evaluated = run({CrossEntropy{}, TargetWeight::one}, p, 128, 2);
  for (Index b = 0; b < 100; ++b)
    for (Index u = 0; u < 300; ++u)
      ASSERT_EQ(std::isnan(evaluated.delta[std::size_t(b * 300 + u)]), b == 7) << b << ", " << u;
}

TEST_P(FusedSoftMaxTest, LossesThatNeedTheJacobianAreLeftAlone) {
  LayerProblem p = draw({100, 300, 64}, 5);
  for (const Loss& loss : {Loss(SquaredError{}), Loss(ScaledMarginalCrossEntropy{})}) {
    OutputBlock block;
    block.x = {p.x.view().columns(0, 64), p.bf16_x.view().columns(0, 64)};
    block.w = {p.w.view().columns(0, 64), p.bf16_w.view().columns(0, 64)};
    block.rule = SoftMaxCost{loss};
    Matrix<float> statistics(2, 100, memory_);
    EXPECT_FALSE(kernels_->softmax_statistics(block, statistics.view().row_range(0, 1),
                                              statistics.view().row_range(1, 1)));
    EXPECT_FALSE(kernels_->output_delta(block));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, FusedSoftMaxTest,
                         ::testing::Values(Precision::bf16, Precision::tf32), [](const auto& info) {
                           return info.param == Precision::bf16 ? "bf16" : "tf32";
                         });

}  // namespace
}  // namespace norn
