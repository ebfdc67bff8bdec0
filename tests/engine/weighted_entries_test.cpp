// SPDX-License-Identifier: Apache-2.0
// Values of targets as weights of their entries: what batches hold, and what is refused.
#include "src/engine/data/weighted_entries.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/data/data_binding.h"
#include "tests/data/support.h"
#include "tests/support/memory_datasets.h"
#include "tests/support/recipes.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

using enum EntryWeightScheme;
using testing::HasSubstr;
constexpr auto kBoth = DataBinding::Layers::inputs_and_outputs;

struct Rows {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
};

class WeightedEntries : public testing::Test {
 protected:
  static std::uint64_t drawn_seed() {
    const char* word = std::getenv("NORN_TEST_SEED");
    return word != nullptr ? std::strtoull(word, nullptr, 10) : std::random_device{}();
  }
  Index between(Index low, Index high) {
    return low + Index(random_() % std::uint64_t(high - low + 1));
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  // Whole numbers, small and large, and others.
  float value() {
    const Index kind = between(0, 3);
    if (kind == 0) return float(between(0, 3000));
    return float(kind == 1 ? double(between(0, 5)) : uniform(0.0, kind == 2 ? 3.0 : 3000.0));
  }
  Rows random_rows(Index examples, Index width) {
    Rows rows;
    const double density = std::pow(10.0, uniform(-3.0, -0.3));
    for (Index e = 0; e < examples; ++e) {
      for (Index c = 0; c < width; ++c) {
        if (uniform(0.0, 1.0) >= density) continue;
        rows.columns.push_back(Column(c));
        rows.values.push_back(value());
      }
      rows.begin.push_back(RowOffset(rows.columns.size()));
    }
    return rows;
  }
  EntryWeights random_weights() {
    const auto scheme = EntryWeightScheme(between(1, 3));
    return {scheme, scheme == EntryWeightScheme::value ? 1.0f : float(uniform(0.0, 50.0)),
            scheme == log ? float(uniform(0.01, 10.0)) : 1.0f};
  }
  static double expected(const EntryWeights& law, double v) {
    const double alpha = double(law.alpha);
    if (law.scheme == EntryWeightScheme::value) return v;
    return law.scheme == linear ? 1 + alpha * v : 1 + alpha * std::log(1 + v / double(law.epsilon));
  }

  const std::uint64_t seed_ = drawn_seed();
  std::mt19937_64 random_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("NORN_TEST_SEED={}", seed_)};
};

std::unique_ptr<Dataset> set_of(const Rows& rows, Index width) {
  return make_sparse_dataset("counts", width, rows.begin, rows.columns, rows.values);
}

TEST_F(WeightedEntries, OfEveryBatchAreTheFormulasOfItsValues) {
  for (int draw = 0; draw < 30; ++draw) {
    const Index examples = between(1, 300), width = between(1, 200);
    const Rows rows = random_rows(examples, width);
    if (rows.columns.empty()) continue;
    const EntryWeights law = random_weights();
    std::shared_ptr<Dataset> set = weigh_entries(set_of(rows, width), law, "Out");
    EXPECT_EQ(set->row_entries(), RowOffset(rows.columns.size()));
    std::vector<Index> chosen;
    for (Index i = between(1, 40); i > 0; --i) chosen.push_back(between(0, examples - 1));
    HostBatch batch;
    set->gather(chosen, batch);
    const CsrView x = batch.csr();
    ASSERT_EQ(x.rows, Index(chosen.size()));
    for (Index r = 0; r < x.rows; ++r) {
      const RowOffset from = rows.begin[std::size_t(chosen[std::size_t(r)])];
      ASSERT_EQ(x.row_begin[r + 1] - x.row_begin[r],
                rows.begin[std::size_t(chosen[std::size_t(r)]) + 1] - from);
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        const auto stored = std::size_t(from + i - x.row_begin[r]);
        ASSERT_EQ(x.column[i], rows.columns[stored]);
        const double weight = expected(law, double(rows.values[stored]));
        ASSERT_NEAR(x.value[i], weight, 2e-7 * weight) << rows.values[stored];
      }
    }
    HostBatch stored;  // as a device takes them
    set->read_rows(0, examples, stored);
    for (RowOffset i = 0; i < stored.csr().entries(); ++i) {
      const double weight = expected(law, double(rows.values[std::size_t(i)]));
      ASSERT_NEAR(stored.csr().value[i], weight, 2e-7 * weight);
    }
  }
}

std::string fault_of(const Rows& rows, Index width, const EntryWeights& law) {
  try {
    weigh_entries(set_of(rows, width), law, "Out");
    return "none";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST_F(WeightedEntries, ThatAreNegativeAreCountedAndTheFirstIsNamed) {
  Rows rows = random_rows(50, 40);
  for (Index e = 0; e < 50; ++e) {  // none is empty
    rows.columns.push_back(0);
    rows.values.push_back(1.0f);
    rows.begin.push_back(RowOffset(rows.columns.size()));
  }
  EXPECT_EQ(fault_of(rows, 40, {linear, 40.0f}), "none");
  const auto first = std::size_t(between(0, Index(rows.values.size()) - 1));
  rows.values[first] = -2.5f;
  Index wrong = 1;
  for (std::size_t i = first + 1; i < rows.values.size(); ++i)
    if (between(0, 3) == 0) {
      rows.values[i] = -1.0f;
      ++wrong;
    }
  const auto row = std::ranges::upper_bound(rows.begin, RowOffset(first)) - rows.begin.begin() - 1;
  for (const EntryWeights& law : {EntryWeights{EntryWeightScheme::value},
                                  EntryWeights{linear, 0.1f}, EntryWeights{log, 3.0f}})
    EXPECT_EQ(fault_of(rows, 40, law),
              fmt::format("data set \"counts\": example {}: the weight of column {} is -2.5 by its "
                          "value, expected at least 0; {} of {} entries are such, and layer "
                          "\"Out\" reads values as weights, EntryWeights {}: correct the data, or "
                          "remove the key",
                          row, rows.columns[first], with_thousands(wrong),
                          with_thousands(Index(rows.values.size())), name_of(law.scheme)));
}

TEST_F(WeightedEntries, ThatNoFloatHoldsAreRefused) {
  const Rows rows{{0, 1, 2}, {3, 7}, {1.0f, 1e38f}};
  EXPECT_EQ(fault_of(rows, 8, {EntryWeightScheme::value}), "none");
  EXPECT_EQ(
      fault_of(rows, 8, {linear, 10.0f}),
      "data set \"counts\": example 1: the weight of column 7 is inf, too large a number, for "
      "its value 1e+38; 1 of 2 entries are such, and layer \"Out\" reads values as weights, "
      "EntryWeights Linear: correct the data, or remove the key");
  for (const float none :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Rows others{{0, 1}, {3}, {none}};
    EXPECT_THAT(fault_of(others, 8, {linear}), HasSubstr("example 0: a value is"));
  }
}

TEST_F(WeightedEntries, ThatChangeInUseAreRefusedWhenTheyAreRead) {
  std::vector<RowOffset> begin = {0, 2, 3};
  std::vector<Column> columns = {1, 2, 0};
  std::vector<float> values = {1.0f, 2.0f, 3.0f};
  MemorySet set{.name = "counts", .width = 4};
  set.row_begin = begin;
  set.columns = columns;
  set.values = values;
  const auto weighed = weigh_entries(open_memory_set(set, Role::target), {linear}, "Out");
  values[2] = -3.0f;
  HostBatch batch;
  const std::vector<Index> examples = {0, 1};
  try {
    weighed->gather(examples, batch);
    FAIL() << "the weight was taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("example 1: the weight of column 0 is -3 by its value"));
  }
}

// By the descriptor, whether a set has values or not: then they are 1.
TEST_F(WeightedEntries, AreBoundToTheirLayersAlone) {
  const TempDir folder;
  Recipe recipe = all_recipes()[5];
  weigh_entries(recipe);
  recipe.network.layers[4].entry_weights = {linear, 2.0f};
  for (const bool valued : {true, false}) {
    recipe.targets.valued = valued;
    write_data(recipe, folder / "data.nc");
    for (const std::int64_t memory : {std::int64_t(1) << 30, std::int64_t(0)}) {
      DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
      sources.memory_bytes = memory;
      const DataBinding bound(recipe.network, sources, kBoth);
      NetworkDescriptor plain = recipe.network;
      for (LayerDescriptor& layer : plain.layers) layer.entry_weights = {};
      const DataBinding unbound(plain, sources, kBoth);
      std::vector<Index> all(static_cast<std::size_t>(recipe.examples));
      std::iota(all.begin(), all.end(), Index(0));
      for (const int layer : {2, 4}) {
        HostBatch weights, values;
        bound.set_of(layer).gather(all, weights);
        unbound.set_of(layer).gather(all, values);
        ASSERT_EQ(weights.csr().entries(), values.csr().entries());
        EXPECT_FALSE(bound.set_of(layer).info().boolean);
        for (RowOffset i = 0; i < values.csr().entries(); ++i) {
          const float v = valued ? values.csr().value[i] : 1.0f;
          ASSERT_EQ(weights.csr().value[i], layer == 2 ? v : float(1.0 + 2.0 * double(v)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace norn::test
