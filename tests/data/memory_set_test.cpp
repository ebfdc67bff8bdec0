// SPDX-License-Identifier: Apache-2.0
// Data sets of arrays that a program keeps: read in place, kept alive, checked like those of files.
#include "norn/data/memory_set.h"

#include "src/data/hold_out.h"
#include "tests/data/support.h"
#include "tests/support/memory_datasets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Arrays {
  std::vector<RowOffset> row_begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
};

std::shared_ptr<Arrays> random_arrays(std::mt19937& random, Index rows, Column width) {
  auto arrays = std::make_shared<Arrays>();
  std::vector<Column> all(width);
  std::iota(all.begin(), all.end(), Column(0));
  for (Index row = 0; row < rows; ++row) {
    std::vector<Column> drawn;
    std::ranges::sample(all, std::back_inserter(drawn), std::ptrdiff_t(random() % 8), random);
    for (const Column column : drawn) {
      arrays->columns.push_back(column);
      arrays->values.push_back(float(random() % 1000) / 64.0f);
    }
    arrays->row_begin.push_back(RowOffset(arrays->columns.size()));
  }
  return arrays;
}

MemorySet view_of(const std::shared_ptr<Arrays>& arrays, Index width) {
  return {.name = "mine",
          .width = width,
          .row_begin = arrays->row_begin,
          .columns = arrays->columns,
          .values = arrays->values,
          .owner = arrays};
}

std::vector<float> values_of(Dataset& set, const std::vector<Index>& examples) {
  HostBatch batch;
  set.gather(examples, batch);
  const CsrView rows = batch.csr();
  return {rows.value, rows.value + rows.entries()};
}

TEST(MemorySet, GivesWhatFilesOfTheSameRowsGive) {
  const unsigned seed = fresh_seed();
  std::mt19937 random(seed);
  const Index rows = 1 + Index(random() % 200);
  const auto arrays = random_arrays(random, rows, 37);
  const auto copied =
      make_sparse_dataset("mine", 37, arrays->row_begin, arrays->columns, arrays->values);
  const auto viewed = open_memory_set(view_of(arrays, 37), Role::target);
  EXPECT_EQ(dense_rows(*viewed, 7), dense_rows(*copied, 3)) << "seed " << seed;
  EXPECT_EQ(viewed->row_entries(), RowOffset(arrays->columns.size()));
  EXPECT_EQ(viewed->info().empty_rows, copied->info().empty_rows);
}

TEST(MemorySet, ReadsTheArraysWhereTheyStand) {
  std::mt19937 random(1);
  const auto arrays = random_arrays(random, 60, 20);
  const auto set = open_memory_set(view_of(arrays, 20), Role::input);
  const auto other = [&](Role role) {
    return std::shared_ptr<Dataset>(open_memory_set(view_of(arrays, 20), role));
  };
  const HeldOutViews views = hold_out(
      {0.2, HoldOutBy::user, 3}, {{other(Role::input), true}, {other(Role::target), false}}, 1);
  std::ranges::fill(arrays->values, 123.0f);  // a copy would not see it
  const std::vector<float> seen = values_of(*set, {5, 59, 0, 17});
  EXPECT_TRUE(std::ranges::all_of(seen, [](float value) { return value == 123.0f; }));
  std::vector<Index> held(std::size_t(views.training[0]->info().examples));
  std::iota(held.begin(), held.end(), Index(0));
  const std::vector<float> part = values_of(*views.training[0], held);
  EXPECT_FALSE(part.empty());
  EXPECT_TRUE(std::ranges::all_of(part, [](float value) { return value == 123.0f; }));

  std::vector<float> dense = {1, 2, 3, 4, 5, 6};
  const auto whole = open_memory_set({.name = "whole", .width = 3, .dense = dense}, Role::input);
  dense[4] = -7.0f;
  HostBatch batch;
  whole->gather(std::vector<Index>{1}, batch);
  EXPECT_EQ(batch.matrix()(0, 1), -7.0f);
}

TEST(MemorySet, KeepsTheOwnerAsLongAsItReads) {
  std::mt19937 random(2);
  auto arrays = random_arrays(random, 9, 20);
  const std::weak_ptr<Arrays> watch = arrays;
  auto set = open_memory_set(view_of(arrays, 20), Role::input);
  arrays.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(set->info().examples, 9);
  set.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(MemorySet, EntersAModelOfAnotherOrder) {
  LabelIndex theirs, ours;
  for (const char* label : {"a", "b", "c", "d"}) theirs.add(label);
  for (const char* label : {"d", "x", "b"}) ours.add(label);
  const auto match =
      std::make_shared<const UnitMatch>(match_units(LabelTable::of(theirs), LabelTable::of(ours)));
  const std::vector<RowOffset> begin = {0, 3, 4};
  const std::vector<Column> columns = {0, 1, 3, 2};
  const std::vector<float> values = {1, 2, 3, 4};
  const auto set = open_memory_set(
      {.name = "mine", .width = 4, .row_begin = begin, .columns = columns, .values = values},
      Role::input, match);
  EXPECT_EQ(set->info().width(), 3);
  EXPECT_EQ(set->info().left_out, 2);
  EXPECT_EQ(set->info().empty_rows, 1);
  HostBatch batch;
  set->gather(std::vector<Index>{1, 0}, batch);
  const CsrView rows = batch.csr();
  EXPECT_THAT(std::vector<Column>(rows.column, rows.column + rows.entries()), ElementsAre(0, 2));
  EXPECT_THAT(std::vector<float>(rows.value, rows.value + rows.entries()), ElementsAre(3, 2));
}

TEST(MemorySet, RefusesContentsThatNoFileMayHave) {
  const std::vector<RowOffset> begin = {0, 2, 3};
  const auto message = [&](std::vector<Column> columns, std::vector<float> values, Role role) {
    return message_of([&] {
      open_memory_set(
          {.name = "mine", .width = 5, .row_begin = begin, .columns = columns, .values = values},
          role);
    });
  };
  EXPECT_EQ(message({0, 1, 5}, {}, Role::input),
            "data set \"mine\": example 1: column 5 is out of range, expected 0 to 4; correct the "
            "data");
  EXPECT_EQ(message({3, 1, 4}, {}, Role::input),
            "data set \"mine\": example 0: column 1 stands after 3, expected ascending columns; "
            "correct the data");
  EXPECT_EQ(message({2, 2, 4}, {}, Role::target),
            "data set \"mine\": example 0: column 2 occurs twice, which a target may not; correct "
            "the data");
  EXPECT_EQ(message({2, 2, 4}, {}, Role::input), "no error");
  EXPECT_EQ(message({0, 1, 4}, {1.0f, 2.0f, NAN}, Role::input),
            "data set \"mine\": example 1: a value is nan, expected a finite number; correct the "
            "data");
}

TEST(MemorySet, RefusesWhatBecameWrongWhileItWasInUse) {
  std::vector<RowOffset> begin = {0, 2, 3, 6};
  std::vector<Column> columns = {0, 1, 4, 1, 2, 3};
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto set = open_memory_set(
      {.name = "mine", .width = 5, .row_begin = begin, .columns = columns, .values = values},
      Role::target);
  const auto refusal = [&](Index example) {
    return message_of<DataError>([&] {
      HostBatch batch;
      set->gather(std::vector<Index>{0, example}, batch);
    });
  };
  const std::string place = "data set \"mine\": example 2: ";
  const std::string advice =
      "; the data were changed while they were in use, leave the arrays as they are";
  for (const auto& [column, what] :
       {std::pair(Column(5), "column 5 is out of range, expected 0 to 4"),
        std::pair(~Column(0), "column 4294967295 is out of range, expected 0 to 4"),
        std::pair(Column(0), "column 0 stands after 1, expected ascending columns"),
        std::pair(Column(1), "column 1 occurs twice, which a target may not")}) {
    columns[4] = column;
    EXPECT_EQ(refusal(2), place + what + advice);
    EXPECT_EQ(refusal(1), "no error");
  }
  columns[4] = 2;
  values[5] = INFINITY;
  EXPECT_EQ(refusal(2), place + "a value is inf, expected a finite number" + advice);
  EXPECT_EQ(refusal(1), "no error");
  values[5] = 6;
  begin = {7, -1, 1000, Index(1) << 60};  // copied when the set was opened
  EXPECT_EQ(values_of(*set, {2, 1}), (std::vector<float>{4, 5, 6, 3}));

  std::vector<float> dense = {1, 2, 3, 4, 5, 6};
  const auto whole = open_memory_set({.name = "whole", .width = 2, .dense = dense}, Role::input);
  dense[3] = NAN;
  HostBatch batch;
  EXPECT_EQ(message_of<DataError>([&] {
              whole->gather(std::vector<Index>{2, 1}, batch);
            }),
            "data set \"whole\": example 1: unit 1 is nan, expected a finite number" + advice);
}

// Lengths about those of the blocks and lanes in which values are looked at.
TEST(MemorySet, FindsTheOneValueThatIsNotFinite) {
  const unsigned seed = fresh_seed();
  std::mt19937 random(seed);
  for (const Index size : {1, 7, 8, 9, 1023, 1024, 1025, 2048, 3001}) {
    std::vector<float> dense(std::size_t(size), 3e38f);
    const auto wrong = std::size_t(random()) % dense.size();
    dense[wrong] = random() % 2 == 0 ? -INFINITY : NAN;
    EXPECT_THAT(message_of<DataError>([&] {
                  open_memory_set({.name = "whole", .width = 1, .dense = dense}, Role::input);
                }),
                HasSubstr(fmt::format("example {}: unit 0 is ", wrong)))
        << "seed " << seed << ", size " << size;
    dense[wrong] = -1e-45f;
    EXPECT_EQ(open_memory_set({.name = "whole", .width = 1, .dense = dense}, Role::input)
                  ->info()
                  .examples,
              size);
  }
}

TEST(MemorySet, RefusesArraysThatDoNotFitEachOther) {
  const std::vector<RowOffset> begin = {0, 2, 3};
  const std::vector<Column> columns = {0, 1, 2};
  const std::vector<float> two = {1.0f, 2.0f};
  const MemorySet good{.name = "mine", .width = 3, .row_begin = begin, .columns = columns};
  const auto expect = [&](const std::string& what, const auto& change) {
    MemorySet set = good;
    change(set);
    EXPECT_EQ(message_of<DataError>([&] { describe(set); }),
              "data set \"mine\": " + what + "; correct the data");
  };
  EXPECT_EQ(describe(good).examples, 2);
  expect("its width is -3, expected at least 1", [](MemorySet& set) { set.width = -3; });
  expect("row_begin has 0 offsets, expected one more than there are examples",
         [](MemorySet& set) { set.row_begin = {}; });
  const std::vector<RowOffset> late = {1, 2, 3};
  expect("row_begin begins with 1, expected 0", [&](MemorySet& set) { set.row_begin = late; });
  const std::vector<RowOffset> falling = {0, -5, 3};
  expect("row_begin[1] is -5, less than the offset before it, 0",
         [&](MemorySet& set) { set.row_begin = falling; });
  const std::vector<RowOffset> beyond = {0, 2, 6};
  expect("row_begin ends with 6, expected the number of columns, 3",
         [&](MemorySet& set) { set.row_begin = beyond; });
  expect("it has 2 values for 3 columns, expected one a column or none",
         [&](MemorySet& set) { set.values = two; });
  expect("1 weights for 2 examples",
         [&](MemorySet& set) { set.weights = std::span(two).first(1); });
  expect("4 labels for 3 units", [](MemorySet& set) { set.unit_labels = LabelTable::numbers(4); });
}

TEST(MemorySet, RefusesDenseArraysThatAreNoRows) {
  const std::vector<float> five(5, 1.0f);
  const std::vector<Column> columns = {0};
  MemorySet set{.name = "mine", .width = 2, .dense = five};
  EXPECT_EQ(message_of<DataError>([&] { describe(set); }),
            "data set \"mine\": 5 dense values are no rows of 2; correct the data");
  set.width = 5;
  EXPECT_EQ(describe(set).examples, 1);
  set.columns = columns;
  EXPECT_EQ(message_of<DataError>([&] { describe(set); }),
            "data set \"mine\": it has dense values and rows of columns, expected one of them; "
            "correct the data");
  set.width = 0;
  EXPECT_EQ(message_of<DataError>([&] { describe(set); }),
            "data set \"mine\": its width is 0, expected at least 1; correct the data");
}

}  // namespace
}  // namespace norn
