// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/label_index.h"

#include <cstdint>
#include <filesystem>
#include <vector>

/// Files that name the units that may be chosen, `allow`.
namespace norn::run {

/// [units] 1 of those that the file lists, a label a line, and 0 of the others. Labels that are
/// none of the first `units` of the index are counted in one warning. Throws DataError where the
/// file cannot be read, and where none of its lines is known.
std::vector<std::uint8_t> read_allowed_units(const std::filesystem::path& file,
                                             const LabelIndex& index, Index units, const Log& log);

}  // namespace norn::run
