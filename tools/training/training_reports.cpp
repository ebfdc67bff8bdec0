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
TrainingReports::TrainingReports(Console& console, const run::RunBeginning& run,
                                 const std::string& format, bool quiet)
    : console_(console),
      run_(run),
      is_dsstne_(format == "dsstne"),
      quiet_(quiet),
      progress_(console, run.epochs * run.examples - run.first_examples, "examples") {}

TrainingReports::~TrainingReports() {
  tell_epoch("");
}

void TrainingReports::checkpoint(const std::filesystem::path& path) {
  console_.info(fmt::format("checkpoint {}", path.string()));
}

void TrainingReports::step(const StepReport& report) {
  progress_.update(
      report.epoch * run_.examples + report.examples - run_.first_examples,
      fmt::format("epoch {}/{} cost {:.6g}", report.epoch + 1, run_.epochs, report.cost));
}

void TrainingReports::epoch(const EpochReport& report) {
  console_.set_status("");
  progress_.reached(report.epoch * run_.examples - run_.first_examples);
  if (is_dsstne_) {
    print(fmt::format(
        "NNNetwork::Train: Epoch {}, average error {:f}, average training error {:f}, average "
        "regularization error {:f}, elapsed time {:f}s\n",
        report.epoch, report.training_cost + report.regularization_cost, report.training_cost,
        report.regularization_cost, report.seconds));
    return;
  }
  untold_ = report;
  if (!report.is_validated) tell_epoch("");
}

void TrainingReports::tell_epoch(const std::string& held_out) {
  if (!untold_) return;
  const EpochReport report = *std::exchange(untold_, std::nullopt);
  std::string line = fmt::format("epoch {}/{}: cost {:.6g}", report.epoch, report.epochs,
                                 report.training_cost + report.regularization_cost);
  if (report.regularization_cost > 0.0)
    line += fmt::format(" ({:.3g} of it regularisation)", report.regularization_cost);
  line += held_out;
  if (report.seconds > 0.0)
    line += fmt::format(", {} examples/s",
                        with_thousands((long long)(double(report.examples) / report.seconds)));
  const std::string left = progress_.left();
  if (report.epoch < report.epochs && !left.empty()) line += fmt::format(", {} left", left);
  print(line + "\n");
}

void TrainingReports::print(const std::string& line) {
  if (quiet_) return;
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
  tell_epoch(fmt::format(", held out: {} {:.6g}{}", report.watched, report.value,
                         report.best ? " (the best)" : ""));
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
