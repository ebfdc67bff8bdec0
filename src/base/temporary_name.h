// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the names of temporary files are made of: NAME.tmp-<host>-<process>-<number>.
namespace norn {

inline constexpr const char* kTemporaryMark = ".tmp-";

}  // namespace norn
