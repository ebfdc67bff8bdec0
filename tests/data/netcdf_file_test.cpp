// SPDX-License-Identifier: Apache-2.0
// Blocks of variables that are not as they were taken for: the library below would read or write
// beyond what it was given.
#include "src/data/netcdf_file.h"

#include "norn/base/error.h"
#include "src/data/netcdf_thread.h"
#include "support.h"

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netcdf.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path generated(const TempDir& folder, const std::string& text) {
  write_text(folder / "file.cdl", "netcdf file {\n" + text + "\n}\n");
  const std::string command =
      "ncgen -k nc4 -o " + (folder / "file.nc").string() + " " + (folder / "file.cdl").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  return folder / "file.nc";
}

const char* const kText =
    "dimensions: a = 3; b = 4;\n"
    "variables: int flat(b); int grid(a, b); int alone; char word(b); char words(a, b);\n"
    "data: flat = 1, 2, 3, 4; grid = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12; alone = 5;\n"
    "word = \"abcd\"; words = \"abcd\", \"efgh\", \"ijkl\";";

TEST(NetcdfFile, ThatIsCutOffWhileItIsReadSaysItsLength) {
  const TempDir folder;
  // In chunks, which the library looks for in the file when they are wanted.
  std::string text =
      "dimensions: a = 90000;\nvariables: int many(a); many:_ChunkSizes = 500;\n"
      "many:_DeflateLevel = 1;\ndata: many = ";
  for (int i = 0; i < 90000; ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", i * 7919 % 90001);
  const auto path = generated(folder, text + ";");
  const auto size = std::filesystem::file_size(path);
  const NetcdfFile file(path, NetcdfFile::Mode::read);
  std::filesystem::resize_file(path, 3000);
  std::vector<Index> values(90000);
  EXPECT_THAT(message_of<DataError>([&] { file.read("many", 0, std::span(values)); }),
              HasSubstr(fmt::format("{}: is 3000 bytes long, expected {} as when it was opened: "
                                    "another program cut it off or writes into it",
                                    path.string(), size)));
}

TEST(NetcdfFile, ReadsBlocksOfItsVariables) {
  const TempDir folder;
  const NetcdfFile file(generated(folder, kText), NetcdfFile::Mode::read);
  std::vector<Index> values(4);
  file.read("flat", 0, std::span(values));
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  const std::vector<Index> start = {1, 2}, count = {2, 2};
  file.read("grid", start, count, values.data());
  EXPECT_THAT(values, ElementsAre(7, 8, 11, 12));
  EXPECT_EQ(file.size("grid"), 12);
  EXPECT_EQ(file.size("alone"), 1);
  std::string word(2, ' ');
  file.read_bytes("word", 1, word);
  EXPECT_EQ(word, "bc");
}

// What is not sealed comes from a process of its own, 64 MiB at a time.
TEST(NetcdfFile, ReadsBlocksThatComeInPieces) {
  std::mt19937 random(fresh_seed());
  const TempDir folder;
  const std::size_t rows = 2 + random() % 4, columns = 9'000'000 / rows + random() % 1000;
  const std::string text =
      fmt::format("dimensions: a = {}; b = {};\nvariables: byte grid(a, b); grid:_FillValue = 3b;",
                  rows, columns);
  const std::filesystem::path path = generated(folder, text);
  std::vector<Index> expected(rows * columns, 3);
  on_netcdf_thread([&] {
    int number = 0, variable = 0;
    ASSERT_EQ(nc_open(path.c_str(), NC_WRITE, &number), NC_NOERR);
    ASSERT_EQ(nc_inq_varid(number, "grid", &variable), NC_NOERR);
    for (int i = 0; i < 12; ++i) {
      const std::array<std::size_t, 2> at = {random() % rows, random() % columns};
      const auto value = static_cast<signed char>(random() % 100);
      ASSERT_EQ(nc_put_var1_schar(number, variable, at.data(), &value), NC_NOERR);
      expected[at[0] * columns + at[1]] = value;
    }
    ASSERT_EQ(nc_close(number), NC_NOERR);
  });
  const NetcdfFile file(path, NetcdfFile::Mode::read);
  const std::vector<Index> start = {0, 0}, count = {Index(rows), Index(columns)};
  std::vector<Index> values(rows * columns, -1);
  file.read("grid", start, count, values.data());
  EXPECT_TRUE(values == expected);
}

// A few readers wait for their files; of the others nothing is left.
TEST(NetcdfFile, ReadersThatHaveEndedLeaveNothingOpen) {
  const TempDir folder;
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  std::vector<std::ptrdiff_t> counts;
  for (int i = 0; i < 9; ++i) {
    const NetcdfFile file(generated(folder, kText), NetcdfFile::Mode::read);
    EXPECT_EQ(file.size("grid"), 12);
    counts.push_back(open_files());
  }
  EXPECT_EQ(counts.back(), counts[5]);
}

TEST(NetcdfFile, RefusesBlocksOfOtherDimensions) {
  const TempDir folder;
  const NetcdfFile file(generated(folder, kText), NetcdfFile::Mode::read);
  std::vector<Index> values(4);
  std::string bytes(4, ' ');
  for (const char* name : {"grid", "alone"})
    EXPECT_THAT(message_of<DataError>([&] { file.read(name, 0, std::span(values)); }),
                HasSubstr(fmt::format("file.nc: cannot read variable \"{}\": has {} dimensions, "
                                      "expected 1; the file may be damaged",
                                      name, file.extent(name).size())));
  EXPECT_THAT(message_of<DataError>([&] { file.read_bytes("words", 0, bytes); }),
              HasSubstr("cannot read variable \"words\": has 2 dimensions, expected 1"));
  EXPECT_THAT(message_of<DataError>([&] { file.read_bytes("flat", 0, bytes); }),
              HasSubstr("has a type of more than one byte, expected char"));
  EXPECT_THAT(message_of<DataError>([&] { file.read("none", 0, std::span(values)); }),
              HasSubstr("cannot read variable \"none\": is missing"));
}

TEST(NetcdfFile, RefusesBlocksBeyondTheEnd) {
  const TempDir folder;
  const NetcdfFile file(generated(folder, kText), NetcdfFile::Mode::read);
  std::vector<Index> values(4);
  std::string bytes(4, ' ');
  EXPECT_THAT(message_of<DataError>([&] { file.read("flat", 1, std::span(values)); }),
              HasSubstr("has 4 elements along dimension 0, 4 from 1 are wanted"));
  EXPECT_THAT(message_of<DataError>([&] { file.read("flat", -1, std::span(values)); }),
              HasSubstr("has 4 elements along dimension 0, 4 from -1 are wanted"));
  EXPECT_THAT(message_of<DataError>([&] { file.read_bytes("word", 3, bytes); }),
              HasSubstr("has 4 elements along dimension 0, 4 from 3 are wanted"));
}

TEST(NetcdfFile, RefusesMoreElementsThanCanBeCounted) {
  const TempDir folder;
  const NetcdfFile file(generated(folder,
                                  "dimensions: a = 2000000000;\n"
                                  "variables: byte huge(a, a, a);\n"
                                  "huge:_ChunkSizes = 64, 64, 64;"),
                        NetcdfFile::Mode::read);
  EXPECT_THAT(message_of<DataError>([&] { file.size("huge"); }),
              HasSubstr("cannot read variable \"huge\": has more than 2^63 elements"));
}

TEST(NetcdfFile, FindsChangedContentsWhereTheyAreReadToTheEnd) {
  const TempDir folder;
  const unsigned seed = fresh_seed();
  std::mt19937 random(seed);
  std::vector<std::uint32_t> values(1000);
  for (std::uint32_t& value : values) value = std::uint32_t(random());
  {
    NetcdfFile file(folder / "new.nc", NetcdfFile::Mode::create);
    file.define_dimension("a", Index(values.size()));
    file.define_variable("v", StoredType::uint32, "a");
    file.write("v", 700, std::span<const std::uint32_t>(values).subspan(700));
    file.write("v", 0, std::span<const std::uint32_t>(values).first(300));
    file.write("v", 300, std::span<const std::uint32_t>(values).subspan(300, 400));
    file.close();
  }
  std::vector<std::uint32_t> back(values.size());
  NetcdfFile(folder / "new.nc", NetcdfFile::Mode::read).read("v", 0, std::span(back));
  EXPECT_EQ(back, values);
  std::string bytes = read_text(folder / "new.nc");
  const std::string stored(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  const std::size_t at = bytes.find(stored);
  ASSERT_NE(at, std::string::npos);
  char& hit = bytes[at + random() % stored.size()];
  hit = char(hit ^ (1 << random() % 8));
  write_text(folder / "new.nc", bytes);
  const NetcdfFile file(folder / "new.nc", NetcdfFile::Mode::read);
  file.read("v", 500, std::span(back).subspan(500));  // a batch
  const auto read_in_pieces = [&] {
    file.read("v", 0, std::span(back).first(1));
    file.read("v", 1, std::span(back).first(998));
    file.read("v", 500, std::span(back).first(10));  // between them
    file.read("v", 999, std::span(back).first(1));
  };
  for (const std::function<void()>& read :
       {std::function<void()>([&] { file.read("v", 0, std::span(back)); }),
        std::function<void()>(read_in_pieces)})
    EXPECT_THAT(
        message_of<DataError>(read),
        testing::MatchesRegex(".*new.nc: variable \"v\" is damaged: its checksum is "
                              "[0-9a-f]+, expected [0-9a-f]+; use an older copy of the file"));
}

TEST(NetcdfFile, FilesWithoutAllTheirElementsAreNotClosed) {
  const TempDir folder;
  NetcdfFile file(folder / "new.nc", NetcdfFile::Mode::create);
  file.define_dimension("a", 5);
  file.define_variable("v", StoredType::float32, "a");
  const std::vector<float> values(3);
  file.write("v", 0, std::span(values));
  EXPECT_THAT(message_of<ShapeError>([&] { file.close(); }),
              HasSubstr("new.nc: variable \"v\": element 3 was not written exactly once"));
}

TEST(NetcdfFile, ClosesSealed) {
  const TempDir folder;
  {
    NetcdfFile file(folder / "new.nc", NetcdfFile::Mode::create);
    file.define_dimension("a", 3);
    file.define_variable("v", StoredType::float32, "a");
    const std::vector<float> values = {1.0f, 2.0f, 3.0f, 4.0f};
    EXPECT_THAT(message_of<DataError>([&] { file.write("v", 0, std::span(values)); }),
                HasSubstr("has 3 elements along dimension 0, 4 from 0 are wanted"));
    file.write("v", 0, std::span(values).first(3));
    file.close();
  }
  std::string bytes = read_text(folder / "new.nc");
  EXPECT_EQ(bytes.substr(bytes.size() - 8), "NornSeal");
  bytes[100] = char(bytes[100] ^ 4);
  write_text(folder / "new.nc", bytes);
  EXPECT_THAT(message_of<DataError>([&] { NetcdfFile(folder / "new.nc", NetcdfFile::Mode::read); }),
              HasSubstr("the header is damaged"));
}

// What the library was doing is half done there, and nobody goes on with it.
// As a program that writes data or a model anew does, while others read it.
TEST(NetcdfFile, ThatIsReplacedWhileItIsOpenedIsReadWhole) {
  const TempDir folder;
  const auto bare = generated(folder, kText);
  const auto sealed = folder / "sealed.nc", path = folder / "taken.nc";
  {
    NetcdfFile file(sealed, NetcdfFile::Mode::create);
    file.define_dimension("b", 4);
    file.define_variable("flat", StoredType::float32, "b");
    file.write("flat", 0, std::span<const float>(std::vector<float>{1, 2, 3, 4}));
    file.close();
  }
  std::minstd_rand random(std::random_device{}());
  for (const auto& source : {bare, sealed}) {
    const auto replace = [&, other = folder / "other.nc"] {
      std::filesystem::copy_file(source, other, std::filesystem::copy_options::overwrite_existing);
      std::filesystem::rename(other, path);
    };
    replace();
    for (int n = 0; n < 30; ++n) {
      std::thread writer([&replace, random]() mutable {
        for (int times = 1 + int(random() % 5); times > 0; --times) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          replace();
        }
      });
      random.discard(20);
      std::vector<float> values(4);
      EXPECT_NO_THROW({
        const NetcdfFile file(path, NetcdfFile::Mode::read);
        file.read("flat", 0, std::span(values));
      });
      EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
      writer.join();
    }
  }
}

TEST(NetcdfThread, AProcessForkedInACallIsToldSo) {
  ::pid_t child = -1;
  on_netcdf_thread([&] {
    child = ::fork();
    if (child != 0) return;
    try {
      on_netcdf_thread([] {});
    } catch (const UsageError& error) {
      ::_exit(std::string(error.what()) ==
                      "this process was forked while another thread read or wrote a NetCDF file, "
                      "so it can open none; fork when no file is read or written, or start "
                      "processes by \"spawn\""
                  ? 7
                  : 8);
    }
    ::_exit(9);
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(NetcdfThread, AForkedProcessHasItsOwn) {
  on_netcdf_thread([] {});
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    on_netcdf_thread([] { ::_exit(7); });
    ::_exit(9);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace norn
