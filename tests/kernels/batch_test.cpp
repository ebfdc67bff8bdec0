// SPDX-License-Identifier: Apache-2.0
// Preparation of sparse batches and dropout masks against plain loops over the documented formulas.

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::SparseRows;

class BatchTest : public samples::RandomTest {
 protected:
  Philox stream(RandomPurpose purpose) const { return Philox::stream(seed_, purpose); }
};

struct Prepared {
  std::vector<RowOffset> row_begin;
  std::vector<Column> column;
  std::vector<float> value;
  bool operator==(const Prepared&) const = default;
};

Prepared copy_of(const CsrBuffer& buffer) {
  Prepared p;
  const CsrView view = buffer.view();
  p.row_begin.assign(view.row_begin, view.row_begin + view.rows + 1);
  const RowOffset entries = p.row_begin.back();
  p.column.assign(view.column, view.column + entries);
  if (view.value) p.value.assign(view.value, view.value + entries);
  return p;
}

/// The header's words as loops.
Prepared prepare_plainly(const SparseRows& x, const std::vector<float>& weight,
                         const std::vector<Index>& example, const InputPreparation& preparation) {
  Prepared p;
  p.row_begin.push_back(0);
  for (std::size_t r = 0; r + 1 < x.row_begin.size(); ++r) {
    const auto begin = std::size_t(x.row_begin[r]), end = std::size_t(x.row_begin[r + 1]);
    const auto value = [&](std::size_t i) {
      const double v = x.value.empty() ? 1.0 : x.value[i];
      const VectorView<const float> by_column = preparation.feature_weight;
      return by_column.empty() ? v : v * by_column.data[x.column[i]];
    };
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i) squares += value(i) * value(i);
    for (std::size_t i = begin; i < end; ++i) {
      const auto row = std::uint64_t(example[r]) ^ (std::uint64_t(preparation.epoch) << 40);
      if (preparation.denoising > 0 &&
          preparation.random.uniform(row, i - begin) < preparation.denoising)
        continue;
      double v = value(i);
      if (preparation.normalise_l2 && squares > 0) v /= std::sqrt(squares);
      if (!weight.empty()) v *= weight[r];
      p.column.push_back(x.column[i]);
      p.value.push_back(float(v / (1.0 - double(preparation.denoising))));
    }
    p.row_begin.push_back(RowOffset(p.column.size()));
  }
  return p;
}

void expect_equal(const Prepared& actual, const Prepared& expected) {
  ASSERT_EQ(actual.row_begin, expected.row_begin);
  ASSERT_EQ(actual.column, expected.column);
  for (std::size_t i = 0; i < actual.value.size(); ++i)
    ASSERT_NEAR(actual.value[i], expected.value[i], 1e-6 * std::abs(expected.value[i])) << i;
}

TEST_F(BatchTest, PreparationDoesWhatItSays) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  CsrBuffer prepared;  // one for all: capacity is kept
  for (const Index rows : {0, 1, 31, 129})
    for (const bool values : {false, true})
      for (const bool weighted : {false, true})
        for (const bool normalise : {false, true})
          for (const float denoising : {0.0f, 0.4f}) {
            SCOPED_TRACE(std::to_string(rows) + (values ? " values" : "") +
                         (weighted ? " weighted" : "") + (normalise ? " normalised " : " ") +
                         std::to_string(denoising));
            SparseRows x = samples::awkward_batch(rows, 130, 9, values, random_);
            if (rows > 5 && values)  // a row of norm 0
              for (auto i = std::size_t(x.row_begin[4]); i < std::size_t(x.row_begin[5]); ++i)
                x.value[i] = 0.0f;
            std::vector<float> weight;
            std::vector<Index> example;
            for (Index r = 0; r < rows; ++r) {
              if (weighted) weight.push_back(uniform(0.5f, 2.0f));
              example.push_back(below(1'000'000));
            }
            const InputPreparation preparation{normalise, denoising,
                                               stream(RandomPurpose::denoising), 7};
            kernels->prepare(x.view(), samples::view_of(std::as_const(weight)),
                             samples::view_of(std::as_const(example)), preparation, prepared);
            EXPECT_EQ(prepared.cols, 130);
            EXPECT_TRUE(prepared.entry_limit == 0 || prepared.entry_limit >= x.view().entries());
            EXPECT_EQ(prepared.has_values, x.view().value != nullptr || (weighted && rows > 0) ||
                                               normalise || denoising > 0);
            expect_equal(copy_of(prepared), prepare_plainly(x, weight, example, preparation));
          }
}

TEST_F(BatchTest, WeightsFeaturesBeforeItNormalises) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  CsrBuffer prepared;
  for (const Index wider : {0, 3})
    for (const bool values : {false, true})
      for (const bool weighted : {false, true})
        for (const bool normalise : {false, true})
          for (const float denoising : {0.0f, 0.4f}) {
            SCOPED_TRACE(std::string(values ? "values" : "") + (weighted ? " weighted" : "") +
                         (normalise ? " normalised " : " ") + std::to_string(denoising));
            const SparseRows x = samples::awkward_batch(129, 130, 9, values, random_);
            std::vector<float> weight, by_column;
            std::vector<Index> example;
            for (Index c = 0; c < 130 + wider; ++c) by_column.push_back(uniform(0.1f, 12.0f));
            by_column[7] = 0.0f;
            for (Index r = 0; r < 129; ++r) {
              if (weighted) weight.push_back(uniform(0.5f, 2.0f));
              example.push_back(below(1'000'000));
            }
            InputPreparation preparation{normalise, denoising, stream(RandomPurpose::denoising), 7};
            preparation.feature_weight = samples::view_of(std::as_const(by_column));
            kernels->prepare(x.view(), samples::view_of(std::as_const(weight)),
                             samples::view_of(std::as_const(example)), preparation, prepared);
            EXPECT_TRUE(prepared.has_values);
            const Prepared got = copy_of(prepared);
            ASSERT_EQ(got.value.size(), got.column.size());
            expect_equal(got, prepare_plainly(x, weight, example, preparation));
          }
}

TEST_F(BatchTest, RefusesFewerWeightsThanFeatures) {
  Executor executor(1);
  const auto kernels = samples::make_batch(executor);
  const SparseRows x = samples::awkward_batch(5, 130, 9, false, random_);
  const std::vector<float> by_column(129, 1.0f);
  InputPreparation preparation;
  preparation.feature_weight = samples::view_of(by_column);
  CsrBuffer prepared;
  EXPECT_THROW(kernels->prepare(x.view(), {}, {}, preparation, prepared), ShapeError);
}

TEST_F(BatchTest, GathersSparseRowsInAnyOrder) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  CsrBuffer gathered;  // one for all: capacity is kept
  for (const Index batch : {0, 1, 31, 1000, 5003})
    for (const bool values : {false, true}) {
      SCOPED_TRACE(std::to_string(batch) + (values ? " values" : ""));
      const SparseRows stored = samples::awkward_batch(300, 130, 9, values, random_);
      std::vector<Index> row;
      SparseRows expected;
      for (Index r = 0; r < batch; ++r) {
        row.push_back(below(stored.rows()));  // some rows twice
        for (RowOffset i = stored.row_begin[std::size_t(row.back())];
             i < stored.row_begin[std::size_t(row.back()) + 1]; ++i) {
          expected.column.push_back(stored.column[std::size_t(i)]);
          if (values) expected.value.push_back(stored.value[std::size_t(i)]);
        }
        expected.row_begin.push_back(RowOffset(expected.column.size()));
      }
      const auto entries = Index(expected.column.size());
      kernels->gather(stored.view(), samples::view_of(std::as_const(row)), entries, gathered);
      EXPECT_EQ(gathered.rows, batch);
      EXPECT_EQ(gathered.cols, 130);
      EXPECT_EQ(gathered.entry_limit, entries);
      EXPECT_EQ(gathered.has_values, values);
      const Prepared got = copy_of(gathered);
      EXPECT_EQ(got.row_begin, expected.row_begin);
      EXPECT_EQ(got.column, expected.column);
      EXPECT_EQ(got.value, expected.value);
    }
}

TEST_F(BatchTest, RunsSayWhereEntriesBegin) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  for (const Index rows : {0, 1, 31, 64, 129, 1000})
    for (const Index cols : {1, 127, 128, 129, 3000}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
      SparseRows x = samples::awkward_batch(rows, cols, 40, false, random_);
      for (Index r = 0; r < rows; ++r)
        std::sort(x.column.begin() + x.row_begin[std::size_t(r)],
                  x.column.begin() + x.row_begin[std::size_t(r) + 1]);
      for (const Range columns :
           {Range{0, cols}, Range{cols / 3, cols}, Range{cols / 4, cols / 2}, Range{cols, cols}}) {
        std::vector<int> workspace(std::size_t(ColumnRuns::size(rows, columns.count())), -1);
        const ColumnRuns runs =
            kernels->find_runs(x.view(), columns, {workspace.data(), Index(workspace.size())});
        EXPECT_EQ(runs.columns, columns);
        ASSERT_GE(runs.stride, rows);
        for (Index i = 0; i <= ColumnRuns::runs_of(columns.count()); ++i)
          for (Index r = 0; r < runs.stride; ++r) {
            const Index first = std::min(columns.begin + i * ColumnRuns::kWidth, columns.end);
            int before = 0;
            if (r < rows)
              for (auto e = std::size_t(x.row_begin[std::size_t(r)]);
                   e < std::size_t(x.row_begin[std::size_t(r) + 1]); ++e)
                before += Index(x.column[e]) < first ? 1 : 0;
            ASSERT_EQ(workspace[std::size_t(i * runs.stride + r)], before) << i << ' ' << r;
          }
      }
      std::vector<int> small(std::size_t(ColumnRuns::size(rows, cols)), 0);
      if (rows > 0) {
        EXPECT_THROW(
            kernels->find_runs(x.view(), {0, cols + 128}, {small.data(), Index(small.size())}),
            ShapeError);
      }
    }
}

TEST_F(BatchTest, RunsCoverWhatBeginsAndEndsWithThem) {
  const int begin = 0;
  const ColumnRuns runs{&begin, 64, {1000, 1400}};
  EXPECT_TRUE(runs.cover({1000, 1400}));
  EXPECT_TRUE(runs.cover({1128, 1256}));
  EXPECT_TRUE(runs.cover({1256, 1400}));
  EXPECT_FALSE(runs.cover({1001, 1400}));
  EXPECT_FALSE(runs.cover({1000, 1300}));
  EXPECT_FALSE(runs.cover({872, 1000}));
  EXPECT_FALSE(runs.cover({1000, 1401}));
  EXPECT_FALSE(ColumnRuns().cover({0, 128}));
}

TEST_F(BatchTest, GathersDenseRowsInAnyOrder) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  for (const Index batch : {0, 1, 77})
    for (const Index cols : {0, 1, 4, 31, 128, 1000, 20000})
      for (const Index padding : {0, 4, 5}) {
        SCOPED_TRACE(std::to_string(batch) + " x " + std::to_string(cols));
        PaddedMatrix<float> stored(9, cols, padding), x(batch, cols, padding);
        samples::fill_normal(stored.view(), random_);
        std::vector<Index> row;
        for (Index r = 0; r < batch; ++r) row.push_back(below(9));
        kernels->gather(stored.view(), samples::view_of(std::as_const(row)), x.view());
        for (Index r = 0; r < batch; ++r)
          for (Index c = 0; c < cols; ++c) ASSERT_EQ(x(r, c), stored(row[std::size_t(r)], c));
        EXPECT_TRUE(x.padding_is_intact());
      }
}

TEST_F(BatchTest, PreparationReadsABatchInTheMiddleOfADataSet) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const SparseRows x = samples::awkward_batch(20, 50, 6, true, random_);
  CsrView middle = x.view();
  middle.row_begin += 7;
  middle.rows = 9;
  CsrBuffer prepared;
  kernels->prepare(middle, {}, {}, {}, prepared);
  const CsrView p = prepared.view();
  EXPECT_EQ(p.row_begin[0], 0);
  ASSERT_EQ(p.entries(), middle.entries());
  for (RowOffset i = 0; i < p.entries(); ++i) {
    ASSERT_EQ(p.column[i], x.column[std::size_t(middle.row_begin[0] + i)]);
    ASSERT_EQ(p.value[i], x.value[std::size_t(middle.row_begin[0] + i)]);
  }
}

TEST_F(BatchTest, DenoisingLeavesOutItsShareAndChangesWithTheEpoch) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const SparseRows x = samples::awkward_batch(1000, 400, 60, false, random_);
  std::vector<Index> example;
  for (Index r = 0; r < 1000; ++r) example.push_back(r);
  CsrBuffer first, second;
  InputPreparation preparation{false, 0.25f, stream(RandomPurpose::denoising), 0};
  kernels->prepare(x.view(), {}, samples::view_of(std::as_const(example)), preparation, first);
  preparation.epoch = 1;
  kernels->prepare(x.view(), {}, samples::view_of(std::as_const(example)), preparation, second);
  const double n = double(x.column.size());
  const double margin = 6 * std::sqrt(n * 0.25 * 0.75);
  EXPECT_NEAR(double(first.view().entries()), 0.75 * n, margin);
  EXPECT_NEAR(double(second.view().entries()), 0.75 * n, margin);
  EXPECT_FALSE(copy_of(first) == copy_of(second));
}

TEST_F(BatchTest, DenoisingOfLongRowsKeepsTheirOrder) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const SparseRows x = samples::awkward_batch(5000, 3000, 90, true, random_);
  std::vector<Index> example;
  for (Index r = 0; r < 5000; ++r) example.push_back(below(1'000'000));
  const InputPreparation preparation{true, 0.3f, stream(RandomPurpose::denoising), 3};
  CsrBuffer prepared;
  kernels->prepare(x.view(), {}, samples::view_of(std::as_const(example)), preparation, prepared);
  expect_equal(copy_of(prepared), prepare_plainly(x, {}, example, preparation));
}

TEST_F(BatchTest, DenseRowsAreNormalisedWeightedAndFilledUp) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  for (const Index rows : {0, 1, 9})
    for (const Index cols : {0, 1, 4, 31, 128, 1000, 20000})
      for (const Index more : {0, 1, 8})
        for (const Index padding : {0, 4, 5})
          for (const bool normalise : {false, true}) {
            const bool weighted = more > 0;
            SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " + " +
                         std::to_string(more) + (normalise ? " normalised" : ""));
            PaddedMatrix<float> data(rows, cols, padding), x(rows, cols + more, padding);
            samples::fill_normal(data.view(), random_);
            for (Index c = 0; c < cols && rows > 2; ++c) data(2, c) = 0.0f;
            std::vector<float> weight;
            for (Index r = 0; r < rows && weighted; ++r) weight.push_back(uniform(0.5f, 2.0f));
            kernels->prepare_dense(data.view(), samples::view_of(std::as_const(weight)), normalise,
                                   x.view());
            for (Index r = 0; r < rows; ++r) {
              double squares = 0;
              for (Index c = 0; c < cols; ++c) squares += double(data(r, c)) * double(data(r, c));
              double factor = weighted ? double(weight[std::size_t(r)]) : 1.0;
              if (normalise && squares > 0) factor /= std::sqrt(squares);
              for (Index c = 0; c < cols; ++c) {
                const double expected = factor * double(data(r, c));
                ASSERT_NEAR(x(r, c), expected, 1e-6 * std::abs(expected)) << r << ' ' << c;
              }
              for (Index c = cols; c < cols + more; ++c) ASSERT_EQ(x(r, c), 0.0f);
            }
            EXPECT_TRUE(x.padding_is_intact());
          }
}

TEST_F(BatchTest, DropoutFollowsTheDocumentedMask) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const Philox random = stream(RandomPurpose::dropout);
  for (const Index cols : {0, 1, 2, 31, 32, 33, 127, 128, 129, 1000})
    for (const Index first_unit : {0, 1, 6, 1000, 1001})
      for (const float p : {0.0f, 0.3f, 0.9f}) {
        SCOPED_TRACE(std::to_string(cols) + " from " + std::to_string(first_unit));
        const Index rows = 3, first_row = 12345;
        PaddedMatrix<float> y(rows, cols), out(rows, cols);
        samples::fill_normal(y.view(), random_);
        const DropoutMask mask = DropoutMask::inverted(p, random, first_row, first_unit);
        kernels->mask(mask, y.view(), out.view());
        for (Index r = 0; r < rows; ++r)
          for (Index c = 0; c < cols; ++c) {
            const bool left_out =
                random.uniform(std::uint64_t(first_row + r), std::uint64_t(first_unit + c)) < p;
            const double expected = left_out ? 0.0 : double(y(r, c)) / (1.0 - double(p));
            ASSERT_NEAR(out(r, c), expected, 3e-7 * std::abs(expected));
          }
        EXPECT_TRUE(out.padding_is_intact());
        kernels->mask(mask, y.view(), y.view());
        EXPECT_TRUE(y.same_bits(out)) << "in place";
      }
}

// Rows are places there, columns channels.
TEST_F(BatchTest, DropoutOfPlacesHasTheNumbersOfUnitsInTheOrderOfFiles) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const Philox random = stream(RandomPurpose::dropout);
  for (int i = 0; i < 20; ++i) {
    const Index places = 2 + below(9), channels = 1 + below(70), examples = 1 + below(5);
    SCOPED_TRACE(std::to_string(examples) + " x " + std::to_string(places) + " x " +
                 std::to_string(channels));
    const Index first_example = 77 + below(3), padding = below(2) * 4;
    PaddedMatrix<float> y(examples * places, channels, padding), out = y;
    samples::fill_normal(y.view(), random_);
    DropoutMask mask = DropoutMask::inverted(0.4f, random, first_example, 0);
    mask.places = places;
    kernels->mask(mask, y.view(), out.view());
    for (Index e = 0; e < examples; ++e)
      for (Index c = 0; c < channels; ++c)
        for (Index p = 0; p < places; ++p) {
          const float chance =
              random.uniform(std::uint64_t(first_example + e), std::uint64_t(c * places + p));
          const double expected =
              chance < 0.4f ? 0.0 : double(y(e * places + p, c)) / (1.0 - double(0.4f));
          ASSERT_NEAR(out(e * places + p, c), expected, 3e-7 * std::abs(expected));
        }
    EXPECT_TRUE(out.padding_is_intact());
  }
}

TEST_F(BatchTest, MaskIsAnAffineMapOfWhatIsKept) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const Philox random = stream(RandomPurpose::dropout);
  for (const Index padding : {3, 4})
    for (const Index cols : {1, 128, 133}) {
      PaddedMatrix<float> y(50, cols, padding), out(50, cols, padding);
      samples::fill_normal(y.view(), random_);
      kernels->mask({0.5f, 2.0f, 1.0f, -3.0f, random, 77, 8}, y.view(), out.view());
      for (Index r = 0; r < 50; ++r)
        for (Index c = 0; c < cols; ++c) {
          const bool kept = random.uniform(std::uint64_t(77 + r), std::uint64_t(8 + c)) >= 0.5f;
          ASSERT_NEAR(out(r, c), kept ? 2.0f * y(r, c) + 1.0f : -5.0f, 1e-6f * 16);
        }
      EXPECT_TRUE(out.padding_is_intact());
    }
}

TEST_F(BatchTest, AlphaDropoutKeepsMeanZeroAndVarianceOne) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  constexpr Index rows = 500, cols = 1000;
  PaddedMatrix<float> y(rows, cols), out(rows, cols);
  samples::fill_normal(y.view(), random_);
  for (const float p : {0.05f, 0.5f}) {
    kernels->mask(DropoutMask::alpha(p, -1.7580993f, stream(RandomPurpose::dropout), 0, 0),
                  y.view(), out.view());
    double sum = 0, squares = 0;
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) {
        sum += double(out(r, c));
        squares += double(out(r, c)) * double(out(r, c));
      }
    const double n = double(rows * cols);
    EXPECT_NEAR(sum / n, 0.0, 6 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1.0, 20 / std::sqrt(n));
  }
}

TEST_F(BatchTest, BackwardIsTheDerivativeOfTheMask) {
  Executor executor(2);
  const auto kernels = samples::make_batch(executor);
  const Philox random = stream(RandomPurpose::dropout);
  const float p = 0.4f, saturation = -1.7580993f;
  PaddedMatrix<float> y(20, 129), moved(20, 129), delta(20, 129);
  samples::fill_normal(y.view(), random_);
  const auto check = [&](const DropoutMask& mask) {
    PaddedMatrix<float> at_y(20, 129), at_moved(20, 129);
    for (Index r = 0; r < 20; ++r)
      for (Index c = 0; c < 129; ++c) {
        moved(r, c) = y(r, c) + 1.0f;
        delta(r, c) = 2.0f;
      }
    kernels->mask(mask, y.view(), at_y.view());
    kernels->mask(mask, moved.view(), at_moved.view());
    kernels->mask(mask.slope(), delta.view(), delta.view());
    int kept = 0;
    for (Index r = 0; r < 20; ++r)
      for (Index c = 0; c < 129; ++c) {
        ASSERT_NEAR(delta(r, c), 2.0f * (at_moved(r, c) - at_y(r, c)), 1e-5);
        kept += delta(r, c) != 0.0f;
      }
    EXPECT_NEAR(kept, 0.6 * 20 * 129, 6 * std::sqrt(0.24 * 20 * 129));
    EXPECT_TRUE(delta.padding_is_intact());
  };
  check(DropoutMask::inverted(p, random, 3, 5));
  check(DropoutMask::alpha(p, saturation, random, 3, 5));
}

TEST_F(BatchTest, BitsDoNotDependOnLanes) {
  PaddedMatrix<float> y(300, 257);
  samples::fill_normal(y.view(), random_);
  const SparseRows x = samples::awkward_batch(300, 100, 20, true, random_);
  std::vector<Index> example(300);
  for (std::size_t r = 0; r < 300; ++r) example[r] = Index(r);
  samples::expect_same_bits_however_run([&](Executor& executor) {
    const auto kernels = samples::make_batch(executor);
    PaddedMatrix<float> out(300, 257);
    kernels->mask(DropoutMask::alpha(0.3f, -1.75f, stream(RandomPurpose::dropout), 5, 6), y.view(),
                  out.view());
    CsrBuffer prepared;
    kernels->prepare(x.view(), {}, samples::view_of(std::as_const(example)),
                     {true, 0.3f, stream(RandomPurpose::denoising), 2}, prepared);
    return std::pair(samples::bits_of(out.view()), copy_of(prepared));
  });
}

TEST_F(BatchTest, ImpossibleProbabilitiesAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_batch(executor);
  PaddedMatrix<float> y(2, 3);
  for (const float p : {-0.1f, 1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW(DropoutMask::inverted(p, Philox{}, 0, 0), ShapeError);
    EXPECT_THROW(DropoutMask::alpha(p, -1.75f, Philox{}, 0, 0), ShapeError);
    DropoutMask mask;
    mask.p = p;
    EXPECT_THROW(kernels->mask(mask, y.view(), y.view()), ShapeError);
  }
}

}  // namespace
}  // namespace norn
