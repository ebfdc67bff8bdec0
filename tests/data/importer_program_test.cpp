// SPDX-License-Identifier: Apache-2.0
// The program importer as a user runs it; files are looked at with ncdump, a reader independent of
// ours.

#include "norn/data/label_index.h"
#include "support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

namespace norn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs the program in a folder.
Outcome importer(const TempDir& folder, const std::string& arguments) {
  const std::string command = fmt::format("cd '{}' && '{}/bin/importer' {} > .out 2> .err",
                                          folder.path().string(), NORN_BINARY_DIR, arguments);
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder / ".out"),
          read_text(folder / ".err")};
}

std::string ncdump(const TempDir& folder, const std::string& file) {
  const std::string command =
      fmt::format("cd '{}' && ncdump {} > .dump", folder.path().string(), file);
  EXPECT_EQ(std::system(command.c_str()), 0);
  return read_text(folder / ".dump");
}

constexpr const char* kPackages = NORN_SOURCE_DIR "/tests/data/debian_packages";

TEST(ImporterProgram, WritesWhatTheDocumentationOfTheFormatShows) {
  const TempDir folder;
  // Three examples of three features each, the second one naming features out of order.
  write_text(folder / "indicators.csv", "110510\t3:1:a\n110511\tb:1:4\n110512\t5:6:7\n");
  write_text(folder / "features", "3\t0\n1\t1\na\t2\nb\t3\n4\t4\n5\t5\n6\t6\n7\t7\n");
  Outcome run = importer(
      folder, "-d gl_input -i indicators.csv -o in.nc -f features -s samples --format dsstne");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string dump = ncdump(folder, "in.nc");
  for (const char* line :
       {"sparseStart0 = 0, 3, 6 ;", "sparseEnd0 = 3, 6, 9 ;",
        "sparseIndex0 = 0, 1, 2, 3, 1, 4, 5, 6, 7 ;", ":attributes0 = 3U ;", ":dataType0 = 0U ;",
        ":dimensions0 = 1U ;", ":name0 = \"gl_input\" ;", ":datasets = 1U ;", "examplesDim0 = 3 ;",
        "sparseDataDim0 = 9 ;", ":width0 = 8U ;", "uint64 sparseStart0(examplesDim0) ;"}) {
    EXPECT_THAT(dump, HasSubstr(line));
  }
  write_text(folder / "analog.csv", "110510\t3,123:1,234\n110511\tb,345\n110512\t5,456\n");
  run = importer(
      folder,
      "-d gl_output -i analog.csv -o out.nc -f features -s samples -t analog -m --format dsstne");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string analog = ncdump(folder, "out.nc");
  for (const char* line :
       {"sparseData0 = 123, 234, 345, 456 ;", ":attributes0 = 1U ;", ":dataType0 = 4U ;",
        "float sparseData0(sparseDataDim0) ;", "sparseStart0 = 0, 2, 3 ;"}) {
    EXPECT_THAT(analog, HasSubstr(line));
  }
}

TEST(ImporterProgram, ImportsTheExampleDataWithOneFeatureIndex) {
  const TempDir folder;
  // The test file first: the index then knows the features that only held-out lines name.
  Outcome run = importer(
      folder, fmt::format("--input {0}/train.txt.gz --target {0}/test.txt.gz --name packages "
                          "--output test.nc --features features",
                          kPackages));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("33,429 target entries"));
  run = importer(folder, fmt::format("--input {}/train.txt.gz --name packages --output train.nc "
                                     "--features features",
                                     kPackages));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out,
              HasSubstr("train.nc: 17,642 examples, 137,005 input and 137,005 target entries"));
  EXPECT_EQ(read_label_index(folder / "features").size(), 7421);
  for (const char* file : {"train.nc", "test.nc"}) {
    const auto infos = list_datasets(folder / file);
    ASSERT_EQ(infos.size(), 2u);
    EXPECT_EQ(infos[0].name, "packages_input");
    EXPECT_EQ(infos[1].name, "packages_output");
    EXPECT_EQ(infos[0].width(), 7421);
    EXPECT_EQ(infos[1].width(), 7421);
    EXPECT_EQ(infos[0].examples, infos[1].examples);
  }
  // No held-out item is among the example's inputs.
  const auto infos = list_datasets(folder / "test.nc");
  const auto input = dense_rows(*open_dataset(infos[0], Residency::memory, Role::input), 512);
  const auto target = dense_rows(*open_dataset(infos[1], Residency::memory, Role::target), 512);
  for (std::size_t e = 0; e < input.size(); e += 97) {
    for (std::size_t c = 0; c < input[e].size(); ++c) ASSERT_LE(input[e][c] + target[e][c], 1.0f);
  }
}

TEST(ImporterProgram, SplitsATable) {
  const TempDir folder;
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int u = 0; u < 20; ++u) {
    for (int m = 0; m < 5; ++m) text += fmt::format("{},{},{}.5,17\n", u, (u * 3 + m) % 11, m);
  }
  write_text(folder / "ratings.csv", text);
  const Outcome run =
      importer(folder,
               "--input ratings.csv --example-column userId --feature-column movieId "
               "--value-column rating --type analog --name films --output films.nc "
               "--split leave-one-out --seed 4");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto test = list_datasets(folder / "films.test.nc");
  EXPECT_EQ(test.at(0).entries, 80);
  EXPECT_FALSE(test.at(0).boolean);
  EXPECT_EQ(test.at(1).entries, 20);
  EXPECT_TRUE(test.at(1).boolean);
  EXPECT_EQ(read_label_index(folder / "films.features").size(), 11);
  EXPECT_EQ(read_label_index(folder / "films.test.examples").size(), 20);
}

TEST(ImporterProgram, SplitsATableByTime) {
  const TempDir folder;
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int u = 0; u < 20; ++u) {
    for (int m = 0; m < 5; ++m) {
      // The last two users come late.
      text += fmt::format("{},{},{}.5,{}\n", u, (u * 3 + m) % 11, m,
                          1'769'817'600 + 86'400 * (u < 18 ? m - 3 : 1));
    }
  }
  write_text(folder / "ratings.csv", text);
  for (const char* column : {"timestamp --header yes", "4"}) {
    const Outcome run = importer(
        folder, fmt::format("--input ratings.csv --time-column {} --name films --output films.nc "
                            "--split time:2026-01-31 --example-column 1",
                            column));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("films.test.nc: 18 examples, 54 input and 36 target entries\n"));
    EXPECT_THAT(run.out, HasSubstr("\n2 examples left out: all their entries are later than the "
                                   "training part\n"));
  }
  EXPECT_EQ(importer(folder, "-i ratings.csv -d n -o n.nc --split leave-last-out").exit_code, 0);
  EXPECT_EQ(list_datasets(folder / "n.test.nc").at(1).entries, 20);
}

TEST(ImporterProgram, TellsExamplesWithoutLabelsFromThoseWithoutFeatures) {
  const TempDir folder;
  write_text(folder / "t.txt", "4 9 3\n0 1:1\n 2:1\n1,2 8:1\n 3:1\n");
  for (const char* rule : {"drop", "keep"}) {
    const Outcome run =
        importer(folder, fmt::format("-i t.txt -d n -o out.nc --empty-rows {}", rule));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\n2 examples without labels\n"));
    EXPECT_THAT(run.out, testing::Not(HasSubstr("without features")));
  }
}

TEST(ImporterProgram, ReadsListsAndPrintsNamesInOneLine) {
  const TempDir folder;
  write_text(folder / "gowalla.txt", "0 12 3\n1 3 44 \n2 12\n");
  for (const char* format : {"auto", "list"}) {
    const Outcome run = importer(
        folder,
        fmt::format("-i gowalla.txt -d n -o \"$(printf 'a\\nb\\033[31m')\" --format {}", format));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out,
                StartsWith("a\\x0ab\\x1b[31m: 3 examples, 5 input and 5 target entries\n"));
  }
}

TEST(ImporterProgram, ExitCodesAndMessagesTellWhatToDo) {
  const TempDir folder;
  write_text(folder / "t.txt", "a\tx:y\nb\n");
  write_text(folder / "out.nc", "precious");
  const auto expect = [&](const std::string& arguments, int code, const std::string& words) {
    const Outcome run = importer(folder, arguments);
    EXPECT_EQ(run.exit_code, code) << arguments;
    EXPECT_THAT(run.err, StartsWith("importer: error: "));
    EXPECT_THAT(run.err, HasSubstr(words));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << "one line: " << run.err;
  };
  const std::string files = "--input t.txt --name n --output out.nc ";
  expect("", 2, "--input");
  expect(files + "--inptu t.txt", 2, "--input");
  expect(files + "--format xml", 2, "xml");
  expect(files + "--split half", 2, "--split half: expected ratio:0.8/0.1/0.1");
  expect(files + "--split ratio:1", 2, "--split ratio:1: expected two shares");
  expect(files + "-c -m", 2, "choose one of them");
  expect(files + "--skip-malformed -1", 2, "must be at least 0");
  expect("-i t.txt -d n -o out.nc -s samples", 2, "--samples needs --features");
  expect("-i t.txt -d n -o out.nc -s samples -f f --split leave-one-out", 2, "are for two");
  expect("-i t.txt -d n -o out.nc -s samples -f f", 3,
         "f: no such index of features; start a new one with -c");
  expect(files, 3, "t.txt:2: \"b\" has no tab between example and features");
  expect("--input none.txt --name n --output out.nc", 3, "none.txt: no such file or folder");
  expect("--input t.txt --name n --output no/folder.nc --skip-malformed 1", 3, "no");
  EXPECT_EQ(read_text(folder / "out.nc"), "precious");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.features"));
  const Outcome skipped = importer(folder, files + "--skip-malformed 1");
  EXPECT_EQ(skipped.exit_code, 0);
  EXPECT_THAT(
      skipped.err,
      HasSubstr("1 malformed lines were passed over; the first: t.txt:2: \"b\" has no tab"));
  EXPECT_THAT(skipped.out, HasSubstr("out.nc: 1 examples, 2 input and 2 target entries"));
  const Outcome help = importer(folder, "--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("leave-one-out"));
}

}  // namespace
}  // namespace norn
