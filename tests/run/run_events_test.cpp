// SPDX-License-Identifier: Apache-2.0
// Events of a run's log, and the file that they go to.
#include "src/run/run_events.h"

#include "norn/base/error.h"
#include "src/run/appended_file.h"
#include "src/run/run_folder.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

class RunEvents : public testing::Test {
 protected:
  RunEvents() { fs::create_directories(folder_); }
  ~RunEvents() override { fs::remove_all(folder_); }

  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  fs::path folder_ = fs::temp_directory_path() / ("norn-run-events-" + std::to_string(getpid()));
};

StepReport report_of(std::int64_t step, std::int64_t epoch, Index examples, double cost,
                     double seconds) {
  StepReport report;
  report.step = step;
  report.epoch = epoch;
  report.batch = examples / 10;
  report.examples = examples;
  report.cost = cost;
  report.seconds = seconds;
  return report;
}

TEST_F(RunEvents, StepsAreThinnedOutAndStandForThoseBetween) {
  StepEvents steps(1.0);
  JsonValue event = steps.take(report_of(1, 0, 10, 4.0, 0.25), 0.25);
  EXPECT_EQ(event["cost"].number_or(0), 4.0);
  EXPECT_EQ(event["examples_per_second"].number_or(0), 40.0);
  EXPECT_EQ(event["epoch"].integer_or(0), 1);
  EXPECT_TRUE(steps.take(report_of(2, 0, 20, 3.0, 0.5), 0.5).is_null());
  event = steps.take(report_of(5, 0, 50, 2.0, 2.25), 2.25);
  EXPECT_DOUBLE_EQ(event["cost"].number_or(0), (50 * 2.0 - 10 * 4.0) / 40);
  EXPECT_DOUBLE_EQ(event["examples_per_second"].number_or(0), 20.0);
  EXPECT_EQ(event["step"].integer_or(0), 5);
}

TEST_F(RunEvents, ANewEpochBeginsANewMean) {
  StepEvents steps(1.0);
  steps.take(report_of(1, 0, 10, 4.0, 1.0), 1.0);
  EXPECT_TRUE(steps.take(report_of(11, 1, 10, 1.5, 0.1), 1.5).is_null());
  const JsonValue event = steps.take(report_of(12, 1, 20, 1.0, 1.0), 3.0);
  EXPECT_DOUBLE_EQ(event["cost"].number_or(0), 1.0);
  EXPECT_DOUBLE_EQ(event["examples_per_second"].number_or(0), 20 / (3.0 - 1.4))
      << "from the epoch's beginning, told by the first step of it";
}

TEST_F(RunEvents, WhatWasDoneOfAnEpochBeforeIsLeftOut) {
  StepEvents steps(1.0);
  steps.begin_within(3, 100, 100 * 2.0);
  const JsonValue event = steps.take(report_of(41, 3, 110, (200.0 + 10 * 5.0) / 110, 0.5), 0.5);
  EXPECT_NEAR(event["cost"].number_or(0), 5.0, 1e-12);
  EXPECT_DOUBLE_EQ(event["examples_per_second"].number_or(0), 20.0);
}

TEST_F(RunEvents, AValidationIsAnEvaluation) {
  ValidationReport report;
  report.epoch = 3;
  report.step = 30;
  report.cost = 1.25;
  report.metrics = {{10, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}},
                    {20, {0.2, 0.1, 0.3, 0.4, 0.5, 0.6, 0.8}}};
  report.examples = 77;
  report.watched = "ndcg@20";
  report.value = 0.3;
  report.best = true;
  JsonValue event = validation_event(report);
  EXPECT_EQ(event["event"].text_or(""), "eval");
  EXPECT_EQ(event["metrics"].entries().size(), 2u);
  const JsonValue& at = event["metrics"].entries()[1];
  EXPECT_THAT(at.line(),
              testing::StartsWith(R"({"k": 20, "recall": 0.2, "precision": 0.1, "ndcg": )"
                                  R"(0.3, "map": 0.4, "mrr": 0.5, "hit_rate": 0.6, )"
                                  R"("coverage": 0.8)"));
  EXPECT_EQ(at.members().size(), 1 + metric_names().size());
  EXPECT_EQ(event["watched"].text_or(""), "ndcg@20");
  EXPECT_TRUE(event["best"].bool_or(false));
}

TEST_F(RunEvents, TimesAreUtcToTheMillisecond) {
  EXPECT_THAT(utc_time(), testing::MatchesRegex(
                              "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"));
}

TEST_F(RunEvents, ARecordThatDoesNotFitIsLeftOutWholeAndSaidOnce) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  std::vector<std::string> told;
  AppendedFile file(folder_ / "log", [&](const std::string& trouble) { told.push_back(trouble); });
  file.append(std::string(79, 'a') + "\n");
  file.append(std::string(49, 'b') + "\n");
  file.append(std::string(39, 'c') + "\n");
  file.append(std::string(9, 'd') + "\n");
  setrlimit(RLIMIT_FSIZE, &before);
  file.append("room again\n");
  EXPECT_EQ(read("log"), std::string(79, 'a') + "\n" + std::string(9, 'd') + "\nroom again\n");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::HasSubstr("cannot be written: File too large"));
}

TEST_F(RunEvents, OnlyALastLineWithoutAnEndIsRemoved) {
  const std::string longer(9000, 'x');
  for (const std::string& whole : {std::string(), std::string("a\n"), "a\n" + longer + "\n"})
    for (const std::string& torn : {std::string(), std::string("{"), longer}) {
      write("log", whole + torn);
      remove_unfinished_line(folder_ / "log");
      EXPECT_EQ(read("log"), whole);
    }
  remove_unfinished_line(folder_ / "none");
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(RunEvents, OtherRanksWriteNothingUnlessTheyTellAnError) {
  RunFolder first;
  RunFolder second;
  const Recorder program;
  first.open(folder_ / "run", RunFolder::Earlier::refused, 0, program, {});
  second.open(folder_ / "run", RunFolder::Earlier::refused, 1, program, {});
  second.failed("before it began", 2);
  RunRecord record;
  record.facts.program = "trainer";
  record.network = "{}";
  record.facts.model = "model.nc";
  first.begin(record, {});
  second.begin(record, {});
  EXPECT_TRUE(first.observer().on_validation);
  EXPECT_FALSE(second.observer().on_step);
  second.failed("trouble of rank 1", 5);
  second.end("completed", 1, {}, {});
  std::istringstream lines(read("run/log.jsonl"));
  std::vector<std::string> events;
  for (std::string line; std::getline(lines, line);)
    events.push_back(parse_json(line, "log")["event"].text_or(""));
  EXPECT_EQ(events, (std::vector<std::string>{"start", "error"}));
}

}  // namespace
}  // namespace norn::run
