// SPDX-License-Identifier: Apache-2.0
// Small text files, and what has no end.

#include "norn/base/error.h"
#include "src/base/files.h"

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace norn {
namespace {

class TextFile : public testing::Test {
 protected:
  TextFile() {
    std::string name = (std::filesystem::temp_directory_path() / "norn-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TextFile() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(TextFile, IsReadAsItIs) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (std::size_t size : {std::size_t(0), std::size_t(1), (std::size_t(1) << 20) - 1,
                           std::size_t(1) << 20, (std::size_t(1) << 21) + 7}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 1 + random() % 100) text[i] = char(random());
    std::ofstream(folder_ / "t", std::ios::binary) << text;
    EXPECT_TRUE(read_text_file(folder_ / "t") == text) << size;
    EXPECT_TRUE(read_text_file(folder_ / "t", size) == text) << size;
    if (size > 0) {
      EXPECT_THROW(read_text_file(folder_ / "t", size - 1), UsageError) << size;
    }
  }
}

TEST_F(TextFile, OfADeviceWithoutEndIsRefused) {
  try {
    read_text_file("/dev/zero");
    FAIL() << "it came to an end";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "/dev/zero: has more than 64.0 MiB; is it the right file?");
  }
}

TEST_F(TextFile, ThatCannotBeReadIsNothing) {
  EXPECT_EQ(read_text_file(folder_ / "none"), std::nullopt);
  EXPECT_EQ(read_text_file(folder_), std::nullopt);
  std::filesystem::create_symlink(folder_ / "loop", folder_ / "loop");
  EXPECT_THROW(read_text_file(folder_ / "loop"), DataError);
  EXPECT_THROW(read_text_file(folder_ / std::string(5000, 'n')), DataError);
}

}  // namespace
}  // namespace norn
