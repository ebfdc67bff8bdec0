// SPDX-License-Identifier: Apache-2.0
// Data sets of every kind, written by ncgen from CDL text: an independent reading of the format.

#include "src/data/dataset.h"
#include "support.h"
#include "tests/support/memory_datasets.h"

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<float>>;

/// Reads set `number` of a file in memory and streaming, and expects the same of both.
Rows rows_of(const std::filesystem::path& file, int number, Role role) {
  const DatasetInfo info = list_datasets(file).at(std::size_t(number));
  const auto memory = open_dataset(info, Residency::memory, role);
  const auto stream = open_dataset(info, Residency::stream, role);
  const Rows rows = dense_rows(*memory, 3);
  EXPECT_EQ(rows, dense_rows(*stream, 2));
  return rows;
}

/// A file with one sparse boolean set of width 7; the pieces can be replaced.
struct SparseCdl {
  std::string dimensions = "examplesDim0 = 3; sparseDataDim0 = 7;";
  std::string variables =
      "uint sparseStart0(examplesDim0), sparseEnd0(examplesDim0); "
      "uint sparseIndex0(sparseDataDim0);";
  std::string attributes =
      ":datasets = 1u; :name0 = \"gl_input\"; :attributes0 = 3u; "
      ":kind0 = 0u; :dataType0 = 0u; :dimensions0 = 1u; :width0 = 7u;";
  std::string start = "0, 2, 2";
  std::string end = "2, 2, 7";
  std::string index = "5, 1, 6, 0, 2, 4, 3";
  std::string more;

  std::string text() const {
    return "netcdf x { dimensions: " + dimensions + " variables: " + variables + attributes +
           " data: sparseStart0 = " + start + "; sparseEnd0 = " + end +
           "; sparseIndex0 = " + index + "; " + more + " }";
  }
};

TEST(DatasetFile, ReadsSparseBooleanRowsInColumnOrder) {
  const TempDir folder;
  write_cdl(folder / "x.nc", SparseCdl{}.text());
  const DatasetInfo info = list_datasets(folder / "x.nc").at(0);
  EXPECT_EQ(info.name, "gl_input");
  EXPECT_TRUE(info.sparse && info.boolean && info.gives_sparse_batches());
  EXPECT_EQ(info.width(), 7);
  EXPECT_EQ(info.examples, 3);
  EXPECT_EQ(info.entries, 7);
  EXPECT_DOUBLE_EQ(info.density(), 7.0 / 21);
  for (const Residency residency : {Residency::memory, Residency::stream}) {
    const auto set = open_dataset(info, residency, Role::input);
    EXPECT_EQ(set->info().empty_rows, 1);
    HostBatch batch;
    set->gather(std::vector<Index>{2, 0, 1, 2}, batch);
    const CsrView csr = batch.csr();
    EXPECT_THAT(std::vector(csr.row_begin, csr.row_begin + 5), ElementsAre(0, 5, 7, 7, 12));
    EXPECT_THAT(std::vector(csr.column, csr.column + 12),
                ElementsAre(0u, 2u, 3u, 4u, 6u, 1u, 5u, 0u, 2u, 3u, 4u, 6u));
    EXPECT_EQ(csr.value, nullptr);
    EXPECT_EQ(csr.cols, 7);
    EXPECT_THAT(batch.example, ElementsAre(2, 0, 1, 2));
    EXPECT_TRUE(batch.weight.empty());
  }
}

TEST(DatasetFile, ReadsOverlappingRowsWithGapsAnd64BitOffsets) {
  const TempDir folder;
  SparseCdl cdl;
  cdl.variables =
      "uint64 sparseStart0(examplesDim0), sparseEnd0(examplesDim0); "
      "uint sparseIndex0(sparseDataDim0);";
  cdl.start = "4, 0, 1";
  cdl.end = "6, 3, 5";
  write_cdl(folder / "x.nc", cdl.text());
  EXPECT_EQ(rows_of(folder / "x.nc", 0, Role::input),
            (Rows{{0, 0, 1, 0, 1, 0, 0}, {0, 1, 0, 0, 0, 1, 1}, {1, 1, 1, 0, 0, 0, 1}}));
}

TEST(DatasetFile, ReadsValuesOfEveryNumberType) {
  const TempDir folder;
  const struct {
    const char* cdl_type;
    int number;
    const char* literals;
    std::vector<float> expected;
  } kCases[] = {
      {"uint", 0, "7u, 4000000000u, 1u", {7, 4e9f, 1}},
      {"int", 1, "-7, 8, 9", {-7, 8, 9}},
      {"int64", 2, "-70000000000ll, 8ll, 9ll", {-7e10f, 8, 9}},
      {"uint64", 3, "18446744073709551615ull, 8ull, 9ull", {18446744073709551615.0f, 8, 9}},
      {"float", 4, "0.25f, -1.5f, 3e-5f", {0.25f, -1.5f, 3e-5f}},
      {"double", 5, "0.1, -1.5, 3e-5", {0.1f, -1.5f, 3e-5f}},
      {"ubyte", 6, "0ub, 128ub, 255ub", {0, 0.5f, 255.0f / 256}},
      {"ushort", 7, "0us, 32768us, 65535us", {0, 0.5f, 65535.0f / 65536}},
      {"ubyte", 8, "0ub, 64ub, 255ub", {0, 0.25f, 255.0f / 256}},
      {"byte", 9, "-128b, 64b, 127b", {-1, 0.5f, 127.0f / 128}},
      // Numbers that another writer has stored wider than they are.
      {"float", 6, "0.f, 128.f, 255.f", {0, 0.5f, 255.0f / 256}},
      {"double", 7, "0, 32768, 65535", {0, 0.5f, 65535.0f / 65536}},
      {"int", 9, "-128, 64, 127", {-1, 0.5f, 127.0f / 128}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.cdl_type);
    const std::string values = c.literals;
    write_cdl(
        folder / "x.nc",
        std::string("netcdf x { dimensions: dataDim0 = 3; examplesDim0 = 1; sparseDataDim1 = "
                    "3; examplesDim1 = 1; variables: ") +
            c.cdl_type +
            " data0(dataDim0), sparseData1(sparseDataDim1); uint "
            "sparseStart1(examplesDim1), sparseEnd1(examplesDim1), "
            "sparseIndex1(sparseDataDim1); :datasets = 2u; :name0 = \"dense\"; :attributes0 = "
            "0u; :dataType0 = " +
            std::to_string(c.number) +
            "u; :dimensions0 = 1u; :width0 = 3u; :name1 = \"sparse\"; :attributes1 = 1u; "
            ":dataType1 = " +
            std::to_string(c.number) + "u; :dimensions1 = 1u; :width1 = 3u; data: data0 = " +
            values + "; sparseData1 = " + values +
            "; sparseStart1 = 0; sparseEnd1 = 3; sparseIndex1 = 0, 1, 2; }");
    const Rows expected = {c.expected};
    EXPECT_EQ(rows_of(folder / "x.nc", 0, Role::target), expected);
    EXPECT_EQ(rows_of(folder / "x.nc", 1, Role::target), expected);
    EXPECT_EQ(rows_of(folder / "x.nc", 1, Role::input), expected);
    Rows input = expected;
    for (float& value : input[0]) value -= (c.number >= 6 && c.number <= 8) ? 0.5f : 0.0f;
    EXPECT_EQ(rows_of(folder / "x.nc", 0, Role::input), input);
  }
}

TEST(DatasetFile, ReadsClassLabelsIndexWeightsAndOldSpellings) {
  const TempDir folder;
  write_cdl(folder / "x.nc", R"(netcdf x {
    dimensions: examplesDim0 = 4; uniqueExamplesDim0 = 2; dataDim0 = 12; examplesDim1 = 4; dataDim1 = 4;
    variables: float data0(dataDim0); uint index0(examplesDim0); float dataWeight0(examplesDim0);
      uint data1(dataDim1);
      :datasets = 2u; :name0 = "pictures"; :attributes0 = 192u; :datatype0 = 4u; :kind0 = 1u;
      :dimension0 = 3u; :width0 = 3u; :height0 = 2u; :length0 = 1u;
      :name1 = "classes"; :attributes1 = 34u; :dataType1 = 0u; :dimensions1 = 1u; :width1 = 10u;
    data: data0 = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12; index0 = 1, 0, 0, 1;
      dataWeight0 = 1, 0.5, 2, 3; data1 = 9, 0, 3, 3; })");
  const auto infos = list_datasets(folder / "x.nc");
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_TRUE(infos[0].indexed && infos[0].weighted && !infos[0].gives_sparse_batches());
  EXPECT_EQ(infos[0].dimensions, 3);
  EXPECT_EQ(infos[0].width(), 6);
  EXPECT_TRUE(infos[1].boolean && infos[1].gives_sparse_batches() && infos[1].sparse_ignore_zero);
  EXPECT_EQ(
      rows_of(folder / "x.nc", 0, Role::input),
      (Rows{{7, 8, 9, 10, 11, 12}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}));
  const auto set = open_dataset(infos[0], Residency::stream, Role::input);
  HostBatch batch;
  set->gather(std::vector<Index>{3, 1}, batch);
  EXPECT_THAT(batch.weight, ElementsAre(3.0f, 0.5f));
  const Rows classes = rows_of(folder / "x.nc", 1, Role::target);
  EXPECT_EQ(classes[0][9], 1.0f);
  EXPECT_EQ(classes[1][0], 1.0f);
  EXPECT_EQ(classes[3], classes[2]);
}

TEST(DatasetFile, RefusesWhatIsNotADataSetFile) {
  const TempDir folder;
  EXPECT_THAT(message_of([&] { list_datasets(folder / "none.nc"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { list_datasets(folder.path()); }), HasSubstr("is a folder"));
  write_text(folder / "text.nc", "this is not NetCDF\n");
  EXPECT_THAT(message_of([&] { list_datasets(folder / "text.nc"); }),
              HasSubstr("text.nc: cannot read as a NetCDF file: NetCDF: Unknown file format"));
  write_cdl(folder / "x.nc", SparseCdl{}.text());
  const std::string whole = read_text(folder / "x.nc");
  write_text(folder / "cut.nc", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(message_of([&] { list_datasets(folder / "cut.nc"); }),
              HasSubstr("cut.nc: cannot read as a NetCDF file"));
  write_cdl(folder / "other.nc",
            "netcdf x { dimensions: a = 1; variables: int b(a); data: b = 1; }");
  EXPECT_THAT(message_of([&] { list_datasets(folder / "other.nc"); }),
              HasSubstr("attribute \"datasets\" is missing"));
}

/// Opens set 0 of the file and reads all of it.
std::string error_of(const std::filesystem::path& file, Residency residency, Role role) {
  return message_of([&] {
    const auto set = open_dataset(list_datasets(file).at(0), residency, role);
    dense_rows(*set, 2);
  });
}

TEST(DatasetFile, NamesFileSetExampleAndValueOfEveryDefect) {
  const TempDir folder;
  const auto expect = [&](const SparseCdl& cdl, const std::string& words, Role role = Role::input) {
    write_cdl(folder / "bad.nc", cdl.text());
    for (const Residency residency : {Residency::memory, Residency::stream}) {
      EXPECT_THAT(error_of(folder / "bad.nc", residency, role),
                  HasSubstr("bad.nc: data set \"gl_input\": " + words));
    }
  };
  SparseCdl beyond;
  beyond.index = "5, 1, 7, 0, 2, 4, 3";
  expect(beyond, "example 2: column 7 is out of range, expected 0 to 6; correct");
  SparseCdl crossed;
  crossed.end = "2, 1, 7";
  expect(crossed, "example 1: its entries are 2 to 1, expected an ordered range within 0 to 7");
  SparseCdl late;
  late.end = "2, 2, 8";
  expect(late, "example 2: its entries are 2 to 8");
  SparseCdl twice;
  twice.index = "5, 1, 6, 0, 6, 4, 3";
  expect(twice, "example 2: column 6 occurs twice, which a target may not", Role::target);
  write_cdl(folder / "twice.nc", twice.text());
  EXPECT_EQ(rows_of(folder / "twice.nc", 0, Role::input)[2][6], 2.0f);
  EXPECT_THAT(message_of([&] {
                open_dataset(list_datasets(folder / "twice.nc").at(0), Residency::memory,
                             Role::target);
              }),
              HasSubstr("column 6 occurs twice"))
      << "what is in memory is looked at before anything is trained";
  SparseCdl narrow;
  narrow.attributes =
      ":datasets = 1u; :name0 = \"gl_input\"; :attributes0 = 3u; :dataType0 = 0u; "
      ":dimensions0 = 1u; :width0 = 0u;";
  expect(narrow, "attribute width0 is 0, expected at least 1");
  SparseCdl valued;
  valued.attributes =
      ":datasets = 1u; :name0 = \"gl_input\"; :attributes0 = 1u; :dataType0 = 4u; "
      ":dimensions0 = 1u; :width0 = 7u;";
  expect(valued, "variable sparseData0 is missing");
  valued.variables += "float sparseData0(sparseDataDim0);";
  valued.more = "sparseData0 = 1, 2, 3, NaN, 5, 6, 7;";
  expect(valued, "example 2: a value is nan, expected a finite number");
  valued.variables.replace(valued.variables.find("float"), 5, "double");
  valued.more = "sparseData0 = 1, 2, 3, 4, 5, 6, 1e300;";
  expect(valued, "example 2: a value is inf");
}

TEST(DatasetFile, RefusesTwoSetsOfOneName) {
  const TempDir folder;
  SparseCdl two;
  two.dimensions += "examplesDim1 = 1; sparseDataDim1 = 2;";
  two.variables +=
      "uint sparseStart1(examplesDim1), sparseEnd1(examplesDim1); "
      "uint sparseIndex1(sparseDataDim1);";
  two.more = "sparseStart1 = 0; sparseEnd1 = 2; sparseIndex1 = 0, 3;";
  for (const std::string name : {"gl_input", "gl_output"}) {
    two.attributes =
        SparseCdl().attributes.replace(0, 15, ":datasets = 2u;") + ":name1 = \"" + name +
        "\"; :attributes1 = 3u; :kind1 = 0u; :dataType1 = 0u; :dimensions1 = 1u; :width1 = 7u;";
    write_cdl(folder / "two.nc", two.text());
    EXPECT_EQ(message_of([&] { list_datasets(folder / "two.nc"); }),
              name == "gl_output"
                  ? "no error"
                  : (folder / "two.nc").string() +
                        ": two data sets are named \"gl_input\"; names must differ");
  }
}

TEST(DatasetFile, NamesDefectsOfAttributesAndDenseSets) {
  const TempDir folder;
  const auto expect = [&](const std::string& attributes, const std::string& data,
                          const std::string& words) {
    write_cdl(
        folder / "bad.nc",
        "netcdf x { dimensions: dataDim0 = 4; examplesDim0 = 2; variables: float "
        "data0(dataDim0), dataWeight0(examplesDim0); uint index0(examplesDim0); :datasets = 1u;"
        ":name0 = \"d\"; " +
            attributes + " data: " + data + " }");
    EXPECT_THAT(error_of(folder / "bad.nc", Residency::memory, Role::input),
                HasSubstr("bad.nc: data set \"d\": " + words));
  };
  const std::string data = "data0 = 1, 2, 3, 4;";
  const std::string plain = ":dataType0 = 4u; :dimensions0 = 1u; :width0 = 2u; :attributes0 = ";
  expect(plain + "0u;", "data0 = 1, 2, NaN, 4;", "example 1: unit 0 is nan");
  expect(plain + "0u;", "data0 = 1, 2, 3, Infinity;", "example 1: unit 1 is inf");
  expect(plain + "128u;", data + "dataWeight0 = 1, Infinity;", "example 1: its weight is inf");
  expect(plain + "64u;", data + "index0 = 0, 2;", "example 1: index0 is 2, expected 0 to 1");
  expect(plain + "256u;", data, "attribute attributes0 is 256, which has unknown bits");
  expect(plain + "2u;", data, "variable data0 has 4 elements in 1 dimensions, expected 2 in one");
  expect(plain + "\"3\";", data, "attribute attributes0 is text, expected a whole number");
  expect(":attributes0 = 0u; :dimensions0 = 1u; :width0 = 2u;", data,
         "attribute dataType0 is missing");
  expect(":attributes0 = 0u; :dataType0 = 10u; :dimensions0 = 1u; :width0 = 2u;", data,
         "attribute dataType0 is 10, expected 0 to 9");
  expect(":attributes0 = 0u; :dataType0 = 4u; :dimensions0 = 4u; :width0 = 2u;", data,
         "attribute dimensions0 is 4, expected 1, 2 or 3");
  expect(":attributes0 = 0u; :dataType0 = 4u; :dimensions0 = 2u; :width0 = 2u;", data,
         "attribute height0 is missing");
  expect(":attributes0 = 0u; :dataType0 = 4u; :dimensions0 = 1u; :width0 = -2;", data,
         "attribute width0 is -2, expected a whole number >= 0");
}

TEST(DatasetFile, RefusesClassNumbersBeyondTheWidth) {
  const TempDir folder;
  write_cdl(folder / "x.nc", R"(netcdf x { dimensions: examplesDim0 = 3; dataDim0 = 3;
    variables: int data0(dataDim0); :datasets = 1u; :name0 = "c"; :attributes0 = 2u;
      :dataType0 = 1u; :dimensions0 = 1u; :width0 = 10u; data: data0 = 1, -1, 3; })");
  EXPECT_THAT(error_of(folder / "x.nc", Residency::memory, Role::target),
              HasSubstr("example 1: class -1 is out of range, expected 0 to 9"));
}

TEST(DatasetFile, RefusesExamplesThatItDoesNotHave) {
  const auto set = make_dense_dataset("d", 2, {1, 2, 3, 4});
  HostBatch batch;
  EXPECT_THAT(message_of<ShapeError>([&] { set->gather(std::vector<Index>{2}, batch); }),
              HasSubstr("example 2 was asked for, it has 0 to 1"));
}

}  // namespace
}  // namespace norn
