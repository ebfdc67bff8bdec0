// SPDX-License-Identifier: Apache-2.0
// The data sets in the files of a run.
#pragma once

#include "src/engine/data/data_binding.h"

#include <string>
#include <vector>

namespace norn {

struct ListedSet {
  DatasetInfo info;
  bool from_outputs = false;          ///< in a file that is for output layers alone
  const MemorySet* memory = nullptr;  ///< one of the sources'; null: it is in a file
};

/// Those of memory and of all files, each file once.
std::vector<ListedSet> list_sets(const DataSources& sources);

/// Their names, each once, in the order of the files.
std::vector<std::string> names_of_sets(const std::vector<ListedSet>& sets);

/// The set of that name: the one in memory; when several files have one, that of the layer's own
/// side. Null: there is none.
const ListedSet* find_set(const std::vector<ListedSet>& sets, const std::string& name,
                          bool for_output);

}  // namespace norn
