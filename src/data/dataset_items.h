// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "netcdf_file.h"
#include "src/data/dataset.h"

#include <string>

/// The names and bits of the data set file format, and the words for its errors.
namespace norn {

/// Bits of the attribute `attributes{n}`.
enum DatasetBit : std::uint32_t {
  kSparseBit = 1,
  kBooleanBit = 2,
  kCompressedBit = 4,  // no effect
  kRecurrentBit = 8,   // no effect
  kMutableBit = 16,    // no effect
  kIgnoreZeroBit = 32,
  kIndexedBit = 64,
  kWeightedBit = 128,
  kKnownBits = 255
};

/// Items carry the number of their set: item("sparseStart", 1) is "sparseStart1".
inline std::string item(const char* name, int number) {
  return name + std::to_string(number);
}

/// The type in which values of a set are stored.
StoredType stored_type(ElementType type);

}  // namespace norn
