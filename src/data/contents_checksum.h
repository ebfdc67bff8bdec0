// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

/// Checksums that tell whether data are those of an earlier run.
namespace norn {

/// Of all that batches of the set can hold: rows, values, weights, the rows of examples. The same
/// wherever the set is kept and however its file is laid out; names and labels do not count. Reads
/// the set once, a part of about a million entries at a time, or so many parts of it, evenly
/// spaced. Nobody else may be reading it.
std::uint64_t contents_checksum(Dataset& set, Index parts = std::numeric_limits<Index>::max());

/// The parts of a set that are read for the checksum which models keep of it: a second or so, also
/// of a set that is streamed.
constexpr Index kTrainedParts = 64;

/// Of a file's bytes. Throws DataError when it cannot be read.
std::uint64_t file_checksum(const std::filesystem::path& file);

/// "01a2b3c4d5e6f708".
std::string checksum_text(std::uint64_t checksum);

}  // namespace norn
