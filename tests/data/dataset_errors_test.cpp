// SPDX-License-Identifier: Apache-2.0
// What is said of data sets that cannot be read or written, word for word.

#include "src/data/batch_loader.h"
#include "src/data/dataset_writer.h"
#include "src/data/hold_out.h"
#include "support.h"
#include "tests/support/memory_datasets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::MatchesRegex;

/// A file in CDL with one set of width 3, of 2 examples.
std::string cdl(const std::string& dimensions, const std::string& variables,
                const std::string& attributes, const std::string& data) {
  return "netcdf x { dimensions: " + dimensions + " variables: " + variables +
         " :datasets = 1u; :name0 = \"d\"; :kind0 = 0u; :dimensions0 = 1u; " + attributes +
         " data: " + data + " }";
}

struct Sparse {
  std::string dimensions = "examplesDim0 = 2; sparseDataDim0 = 2;";
  std::string index_type = "uint";
  std::string labels = "";
  std::string label_data = "";

  std::string text() const {
    return cdl(dimensions,
               "uint sparseStart0(examplesDim0), sparseEnd0(examplesDim0); " + index_type +
                   " sparseIndex0(sparseDataDim0);" + labels,
               ":attributes0 = 3u; :dataType0 = 0u; :width0 = 3u;", label_data);
  }
};

struct Dense {
  std::string dimensions = "examplesDim0 = 2; dataDim0 = 6;";
  std::string more = "";
  int bits = 0;
  std::string width = "3u";
  std::string data = "";

  std::string text() const {
    return cdl(dimensions, "float data0(dataDim0);" + more,
               fmt::format(":attributes0 = {}u; :dataType0 = 4u; :width0 = {};", bits, width),
               "data0 = 1, 2, 3, 4, 5, 6; " + data);
  }
};

/// Opens the set, reads it and its labels.
std::string error_of(const std::filesystem::path& file) {
  return message_of([&] {
    const DatasetInfo info = list_datasets(file).at(0);
    read_example_labels(info);
    dense_rows(*open_dataset(info, Residency::stream, Role::input), 2);
  });
}

TEST(DatasetErrors, OfFilesThatAreDamagedOrOfAnotherKind) {
  const TempDir folder;
  const std::string file = (folder / "x.nc").string();
  const auto expect = [&](const std::string& text, const std::string& words) {
    write_cdl(folder / "x.nc", text);
    EXPECT_EQ(error_of(file), file + words);
  };
  expect(Sparse{.dimensions = "examplesDim0 = 2; sparseDataDim0 = UNLIMITED;"}.text(),
         ": data set \"d\": dimension sparseDataDim0 is 0, expected at least 1; write the file "
         "again with importer");
  expect(Dense{.dimensions = "other = 2; dataDim0 = 6;"}.text(),
         ": data set \"d\": dimension examplesDim0 is missing; write the file again with importer");
  expect(
      Dense{.dimensions = "examplesDim0 = 2; dataDim0 = 6; uniqueExamplesDim0 = UNLIMITED;"}.text(),
      ": data set \"d\": dimension uniqueExamplesDim0 is 0, expected at least 1; write the file "
      "again with importer");
  expect(Dense{.dimensions = "examplesDim0 = 2; dataDim0 = 6; uniqueExamplesDim0 = 1;"}.text(),
         ": data set \"d\": it stores 1 rows for 2 examples, but only an Indexed set shares rows; "
         "write the file again with importer");
  expect(Sparse{.index_type = "string"}.text(),
         ": data set \"d\": variable sparseIndex0 is not of a type of numbers; write the file "
         "again with importer");
  expect(Dense{.dimensions = "examplesDim0 = 2147483648; dataDim0 = 6;", .width = "4294967296ull"}
             .text(),
         ": data set \"d\": its 2147483648 rows of 4294967296 units are more than a file can hold; "
         "write the file again with importer");
  expect(Dense{.more = "uint index0(examplesDim0);", .bits = 64, .data = "index0 = 0, 2;"}.text(),
         ": data set \"d\": example 1: index0 is 2, expected 0 to 1; write the file again");
  expect(Dense{.more = "float dataWeight0(examplesDim0);",
               .bits = 128,
               .data = "dataWeight0 = 1, Infinity;"}
             .text(),
         ": data set \"d\": example 1: its weight is inf, expected a finite number; write the file "
         "again");
  Sparse labelled{.dimensions = "examplesDim0 = 2; sparseDataDim0 = 2; bytes = 5;",
                  .labels = "char exampleLabels0(bytes); uint64 exampleLabelEnd0(examplesDim0);",
                  .label_data = "exampleLabels0 = \"alice\"; exampleLabelEnd0 = 2, 6;"};
  expect(labelled.text(),
         ": data set \"d\": example 1: its label ends at byte 6, expected 2 to 5; write the file "
         "again with importer");
  labelled.labels = ":featureLabelCount0 = 9ull; :featureLabelsAreNumbers0 = 1u;";
  labelled.label_data = "";
  expect(labelled.text(),
         ": data set \"d\": it has labels of 9 features, but is 3 wide; write the file again with "
         "importer");
  labelled.labels = ":featureLabelCount0 = 3ull;";
  expect(labelled.text(),
         ": data set \"d\": attribute featureLabelDigest0 is missing; write the file again with "
         "importer");
  labelled.labels = ":featureLabelsOf0 = 0u;";
  expect(labelled.text(),
         ": data set \"d\": its features' labels are said to be those of data set number 0, which "
         "does not stand before it; write the file again with importer");
  labelled.labels = ":exampleLabelsOf0 = 7u;";
  labelled.label_data = "";
  expect(labelled.text(),
         ": data set \"d\": its example labels are said to be those of data set number 7, which "
         "has none that fit; write the file again with importer");
}

TEST(DatasetErrors, OfFilesThatAreNotNetcdfOrCutOff) {
  const TempDir folder;
  const std::string file = (folder / "x.nc").string();
  write_text(file, "this is not NetCDF\n");
  EXPECT_EQ(error_of(file), file +
                                ": cannot read as a NetCDF file: NetCDF: Unknown file format; the "
                                "file may be damaged or of another kind, write it again");
}

TEST(DatasetErrors, OfDefinitionsThatCannotBe) {
  DatasetInfo good;
  good.name = "d";
  good.extent[0] = 3;
  good.examples = good.unique_examples = 2;
  const auto expect = [&](const std::function<void(DatasetInfo&)>& change, const char* words) {
    const TempDir folder;
    DatasetInfo info = good;
    change(info);
    EXPECT_EQ(message_of<ShapeError>([&] { DatasetWriter(folder / "x.nc", {info}); }),
              fmt::format("DatasetWriter: data set \"d\": {}", words));
  };
  expect([](DatasetInfo& info) { info.dimensions = 4; }, "it has 4 dimensions, expected 1 to 3");
  expect([](DatasetInfo& info) { info.extent[0] = 0; }, "its width is 0, expected at least 1");
  expect([](DatasetInfo& info) { info.examples = 0; }, "it has no examples");
  expect([](DatasetInfo& info) { info.unique_examples = 1; },
         "it stores 1 rows for 2 examples, but only an Indexed set shares rows");
  expect(
      [](DatasetInfo& info) {
        info.indexed = true;
        info.unique_examples = Index(1) << 32;
      },
      "it stores 4294967296 rows, but an index of 32 bits counts to 4294967295");
}

TEST(DatasetErrors, OfSetsThatDoNotGoTogether) {
  const auto two = make_dense_dataset("two", 1, {1, 2});
  EXPECT_EQ(message_of([&] { BatchLoader({two.get()}, BatchOrder(3, 1, false, 0), 0, 0, 1); }),
            "data set \"two\" has 2 examples where 3 are expected; every data set of a network "
            "needs the same examples, import them together");
}

TEST(DatasetErrors, OfOneExampleThatIsToBeSharedOut) {
  HoldOutRule rule;
  rule.by = HoldOutBy::user;
  rule.share = 0.5;
  EXPECT_EQ(message_of<UsageError>([&] {
              hold_out(rule, {{make_dense_dataset("one", 2, {1, 2}), true}}, 0);
            }),
            "validation by user: 1 example cannot be shared out; give more data, or validate by "
            "entry");
}

}  // namespace
}  // namespace norn
