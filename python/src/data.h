// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "norn/data/label_table.h"
#include "norn/data/memory_set.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

namespace norn::python {

/// Labels of units, as Python holds them: a sequence of str, and their numbers.
class Labels {
 public:
  explicit Labels(LabelTable table) : table_(std::move(table)) {}
  explicit Labels(const nanobind::iterable& words);

  const LabelTable& table() const { return table_; }
  Index size() const { return table_.size(); }
  nanobind::str at(Index number) const;
  /// -1 for those that are unknown.
  std::vector<std::int64_t> find(const nanobind::list& words) const;

 private:
  const LabelIndex& index() const;
  LabelTable table_;
  mutable std::optional<LabelIndex> index_;  // made when it is asked for, with the GIL
};

/// As a list of Python's: of what an argument holds.
std::vector<MemorySet> sets_of(const nanobind::handle& list);

}  // namespace norn::python
