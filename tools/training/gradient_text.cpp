// SPDX-License-Identifier: Apache-2.0
// Gradients beside differences of the cost: `--check-gradients`, and Validate of command files.
#include "norn/base/error.h"
#include "src/base/text.h"
#include "tools/training/training_run.h"

#include <cstdio>

#include <fmt/format.h>

namespace norn::tools {
namespace {

void print_groups(const std::vector<CheckedGroup>& groups) {
  std::string text = fmt::format("{:<32} {:>12} {:>8} {:>6} {:>14} {:>14}\n", "", "parameters",
                                 "checked", "wrong", "largest slope", "difference");
  for (const CheckedGroup& group : groups)
    text += fmt::format("{:<32} {:>12} {:>8} {:>6} {:>14.6g} {:>14.6g}\n", group.name,
                        with_thousands(group.parameters), with_thousands(group.checked),
                        group.wrong, group.largest, group.difference);
  print_results(text);
}

}  // namespace

int run_gradient_check(const TrainerOptions& given, MpiSession& session) {
  TrainerOptions options = given;
  options.check();
  options.settle();
  Console console("trainer", session.rank(), options.run.level());
  for (const std::string& note : options.cdl_notes) console.warning(note);
  options.ranks = session.world(options.run.collective_timeout);
  options.log = console.log();
  const run::GradientCheck check = run::check_gradients(options);
  for (const std::string& name : check.left_out)
    console.info(
        fmt::format("left out, because gradients are compared with the cost alone: {}", name));
  print_groups(check.groups);
  if (check.wrong() > 0)
    throw Error(fmt::format("{} gradients are not slopes of the cost; report it, with the network",
                            check.wrong()));
  std::fputs("gradients agree with the cost\n", stdout);
  return 0;
}

}  // namespace norn::tools
