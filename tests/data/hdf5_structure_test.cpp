// SPDX-License-Identifier: Apache-2.0
// HDF5 files that other programs have made, odd ones and such that say more than they hold.
#include "src/data/file_seal.h"
#include "src/data/netcdf_file.h"
#include "support.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <hdf5.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

constexpr const char* kEnd = "; the file may be damaged or of another kind, write it again";

/// Makes one with what `add` puts into it.
std::string make(const TempDir& folder, const std::function<void(hid_t file)>& add) {
  const std::string path = (folder / "made.nc").string();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add(file);
  H5Fclose(file);
  return path;
}

struct How {
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  ~How() { H5Pclose(plist); }
};

/// A data set of bytes; null: none of them is written.
void add_data(hid_t file, const char* name, hsize_t size, hid_t how,
              const std::vector<std::uint8_t>* bytes = nullptr) {
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  const hid_t data = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
  if (bytes) H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes->data());
  H5Dclose(data);
  H5Sclose(space);
}

/// Empty: it is opened.
std::string problem_of(const std::string& path) {
  try {
    NetcdfFile(path, NetcdfFile::Mode::read);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

/// The message about the size of "x", without the words around it; empty: it may be read.
std::string problem_of_x(const std::string& path) {
  const NetcdfFile file(path, NetcdfFile::Mode::read);
  try {
    std::vector<char> bytes(std::size_t(file.size("x")));
    file.read_bytes("x", 0, bytes);
    return {};
  } catch (const DataError& error) {
    const std::string message = error.what();
    const std::string begin = path + ": cannot read variable \"x\": ";
    EXPECT_THAT(message, HasSubstr(begin));
    EXPECT_THAT(message, HasSubstr(kEnd));
    return message.substr(begin.size(), message.size() - begin.size() - std::string(kEnd).size());
  }
}

TEST(Hdf5Structure, WhatIsElsewhereIsRefused) {
  const TempDir folder;
  const std::string other = (folder / "other").string();
  write_text(other, std::string(64, 's'));
  const std::string alone = ", of a file only what it holds itself is read";
  const auto expect = [&](const std::string& problem, const std::function<void(hid_t)>& add) {
    const std::string path = make(folder, add);
    EXPECT_EQ(problem_of(path), path + ": cannot read as a NetCDF file: " + problem + kEnd);
  };
  const auto within = [](hid_t file, int levels) {
    std::string name = "g";
    for (int level = 0; level < levels; ++level, name += "/g")
      H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  };
  for (const int levels : {0, 1, 3}) {
    const auto name = [&](const char* last) {
      std::string path;
      for (int level = 0; level < levels; ++level) path += "g/";
      return path + last;
    };
    expect(fmt::format("\"{}\" has its elements in another file", name("x")) + alone,
           [&](hid_t file) {
             within(file, levels);
             const How how;
             H5Pset_external(how.plist, other.c_str(), 0, 64);
             add_data(file, name("x").c_str(), 64, how.plist);
           });
    expect(fmt::format("\"{}\" is made up of parts of other files", name("x")) + alone,
           [&](hid_t file) {
             within(file, levels);
             const How how;
             const hsize_t size = 64;
             const hid_t space = H5Screate_simple(1, &size, nullptr);
             H5Pset_virtual(how.plist, space, other.c_str(), "x", space);
             H5Sclose(space);
             add_data(file, name("x").c_str(), size, how.plist);
           });
    expect(fmt::format("\"{}\" is a link to another file", name("x")) + alone, [&](hid_t file) {
      within(file, levels);
      H5Lcreate_external(other.c_str(), "/", file, name("x").c_str(), H5P_DEFAULT, H5P_DEFAULT);
    });
    expect(fmt::format("\"{}\" is a link to a name", name("x")) + alone, [&](hid_t file) {
      within(file, levels);
      H5Lcreate_soft("/", file, name("x").c_str(), H5P_DEFAULT, H5P_DEFAULT);
    });
  }
  expect("has groups of more than 32 levels", [&](hid_t file) { within(file, 34); });
  expect("the group \"g/g\" is within two groups", [&](hid_t file) {
    within(file, 1);
    H5Lcreate_hard(file, "/g", file, "/g/g", H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST(Hdf5Structure, NumbersOfElementsThatTheFileDoesNotHold) {
  const TempDir folder;
  const std::vector<std::uint8_t> bytes(1 << 16, 7);
  const auto chunked = [&](hsize_t size, hsize_t chunk, bool packed, bool written) {
    return make(folder, [&](hid_t file) {
      const How how;
      H5Pset_chunk(how.plist, 1, &chunk);
      if (packed) H5Pset_deflate(how.plist, 9);
      add_data(file, "x", size, how.plist, written ? &bytes : nullptr);
    });
  };
  const auto plain = [&](hsize_t size, bool written) {
    return make(folder, [&](hid_t file) {
      const How how;
      add_data(file, "x", size, how.plist, written ? &bytes : nullptr);
    });
  };
  for (const hsize_t size : {hsize_t(1), hsize_t(1000), hsize_t(bytes.size())}) {
    EXPECT_EQ(problem_of_x(plain(size, true)), "");
    for (const bool packed : {false, true})
      for (const hsize_t chunk : {hsize_t(1), size / 3 + 1, size})
        EXPECT_EQ(size / chunk < 2000 ? problem_of_x(chunked(size, chunk, packed, true)) : "", "");
  }
  EXPECT_EQ(problem_of_x(plain(5, false)), "") << "few that nobody has written";
  for (const hsize_t size : {hsize_t(100'000), hsize_t(1) << 32, hsize_t(1) << 60}) {
    const std::string problem = fmt::format("has {} elements, which the file does not hold", size);
    EXPECT_EQ(problem_of_x(plain(size, false)), problem);
    for (const bool packed : {false, true})
      EXPECT_EQ(problem_of_x(chunked(size, 999, packed, false)), problem);
  }
}

/// A filter of somebody else's, which leaves bytes as they are.
std::size_t leave(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) {
  return bytes;
}

TEST(Hdf5Structure, AFilterThatWouldHaveToBeLoaded) {
  const TempDir folder;
  const H5Z_class2_t other{H5Z_CLASS_T_VERS, 32015, 1, 1, "other", nullptr, nullptr, &leave};
  H5Zregister(&other);
  const std::string path = make(folder, [](hid_t file) {
    const How how;
    const hsize_t chunk = 100;
    H5Pset_chunk(how.plist, 1, &chunk);
    H5Pset_filter(how.plist, 32015, H5Z_FLAG_OPTIONAL, 0, nullptr);
    const std::vector<std::uint8_t> bytes(100, 7);
    add_data(file, "x", 100, how.plist, &bytes);
    const How none;
    add_data(file, "y", 100, none.plist, &bytes);
  });
  EXPECT_EQ(problem_of_x(path), "is packed by filter 32015, which HDF5 does not have itself");
  EXPECT_EQ(NetcdfFile(path, NetcdfFile::Mode::read).size("y"), 100) << "the others are read";
}

TEST(Hdf5Structure, WhatNornNeverWritesIsNotTakenForSealed) {
  const TempDir folder;
  const auto expect = [&](const char* problem, const std::function<void(hid_t)>& add) {
    const std::string path = make(folder, add);
    EXPECT_EQ(problem_of(path), "");
    seal_file(path, {}, path);
    EXPECT_EQ(problem_of(path), path + ": cannot read as a NetCDF file: " + problem + kEnd);
  };
  expect("\"g\" is a group, which a sealed file never has", [](hid_t file) {
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  expect("\"x\" is packed, which a sealed file never is", [](hid_t file) {
    const How how;
    const hsize_t chunk = 10;
    H5Pset_chunk(how.plist, 1, &chunk);
    H5Pset_deflate(how.plist, 1);
    add_data(file, "x", 10, how.plist);
  });
}

}  // namespace
}  // namespace norn
