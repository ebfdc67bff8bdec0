// SPDX-License-Identifier: Apache-2.0
// A file in memory with the fuzzer's bytes, for readers that take a path.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : file_(::memfd_create("fuzz", 0)) {
    if (file_ < 0 || ::write(file_, data, size) != ssize_t(size)) std::abort();
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};
