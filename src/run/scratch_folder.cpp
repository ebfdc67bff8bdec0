// SPDX-License-Identifier: Apache-2.0
// Folders that go away.
#include "src/run/scratch_folder.h"

#include "norn/base/error.h"
#include "src/run/ranks.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

namespace norn::run {

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (is_ours_) std::filesystem::remove_all(path_, ignored);
}

const std::filesystem::path& ScratchFolder::path(Communicator& communicator) {
  if (!path_.empty()) return path_;
  std::string name;
  if (communicator.rank() == 0) {
    std::error_code error;
    name = (std::filesystem::temp_directory_path(error) / "norn-XXXXXX").string();
    if (error || !::mkdtemp(name.data()))
      throw DataError(
          fmt::format("{}: a temporary folder cannot be made: {}; set TMPDIR to "
                      "another one, or name a `model`",
                      name, error ? error.message() : std::strerror(errno)));
    is_ours_ = true;
  }
  return path_ = text_of_rank_0(communicator, name);
}

}  // namespace norn::run
