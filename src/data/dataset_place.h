// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <string>

namespace norn {

/// `file: data set "name"`, without a file of a set in memory: how messages about a set begin.
std::string place(const DatasetInfo& info);

}  // namespace norn
