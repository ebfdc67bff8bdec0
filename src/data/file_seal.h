// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The seal at the end of a file that Norn wrote: a checksum of its header, that is of every byte
/// that is not an element of a variable. It is compared before the NetCDF library sees the file:
/// that may crash on a header with a flipped bit.
///
/// After the last byte of the NetCDF file stand, in little-endian order: for each run of elements
/// its offset and size in bytes (uint64 each), their count (uint64), the CRC-32 of the header
/// followed by all of that (uint32), and "NornSeal".
namespace norn {

/// Attribute of a file that is sealed, and how: without its seal it was cut off.
inline constexpr const char* kSealedAttribute = "norn_sealed";
inline constexpr std::int32_t kSeal = 1;

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// Where a closed NetCDF file keeps the elements of these variables, in order; those that are in
/// chunks or empty have no place of their own. Throws DataError, naming `shown`, when the file
/// cannot be read.
std::vector<ByteRange> places_of(const std::filesystem::path& file,
                                 const std::vector<std::string>& variables,
                                 const std::filesystem::path& shown);

/// Appends the seal. Throws DataError naming `shown` when the disk is full.
void seal_file(const std::filesystem::path& file, const std::vector<ByteRange>& elements,
               const std::filesystem::path& shown);

/// Whether the file has a seal. Throws DataError naming `shown` when its header does not agree with
/// it.
bool check_seal(const std::filesystem::path& file, const std::filesystem::path& shown);

}  // namespace norn
