// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "src/base/atomic_file.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

/// Writes an index file label by label; complete or absent.
namespace norn {

class LabelIndexWriter {
 public:
  explicit LabelIndexWriter(const std::filesystem::path& path);
  ~LabelIndexWriter();
  LabelIndexWriter(const LabelIndexWriter&) = delete;
  LabelIndexWriter& operator=(const LabelIndexWriter&) = delete;

  /// The label gets the next number.
  void add(std::string_view label);
  /// Ends the writing; commit() does so too.
  void finish();
  void commit();
  const std::filesystem::path& path() const { return place_.final_path(); }

 private:
  [[noreturn]] void fail() const;
  AtomicFile place_;
  std::FILE* file_ = nullptr;
  std::string line_;
  Index count_ = 0;
};

}  // namespace norn
