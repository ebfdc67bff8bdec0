// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/json_value.h"
#include "src/run/appended_file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Events files of TensorBoard: scalars by step. docs/user/run_folder.md names them.
namespace norn::tools {

/// CRC-32C (Castagnoli's polynomial) of some bytes.
std::uint32_t crc32c(std::string_view bytes);

/// One events file, FOLDER/events.out.tfevents.SECONDS.HOST. Records are whole or absent.
class TensorBoardEvents {
 public:
  /// Begins a file. `steps_done` > 0: the run goes on after that step, and what earlier files of
  /// the folder say of later ones does not count. Throws DataError when the file cannot be made.
  TensorBoardEvents(const std::filesystem::path& folder, std::int64_t steps_done,
                    std::function<void(const std::string&)> trouble);

  using Scalars = std::vector<std::pair<std::string, double>>;
  void write(std::int64_t step, const Scalars& scalars);

 private:
  void append(std::string_view event);
  run::AppendedFile file_;
};

/// What an event of the run's log says in scalars; none for other events than step, epoch, eval.
TensorBoardEvents::Scalars scalars_of(const JsonValue& event);

}  // namespace norn::tools
