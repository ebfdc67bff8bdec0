// SPDX-License-Identifier: Apache-2.0
// The trainer's reports to its user.
#include "tools/training/training_reports.h"

#include "src/base/text.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace norn::tools {
TrainingReports::TrainingReports(Console& console, const run::RunBeginning& run)
    : console_(console),
      run_(run),
      progress_(console, run.epochs * run.examples - run.first_examples, "examples") {}

void TrainingReports::checkpoint(const std::filesystem::path& path) {
  console_.info(fmt::format("checkpoint {}", path.string()));
}

void TrainingReports::step(const StepReport& report) {
  progress_.update(report.epoch * run_.examples + report.examples - run_.first_examples,
                   fmt::format("epoch {}/{} batch {}/{} cost {:.6g}", report.epoch + 1, run_.epochs,
                               report.batch, report.batches, report.cost));
}

void TrainingReports::epoch(const EpochReport& report) {
  console_.set_status("");
  // DSSTNE's line: its users' scripts read it.
  const std::string line = fmt::format(
      "NNNetwork::Train: Epoch {}, average error {:f}, average training error {:f}, average "
      "regularization error {:f}, elapsed time {:f}s\n",
      report.epoch, report.training_cost + report.regularization_cost, report.training_cost,
      report.regularization_cost, report.seconds);
  errno = 0;
  if ((std::fputs(line.c_str(), stdout) < 0 || std::fflush(stdout) != 0) && errno == EPIPE)
    print_no_more();
}

void TrainingReports::print_no_more() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
  std::clearerr(stdout);
  console_.warning(
      "standard output: its reader has gone; the run goes on and prints no more there");
}

void TrainingReports::validation(const ValidationReport& report) {
  std::string line =
      fmt::format("validation after epoch {}: loss {:.6g}", report.epoch, report.cost);
  for (const MetricsAtK& at : report.metrics) {
    line += fmt::format("; at {}", at.k);
    const char* between = ": ";
    at.for_each([&](const MetricInfo& metric, double value) {
      line += fmt::format("{}{} {:.4f}", std::exchange(between, ", "), metric.name, value);
    });
  }
  line += report.best ? fmt::format("; best {} so far", report.watched)
                      : fmt::format("; best {} was {} ago", report.watched,
                                    counted(report.since_best, "validation"));
  console_.info(line);
}

}  // namespace norn::tools
