// SPDX-License-Identifier: Apache-2.0
// Data sets that we write are read back the same, whatever their kind and however they are read.

#include "src/data/dataset_writer.h"

#include "support.h"
#include "tests/support/memory_datasets.h"

#include <array>
#include <numeric>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Rows = std::vector<std::vector<float>>;

/// Random sparse rows: some empty, one full, columns in no order.
struct SparseRows {
  std::vector<Index> sizes;
  std::vector<Column> columns;
  std::vector<float> values;
  Rows dense;

  SparseRows(Index rows, Index width, bool valued, std::mt19937& random) {
    for (Index r = 0; r < rows; ++r) {
      std::vector<Column> all(std::size_t(width), 0);
      std::iota(all.begin(), all.end(), Column(0));
      std::shuffle(all.begin(), all.end(), random);
      const Index size = r == 0 ? width : std::min<Index>(width, Index(random() % 9));
      sizes.push_back(size);
      dense.emplace_back(std::size_t(width), 0.0f);
      for (Index k = 0; k < size; ++k) {
        const float value = valued ? float(random() % 1000) / 7.0f - 50.0f : 1.0f;
        columns.push_back(all[std::size_t(k)]);
        if (valued) values.push_back(value);
        dense.back()[all[std::size_t(k)]] = value;
      }
    }
  }
};

DatasetInfo sparse_info(const std::string& name, Index rows, Index width, const SparseRows& data) {
  DatasetInfo info;
  info.name = name;
  info.sparse = true;
  info.boolean = data.values.empty();
  info.type = data.values.empty() ? ElementType::uint32 : ElementType::float32;
  info.extent[0] = width;
  info.examples = info.unique_examples = rows;
  info.entries = Index(data.columns.size());
  return info;
}

/// Appends rows in pieces of `piece`.
void append(DatasetWriter& writer, int set, const SparseRows& data, std::size_t piece) {
  Index entry = 0;
  for (std::size_t row = 0; row < data.sizes.size(); row += piece) {
    const std::size_t rows = std::min(piece, data.sizes.size() - row);
    const std::span<const Index> sizes(data.sizes.data() + row, rows);
    const Index entries = std::accumulate(sizes.begin(), sizes.end(), Index(0));
    writer.append_rows(set, sizes, {data.columns.data() + entry, std::size_t(entries)},
                       data.values.empty() ? std::span<const float>()
                                           : std::span<const float>(data.values.data() + entry,
                                                                    std::size_t(entries)));
    entry += entries;
  }
}

TEST(DatasetWriter, SeveralSetsComeBackTheSameInMemoryAndStreaming) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  const Index rows = 50, width = 23;
  const SparseRows boolean(rows, width, false, random), valued(rows, width, true, random);
  std::vector<std::string> names;
  for (Index r = 0; r < rows; ++r) names.push_back("example-" + std::to_string(random() % 100000));
  const std::vector<std::string_view> labels(names.begin(), names.end());
  std::vector<DatasetInfo> infos = {sparse_info("in", rows, width, boolean),
                                    sparse_info("out", rows, width, valued)};
  for (const auto& name : names) infos[0].label_bytes += Index(name.size());
  infos[1].label_set = 0;
  {
    DatasetWriter writer(folder / "x.nc", infos);
    append(writer, 0, boolean, 7);
    append(writer, 1, valued, 11);
    writer.append_labels(0, std::span(labels).first(20));
    writer.append_labels(0, std::span(labels).subspan(20));
    EXPECT_FALSE(std::filesystem::exists(folder / "x.nc"));
    writer.commit();
  }
  const auto read = list_datasets(folder / "x.nc");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].name, "out");
  EXPECT_EQ(read[1].width(), width) << "the width is the true one, without padding";
  EXPECT_EQ(read_example_labels(read[0]), names);
  EXPECT_EQ(read_example_labels(read[1]), names);
  for (const Residency residency : {Residency::memory, Residency::stream}) {
    const auto in = open_dataset(read[0], residency, Role::input);
    const auto out = open_dataset(read[1], residency, Role::target);
    EXPECT_EQ(dense_rows(*in, 8), boolean.dense);
    EXPECT_EQ(dense_rows(*out, 13), valued.dense);
    EXPECT_EQ(in->info().empty_rows, std::count(boolean.sizes.begin(), boolean.sizes.end(), 0));
    // Rows far apart and repeated, as a shuffled batch has them.
    std::vector<Index> order(std::size_t(rows) * 2, 0);
    for (Index& example : order) example = Index(random() % rows);
    HostBatch batch;
    out->gather(order, batch);
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::vector<float> row(std::size_t(width), 0.0f);
      const CsrView csr = batch.csr();
      for (RowOffset k = csr.row_begin[i]; k < csr.row_begin[i + 1]; ++k) {
        EXPECT_TRUE(k == csr.row_begin[i] || csr.column[k - 1] < csr.column[k]);
        row[csr.column[k]] = csr.value[k];
      }
      EXPECT_EQ(row, valued.dense[std::size_t(order[i])]);
    }
  }
}

TEST(DatasetWriter, DenseSetsOfEveryElementTypeComeBackTheSame) {
  const TempDir folder;
  const std::vector<float> values = {0, 1, 100, 127, 5, 64};
  for (int type = 0; type < 10; ++type) {
    SCOPED_TRACE(type);
    DatasetInfo info;
    info.name = "dense";
    info.type = ElementType(type);
    info.dimensions = 2;
    info.extent = {3, 1, 1};
    info.examples = info.unique_examples = 2;
    DatasetWriter writer(folder / "x.nc", {info});
    writer.append_values(0, std::span(values).first(3));
    writer.append_values(0, std::span(values).subspan(3));
    writer.commit();
    const auto set =
        open_dataset(list_datasets(folder / "x.nc").at(0), Residency::stream, Role::target);
    const float scale = type == 6 || type == 8 ? 256 : type == 7 ? 65536 : type == 9 ? 128 : 1;
    const Rows rows = dense_rows(*set, 2);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(rows[i / 3][i % 3], values[i] / scale);
  }
}

TEST(DatasetWriter, ClassesIndexAndWeightsComeBackTheSame) {
  const TempDir folder;
  DatasetInfo info;
  info.name = "classes";
  info.boolean = info.indexed = info.weighted = true;
  info.extent[0] = 10;
  info.examples = 4;
  info.unique_examples = 2;
  DatasetWriter writer(folder / "x.nc", {info});
  writer.append_classes(0, std::array<Column, 2>{7, 3});
  writer.append_index(0, std::array<Column, 4>{1, 0, 0, 1});
  writer.append_weights(0, std::array<float, 4>{1, 2, 3, 0.5f});
  writer.commit();
  for (const Residency residency : {Residency::memory, Residency::stream}) {
    const auto set = open_dataset(list_datasets(folder / "x.nc").at(0), residency, Role::target);
    HostBatch batch;
    set->gather(std::vector<Index>{3, 2, 1, 0}, batch);
    EXPECT_THAT(std::vector(batch.csr().column, batch.csr().column + 4),
                ::testing::ElementsAre(3u, 7u, 7u, 3u));
    EXPECT_THAT(batch.weight, ::testing::ElementsAre(0.5f, 3, 2, 1));
  }
}

TEST(DatasetWriter, RefusesContradictionsAndKeepsWhatWasThere) {
  const TempDir folder;
  write_text(folder / "x.nc", "precious");
  std::mt19937 random(fresh_seed());
  const SparseRows data(4, 5, false, random);
  const DatasetInfo info = sparse_info("s", 4, 5, data);
  {
    DatasetWriter writer(folder / "x.nc", {info});
    EXPECT_THAT(message_of<ShapeError>([&] {
                  writer.append_rows(0, std::array<Index, 1>{1}, std::array<Column, 1>{5});
                }),
                HasSubstr("a column lies beyond the width"));
    EXPECT_THAT(message_of<ShapeError>([&] { writer.commit(); }),
                HasSubstr("less was written than was announced"));
    append(writer, 0, data, 4);
    EXPECT_THAT(message_of<ShapeError>([&] { append(writer, 0, data, 4); }),
                HasSubstr("more rows or entries than were announced"));
  }
  DatasetInfo narrow = info;
  narrow.extent[0] = 0;
  EXPECT_THAT(message_of<ShapeError>([&] { DatasetWriter(folder / "x.nc", {narrow}); }),
              HasSubstr("its width is 0"));
  EXPECT_EQ(read_text(folder / "x.nc"), "precious");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "temporary files are gone";
  EXPECT_THAT(message_of([&] { DatasetWriter(folder / "none" / "x.nc", {info}); }),
              HasSubstr("does not exist"));
}

TEST(DatasetWriter, NamesTheFileWhenTheDiskIsFull) {
  // A file system of limited size is not to be had without privileges; a limit on file sizes is.
  const TempDir folder;
  const std::string file = (folder / "full.nc").string();
  DatasetInfo info;
  info.name = "big";
  info.type = ElementType::float32;
  info.extent[0] = 1 << 16;
  info.examples = info.unique_examples = 64;
  const auto write = [&] {
    DatasetWriter writer(file, {info});
    const std::vector<float> row(std::size_t(info.width()), 1.0f);
    for (Index r = 0; r < info.examples; ++r) writer.append_values(0, row);
    writer.commit();
  };
  const std::string message = with_file_size_limit(1 << 20, [&] { return message_of(write); });
  EXPECT_THAT(message,
              MatchesRegex(file + ": cannot (write variable \"data0\"|finish): NetCDF: .*; check "
                                  "the disk's free space and permissions"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write();
  EXPECT_EQ(list_datasets(file).size(), 1u);
}

TEST(DatasetWriter, ALabelWithAByteOfZeroIsRefused) {
  const TempDir folder;
  std::mt19937 random(1);
  const SparseRows rows(2, 5, false, random);
  std::vector<DatasetInfo> infos = {sparse_info("in", 2, 5, rows)};
  infos[0].label_bytes = 4;
  DatasetWriter writer(folder / "x.nc", infos);
  const std::vector<std::string_view> labels = {"a", std::string_view("b\0c", 3)};
  EXPECT_EQ(
      message_of([&] { writer.append_labels(0, labels); }),
      "the label \"b\\x00c\" of an example has a byte of zero, which a label may not; rename it");
}

TEST(DatasetWriter, ASetWithoutEntriesIsOneOfEmptyRows) {
  const TempDir folder;
  for (const bool valued : {false, true}) {
    DatasetInfo info;
    info.name = "d";
    info.sparse = true;
    info.boolean = !valued;
    info.type = ElementType::float32;
    info.extent[0] = 3;
    info.examples = info.unique_examples = 4;
    DatasetWriter writer(folder / "x.nc", {info});
    writer.append_rows(0, std::vector<Index>(4, 0), {});
    writer.commit();
    const DatasetInfo read = list_datasets(folder / "x.nc").front();
    for (const Residency residency : {Residency::memory, Residency::stream}) {
      const auto set = open_dataset(read, residency, Role::target);
      EXPECT_EQ(set->row_entries(), 0);
      EXPECT_EQ(set->info().empty_rows, 4);
      EXPECT_EQ(dense_rows(*set, 3), Rows(4, std::vector<float>(3, 0)));
    }
  }
}

TEST(MemoryDataset, ChecksItsContentsAndSortsRows) {
  const auto set = make_sparse_dataset("s", 4, {0, 3, 3, 4}, {3, 0, 2, 1}, {30, 0.5f, 20, 10});
  EXPECT_EQ(dense_rows(*set, 2), (Rows{{0.5f, 0, 20, 30}, {0, 0, 0, 0}, {0, 10, 0, 0}}));
  EXPECT_EQ(set->info().empty_rows, 1);
  EXPECT_THAT(message_of([] {
                make_sparse_dataset("s", 4, {0, 2}, {1, 4});
              }),
              HasSubstr("data set \"s\": example 0: column 4 is out of range, expected 0 to 3"));
  EXPECT_THAT(message_of([] {
                make_sparse_dataset("s", 4, {0, 1}, {1}, {INFINITY});
              }),
              HasSubstr("example 0: a value is inf"));
  EXPECT_THAT(message_of([] {
                make_sparse_dataset("s", 4, {0, 2}, {1});
              }),
              HasSubstr("row_begin ends with 2, expected the number of columns, 1"));
  EXPECT_THAT(message_of([] {
                make_dense_dataset("d", 2, {1, 2, 3, NAN});
              }),
              HasSubstr("data set \"d\": example 1: unit 1 is nan"));
  EXPECT_THAT(message_of([] {
                make_dense_dataset("d", 2, {1, 2, 3});
              }),
              HasSubstr("3 dense values are no rows of 2"));
}

}  // namespace
}  // namespace norn
