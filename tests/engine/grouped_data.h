// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset_writer.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

/// Data sets in which there is something to find.
namespace norn::test {

inline constexpr Index kUnits = 133;
inline constexpr Index kExamples = 240;

/// Rows of units that tend to come from one group each, so that there is something to find.
inline std::vector<std::vector<Column>> grouped_rows(Index units, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<Column>> rows(kExamples);
  for (auto& row : rows) {
    const Index groups = 7, group = Index(random() % groups);
    for (int i = 0; i < 9; ++i)
      row.push_back(Column(i % 4 == 3
                               ? Index(random()) % units
                               : group + groups * (Index(random() >> 1) % (units / groups))));
    for (Column& unit : row) unit = Column(Index(unit) % units);
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return rows;
}

struct NamedRows {
  std::string name;
  std::vector<std::vector<Column>> rows;
  bool valued = false;
};

inline void write_sets(const std::filesystem::path& path, const std::vector<NamedRows>& sets) {
  std::vector<DatasetInfo> infos;
  for (const NamedRows& set : sets) {
    DatasetInfo info;
    info.name = set.name;
    info.type = set.valued ? ElementType::float32 : ElementType::uint32;
    info.extent[0] = kUnits;
    info.sparse = true;
    info.boolean = !set.valued;
    info.examples = info.unique_examples = Index(set.rows.size());
    for (const auto& row : set.rows) info.entries += Index(row.size());
    infos.push_back(info);
  }
  DatasetWriter writer(path, infos);
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (const auto& row : sets[s].rows) {
      const Index size = Index(row.size());
      const std::vector<float> values(sets[s].valued ? row.size() : 0, 1.5f);
      writer.append_rows(int(s), {&size, 1}, row, values);
    }
  writer.commit();
}

}  // namespace norn::test
