// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

/// A file without a name that is written from front to back, then read.
namespace norn {

/// No crash leaves it behind. Everything that goes wrong throws DataError naming its folder.
class Spool {
 public:
  /// Lies in `folder` (empty: the working folder). `elsewhere` ends the advice of its messages:
  /// what to do instead of freeing some space.
  Spool(const std::filesystem::path& folder, std::string elsewhere);

  const std::filesystem::path& folder() const { return folder_; }
  template <typename T>
  void write(std::span<const T> values) {
    write_bytes(values.data(), values.size_bytes());
  }
  /// From here on it is read from the beginning.
  void rewind();
  template <typename T>
  void read(std::span<T> values) {
    read_bytes(values.data(), values.size_bytes());
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_bytes(const void* data, std::size_t bytes);
  void read_bytes(void* data, std::size_t bytes);
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path folder_;
  std::string elsewhere_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace norn
