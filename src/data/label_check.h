// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_table.h"

#include <string>

/// Labels of files that no seal vouches for: what such a file says would go on into a model unread.
namespace norn {

/// Throws DataError, its message beginning with `where`, unless the labels are as many as their
/// count says, each there once, and have their checksum; of labels that are kept secret, unless
/// that is a SHA-256. Takes as long as LabelTable::index().
void check_labels(const LabelTable& labels, const std::string& where);

}  // namespace norn
