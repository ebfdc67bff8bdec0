// SPDX-License-Identifier: Apache-2.0
// The recipe "auto" from the door: what is held back, and what is left of a search.
#include "src/engine/model/model_file.h"
#include "tests/run/door.h"

#include <algorithm>

namespace norn::run {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

class Automatic : public Door {
 protected:
  TrainOptions search(const std::string& model) {
    TrainOptions asked = options();
    asked.recipe = "auto";
    asked.epochs = 2;
    asked.budget = 3.5;
    asked.model = folder_ / model;
    asked.log = Log([this](LogLevel, const std::string& text) { told_.push_back(text); });
    return asked;
  }
  // What is told while it trains.
  std::vector<std::string> told_by(const TrainOptions& asked) {
    told_.clear();
    train(asked);
    return told_;
  }

  std::vector<std::string> told_;
};

TEST_F(Automatic, ASearchThatHasEndedIsNotMadeAgain) {
  TrainOptions asked = search("model.nc");
  EXPECT_THAT(told_by(asked), Contains(HasSubstr("candidate 1: ")));
  const std::string before = read_text(asked.model);
  asked.resume = "auto";
  EXPECT_THAT(told_by(asked), Not(Contains(HasSubstr("candidate 1: "))));
  EXPECT_EQ(read_text(asked.model), before);
}

TEST_F(Automatic, HoldsBackExamplesThatHaveSomethingToFind) {
  TrainOptions asked = search("model.nc");
  asked.validation.by = "user";
  const std::vector<std::string> told = told_by(asked);
  EXPECT_THAT(told, Contains(HasSubstr(" on held-back examples")));
  EXPECT_THAT(told, Contains(HasSubstr("candidate 1: ")));
  // Of one entry each none is hidden, whoever is held back.
  Baskets thin = baskets_;
  thin.begin.resize(1);
  while (thin.begin.size() < 60) thin.begin.push_back(RowOffset(thin.begin.size()));
  thin.columns.resize(59);
  TrainOptions little = search("little.nc");
  little.sets = thin.sets();
  little.validation.by = "user";
  EXPECT_THAT(told_by(little), Contains(HasSubstr("too little data to hold anything back")));
}

TEST_F(Automatic, WhatWasChosenForDataIsForgottenWithThem) {
  // Entries with weights are nothing for EASE, which no training goes on from.
  std::mt19937 random(std::random_device{}());
  std::vector<float> values(baskets_.columns.size());
  for (float& value : values) value = float(1 + random() % 5);
  TrainOptions asked = search("model.nc");
  asked.sets[1].values = values;
  asked.entry_weights = "linear";
  train(asked);
  EXPECT_FALSE(read_model_info(TensorFileReader(asked.model)).chosen.empty());
  const Baskets other(unsigned(random()), 150);
  TrainOptions more = options();
  more.recipe.clear();
  more.sets = other.sets();
  more.model = asked.model;
  more.batch = {};
  more.resume = "auto";
  more.other_data = true;
  more.epochs = 3;
  train(more);
  EXPECT_TRUE(read_model_info(TensorFileReader(asked.model)).chosen.empty());
}

}  // namespace
}  // namespace norn::run
