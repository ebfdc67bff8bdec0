// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"

#include <filesystem>

namespace norn::run {

/// A folder for files that nobody is to keep. It is made when it is asked for, and goes away with
/// this.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  /// Rank 0's. All ranks call it together. Throws DataError when it cannot be made.
  const std::filesystem::path& path(Communicator& communicator);

 private:
  std::filesystem::path path_;
  bool is_ours_ = false;
};

}  // namespace norn::run
