// SPDX-License-Identifier: Apache-2.0
// A program of somebody else, as docs/user/library.md shows it.
#include "norn/run/recommend.h"
#include "norn/run/train.h"

#include <iostream>
#include <vector>

int main(int, char** argv) {
  // Baskets of two kinds: of units 0 to 9, and of units 10 to 19.
  const norn::Index units = 20;
  std::vector<norn::RowOffset> begin = {0};
  std::vector<norn::Column> columns;
  for (norn::Column basket = 0; basket < 200; ++basket) {
    for (norn::Column unit = 0; unit < 10; ++unit)
      if ((basket * 7 + unit * 3) % 5 < 2) columns.push_back(basket % 2 * 10 + unit);
    begin.push_back(norn::RowOffset(columns.size()));
  }
  const norn::MemorySet known{
      .name = "baskets_input", .width = units, .row_begin = begin, .columns = columns};
  norn::MemorySet wanted = known;
  wanted.name = "baskets_output";

  norn::run::TrainOptions options;
  options.recipe = "sigmoid";
  options.sets = {known, wanted};
  options.batch = 20;
  options.epochs = 20;
  options.validation.split = 0.1f;
  options.validation.keep_best = "recall@10";
  options.device.kind = norn::DeviceChoice::Kind::cpu;
  norn::run::TrainObserver observer;
  observer.on_validation = [](const norn::ValidationReport& at) {
    std::cout << "epoch " << at.epoch << ": " << at.watched << " " << at.value << "\n";
  };
  norn::run::train(options, observer).model->save(argv[1]);

  norn::run::Model model(argv[1], {.device = options.device});
  const auto best = norn::run::recommend(model, {.sets = {known}, .k = 3, .exclude_seen = true});
  for (std::size_t i = 0; i < 3; ++i)
    std::cout << "unit " << best.units[i] << ": " << best.scores[i] << "\n";
  return best.units[0] < 10 ? 0 : 1;  // the first basket is of the first kind
}
