// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/recommend.h"
#include "norn/run/train.h"
#include "tests/data/support.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace norn::run {

inline constexpr Index kWidth = 61;

// Baskets of a few units that like each other.
struct Baskets {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;

  Baskets(unsigned seed, Index rows) {
    std::mt19937 random(seed);
    for (Index row = 0; row < rows; ++row) {
      const auto group = Column(random() % 6) * 10;
      std::set<Column> basket;
      while (basket.size() < 3 + random() % 4) basket.insert(group + Column(random() % 11));
      columns.insert(columns.end(), basket.begin(), basket.end());
      begin.push_back(RowOffset(columns.size()));
    }
  }
  MemorySet set(std::string name) const {
    return {.name = std::move(name), .width = kWidth, .row_begin = begin, .columns = columns};
  }
  std::vector<MemorySet> sets() const { return {set("films_input"), set("films_output")}; }
};

class Door : public testing::Test {
 protected:
  TrainOptions options() const {
    TrainOptions options;
    options.recipe = "sigmoid";
    options.sets = baskets_.sets();
    options.epochs = 4;
    options.batch = 40;
    options.device.kind = DeviceChoice::Kind::cpu;
    options.device.threads = 2;
    return options;
  }
  ModelOptions on_cpu() const {
    ModelOptions options;
    options.device.kind = DeviceChoice::Kind::cpu;
    options.device.threads = 1;
    return options;
  }
  RecommendOptions requests() const {
    RecommendOptions options;
    options.sets = {baskets_.set("films_input")};
    options.k = 5;
    return options;
  }

  Baskets baskets_{7, 203};
  TempDir folder_;
};

}  // namespace norn::run
