// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/importer.h"

/// Files of data sets from text.
namespace norn::run {

/// An input and a target set in one file, joined by the examples' labels; with a split several
/// files. Files that exist stay as they were unless everything was written. Throws DataError and
/// UsageError.
inline ImportReport import_text(const PairImport& options, const Log& log = {}) {
  return import_pair(options, log);
}
/// One set in a file, with index files that several runs share.
inline ImportReport import_text(const SetImport& options, const Log& log = {}) {
  return import_set(options, log);
}

}  // namespace norn::run
