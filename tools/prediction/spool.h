// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <span>

/// A file without a name that is written once and read once.
namespace norn::tools {

/// It lies in the folder of `beside` and is gone with its owner. Everything that goes wrong throws
/// DataError naming that folder.
class Spool {
 public:
  explicit Spool(const std::filesystem::path& beside);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

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
  void write_bytes(const void* data, std::size_t bytes);
  void read_bytes(void* data, std::size_t bytes);
  [[noreturn]] void fail(const char* what) const;
  std::filesystem::path folder_;
  std::FILE* file_ = nullptr;
};

}  // namespace norn::tools
