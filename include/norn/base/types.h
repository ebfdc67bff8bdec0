// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The one place where integer widths are chosen.
namespace norn {

using Index = std::int64_t;      ///< Counts and positions of examples, units, elements.
using RowOffset = std::int64_t;  ///< Position of an entry in a sparse data set.
using Column = std::uint32_t;    ///< Unit number of one sparse entry: up to 4.29e9 units.

}  // namespace norn
