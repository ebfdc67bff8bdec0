// SPDX-License-Identifier: Apache-2.0
// Checksums of data: the same for the same contents, others for others.
#include "src/data/contents_checksum.h"

#include "support.h"
#include "tests/support/memory_datasets.h"

#include <numeric>
#include <set>

namespace norn {
namespace {

std::uint64_t of_sparse(std::vector<RowOffset> begin, std::vector<Column> columns,
                        std::vector<float> values = {}, Index width = 9) {
  const auto set = make_sparse_dataset("set", width, std::move(begin), std::move(columns), values);
  return contents_checksum(*set);
}

TEST(ContentsChecksum, TellsSparseSetsApart) {
  const std::set<std::uint64_t> all = {
      of_sparse({0, 2, 3}, {1, 5, 7}),
      of_sparse({0, 2, 3}, {1, 5, 8}),
      of_sparse({0, 2, 3}, {1, 7, 5}),
      of_sparse({0, 1, 3}, {1, 5, 7}),
      of_sparse({0, 2, 3, 3}, {1, 5, 7}),
      of_sparse({0, 2, 3}, {1, 5, 7}, {}, 10),
      of_sparse({0, 2, 3}, {1, 5, 7}, {1, 1, 1}),
      of_sparse({0, 2, 3}, {1, 5, 7}, {1, 2, 1}),
      of_sparse({0, 2, 3}, {1, 5, 7}, {2, 1, 1}),
  };
  EXPECT_EQ(all.size(), 9u);
  EXPECT_EQ(of_sparse({0, 2, 3}, {1, 5, 7}), of_sparse({0, 2, 3}, {1, 5, 7}));
  EXPECT_EQ(of_sparse({0, 2, 3}, {1, 5, 7}), of_sparse({0, 2, 3}, {5, 1, 7}))
      << "batches hold columns in order";
}

// A row of a later part that is longer by what the next is shorter.
TEST(ContentsChecksum, TellsLengthsOfLaterPartsApart) {
  constexpr Index kPart = Index(1) << 20;
  std::mt19937 random(fresh_seed());
  const Index rows = 2 * kPart + Index(random() % 100);
  const std::vector<Column> columns(std::size_t(rows), 3);
  std::vector<RowOffset> begin(std::size_t(rows) + 1);
  std::iota(begin.begin(), begin.end(), RowOffset(0));
  const std::uint64_t before = of_sparse(begin, columns);
  const std::size_t row = std::size_t(kPart) + 1 + random() % std::size_t(rows - kPart - 2);
  ++begin[row];
  EXPECT_NE(of_sparse(begin, columns), before) << row;
}

TEST(ContentsChecksum, TellsDenseSetsApart) {
  const auto of = [](Index width, std::vector<float> values) {
    return contents_checksum(*make_dense_dataset("set", width, std::move(values)));
  };
  const std::set<std::uint64_t> all = {of(2, {1, 2, 3, 4}), of(2, {1, 2, 4, 3}),
                                       of(4, {1, 2, 3, 4}), of(2, {1, 2, 3, 5})};
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(of(2, {1, 2, 3, 4}), of(2, {1, 2, 3, 4}));
}

// A dense set of one column, whose rows are their numbers, or in part others; counts what is read.
class Numbers final : public Dataset {
 public:
  Numbers(Index rows, Index changed)
      : Dataset([&] {
          DatasetInfo info;
          info.examples = info.unique_examples = rows;
          return info;
        }()),
        changed_(changed) {}
  void gather(std::span<const Index>, HostBatch&) override {}
  void locate(std::span<const Index>, HostBatch&) override {}
  void read_rows(Index first, Index count, HostBatch& batch) override {
    batch.is_sparse = false;
    batch.examples = count;
    if (batch.dense.rows() < count) batch.dense = Matrix<float>(count, 1);
    for (Index r = 0; r < count; ++r) batch.dense.view()(r, 0) = float(first + r);
    if (changed_ >= first && changed_ < first + count) batch.dense.view()(changed_ - first, 0) = -1;
    read += count;
  }
  RowOffset row_entries() const override { return 0; }
  Index read = 0;

 private:
  Index changed_;
};

TEST(ContentsChecksum, OfSomePartsReadsThoseAlone) {
  constexpr Index kPart = Index(1) << 20;
  for (const Index rows : {Index(1), kPart, 3 * kPart, 3 * kPart + 1, 7 * kPart - 1}) {
    SCOPED_TRACE(rows);
    Numbers whole(rows, -1);
    Numbers parts(rows, -1);
    Numbers changed(rows, 0);
    const std::uint64_t sum = contents_checksum(parts, 3);
    EXPECT_EQ(contents_checksum(whole) == sum, rows <= 3 * kPart);
    EXPECT_NE(contents_checksum(changed, 3), sum);
    EXPECT_EQ(whole.read, rows);
    EXPECT_LE(parts.read, 3 * kPart);
    EXPECT_GE(parts.read, std::min(rows, 2 * kPart));
  }
}

// More entries than are read at a time, in rows of very different lengths.
TEST(ContentsChecksum, OfManyPartsCountsTheLastEntry) {
  std::mt19937_64 random(fresh_seed());
  const Index width = 200000;
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  for (int row = 0; row < 120; ++row) {
    const Index step = 1 + Index(random() % 20);
    for (Index c = Index(random() % 7); c < width; c += step) columns.push_back(Column(c));
    begin.push_back(RowOffset(columns.size()));
  }
  ASSERT_GT(columns.size(), std::size_t(1) << 20);
  const std::uint64_t whole = of_sparse(begin, columns, {}, width);
  EXPECT_EQ(of_sparse(begin, columns, {}, width), whole);
  columns.pop_back();
  begin.back() -= 1;
  EXPECT_NE(of_sparse(begin, columns, {}, width), whole);
}

std::string indexed_cdl(const std::string& index, const std::string& weight) {
  return "netcdf x { dimensions: examplesDim0 = 3; uniqueExamplesDim0 = 2; sparseDataDim0 = 3; "
         "variables: uint sparseStart0(uniqueExamplesDim0), sparseEnd0(uniqueExamplesDim0); "
         "uint sparseIndex0(sparseDataDim0); uint index0(examplesDim0); "
         "float dataWeight0(examplesDim0); "
         ":datasets = 1u; :name0 = \"gl_input\"; :attributes0 = 195u; :kind0 = 0u; "
         ":dataType0 = 0u; :dimensions0 = 1u; :width0 = 7u; "
         "data: sparseStart0 = 0, 2; sparseEnd0 = 2, 3; sparseIndex0 = 1, 4, 6; index0 = " +
         index + "; dataWeight0 = " + weight + "; }";
}

TEST(ContentsChecksum, CountsIndexAndWeightsAndNotTheResidency) {
  const TempDir folder;
  std::set<std::uint64_t> all;
  int number = 0;
  for (const auto& [index, weight] :
       {std::pair{"0, 1, 1", "1, 1, 2"}, {"1, 0, 1", "1, 1, 2"}, {"0, 1, 1", "2, 1, 1"}}) {
    const auto file = folder / ("x" + std::to_string(number++) + ".nc");
    write_cdl(file, indexed_cdl(index, weight));
    const DatasetInfo info = list_datasets(file).at(0);
    ASSERT_TRUE(info.indexed && info.weighted);
    const auto memory = open_dataset(info, Residency::memory, Role::input);
    const auto stream = open_dataset(info, Residency::stream, Role::input);
    EXPECT_EQ(contents_checksum(*memory), contents_checksum(*stream));
    all.insert(contents_checksum(*memory));
  }
  EXPECT_EQ(all.size(), 3u);
}

TEST(FileChecksum, CountsEveryByteAndTheLength) {
  const TempDir folder;
  std::set<std::uint64_t> all;
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("a\0", 2), std::string("b"),
        std::string(5 << 20, 'x'), std::string((5 << 20) + 1, 'x')}) {
    write_text(folder / "file", text);
    all.insert(file_checksum(folder / "file"));
    EXPECT_EQ(file_checksum(folder / "file"), file_checksum(folder / "file"));
  }
  EXPECT_EQ(all.size(), 6u);
  EXPECT_THROW(file_checksum(folder / "none"), DataError);
  EXPECT_THROW(file_checksum(folder.path()), DataError);
  EXPECT_EQ(checksum_text(255), "00000000000000ff");
}

}  // namespace
}  // namespace norn
