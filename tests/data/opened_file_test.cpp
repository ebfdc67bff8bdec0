// SPDX-License-Identifier: Apache-2.0
// Files that change while they are read.
#include "src/data/opened_file.h"

#include "support.h"

#include <fmt/format.h>

namespace norn {
namespace {

void write_bytes(const std::filesystem::path& path, std::size_t count) {
  std::ofstream(path, std::ios::binary) << std::string(count, 'x');
}

std::string problem_of(const OpenedFile& opened) {
  try {
    opened.require_unchanged("shown.nc");
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

std::string message(int bytes, int expected) {
  return fmt::format(
      "shown.nc: is {} bytes long, expected {} as when it was opened: another program cut it off "
      "or "
      "writes into it; put the whole file back and run again",
      bytes, expected);
}

TEST(OpenedFile, AFileThatIsCutOffOrGrowsIsNoticed) {
  const TempDir folder;
  const auto file = folder / "data.nc";
  write_bytes(file, 1000);
  const OpenedFile opened(file);
  EXPECT_EQ(problem_of(opened), "");
  std::filesystem::resize_file(file, 999);
  EXPECT_EQ(problem_of(opened), message(999, 1000));
  std::filesystem::resize_file(file, 0);
  EXPECT_EQ(problem_of(opened), message(0, 1000));
  std::filesystem::resize_file(file, 1001);
  EXPECT_EQ(problem_of(opened), message(1001, 1000));
}

TEST(OpenedFile, AFileThatTakesItsNameChangesNothing) {
  const TempDir folder;
  const auto file = folder / "data.nc";
  write_bytes(file, 1000);
  const OpenedFile opened(file);
  write_bytes(folder / "new.nc", 10);
  std::filesystem::rename(folder / "new.nc", file);
  EXPECT_EQ(problem_of(opened), "");
  std::filesystem::remove(file);
  EXPECT_EQ(problem_of(opened), "");
}

TEST(OpenedFile, AFileThatIsNotThereIsNotWatched) {
  const TempDir folder;
  EXPECT_EQ(problem_of(OpenedFile(folder / "none.nc")), "");
}

}  // namespace
}  // namespace norn
