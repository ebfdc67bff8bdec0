// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/data/dataset.h"
#include "tests/support/message_of.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

/// What the tests of the data layer share.
namespace norn {

/// A folder that goes away with the test.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "norn-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A seed that differs from run to run and is printed when the test fails.
inline unsigned fresh_seed() {
  const unsigned seed = std::random_device{}();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

/// Runs `work` while no file may grow beyond this size: writing more fails as on a full disk.
inline std::string with_file_size_limit(rlim_t bytes, const std::function<std::string()>& work) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limited{bytes, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limited);
  const std::string result = work();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  return result;
}

/// Runs `work` as a user who owns nothing; whoever is not the superuser stays who it is.
inline std::string without_privileges(const std::function<std::string()>& work) {
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) throw std::runtime_error("cannot become another user");
  const std::string result = work();
  if (user == 0 && ::seteuid(user) != 0) throw std::runtime_error("cannot come back");
  return result;
}

/// Makes a NetCDF file from CDL text with ncgen, a writer independent of ours.
inline void write_cdl(const std::filesystem::path& path, const std::string& cdl) {
  const std::filesystem::path source = path.string() + ".cdl";
  write_text(source, cdl);
  const std::string command = "ncgen -4 -o '" + path.string() + "' '" + source.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << cdl;
}

/// The rows of a whole data set as dense rows, gathered in the given batch size.
inline std::vector<std::vector<float>> dense_rows(Dataset& set, Index batch_size) {
  std::vector<std::vector<float>> rows;
  HostBatch batch;
  for (Index first = 0; first < set.info().examples; first += batch_size) {
    std::vector<Index> examples;
    for (Index e = first; e < std::min(first + batch_size, set.info().examples); ++e) {
      examples.push_back(e);
    }
    set.gather(examples, batch);
    for (Index i = 0; i < batch.examples; ++i) {
      std::vector<float> row(std::size_t(batch.width), 0.0f);
      if (batch.is_sparse) {
        const CsrView csr = batch.csr();
        for (RowOffset k = csr.row_begin[i]; k < csr.row_begin[i + 1]; ++k) {
          row[csr.column[k]] += csr.value ? csr.value[k] : 1.0f;
        }
      } else {
        for (Index c = 0; c < batch.width; ++c) row[std::size_t(c)] = batch.matrix()(i, c);
      }
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace norn
