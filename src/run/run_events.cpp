// SPDX-License-Identifier: Apache-2.0
// Events of a run's log.
#include "src/run/run_events.h"

#include <array>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

namespace norn::run {
namespace {

JsonValue event(const char* kind) {
  JsonValue value = JsonValue::object();
  value.set("event", kind).set("time", utc_time());
  return value;
}

}  // namespace

std::string utc_time() {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const auto since = duration_cast<milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{}.{:03}Z", text.data(), since % 1000);
}

JsonValue start_event(const RunFacts& facts) {
  JsonValue value = event("start");
  value.set("program", facts.program).set("version", facts.version).set("model", facts.model);
  value.set("resumed", facts.resumed).set("epoch", facts.epoch).set("step", facts.step);
  value.set("epochs", facts.epochs).set("batch", facts.batch).set("examples", facts.examples);
  value.set("weights", facts.weights).set("ranks", facts.ranks).set("threads", facts.threads);
  value.set("device", facts.device).set("device_name", facts.device_name);
  return value.set("precision", facts.precision).set("seed", facts.seed);
}

JsonValue epoch_event(const EpochReport& report) {
  JsonValue value = event("epoch");
  value.set("epoch", report.epoch).set("step", report.step).set("cost", report.training_cost);
  value.set("regularization", report.regularization_cost).set("rate", report.rate);
  value.set("seconds", report.seconds);
  return value.set("examples_per_second",
                   report.seconds > 0.0 ? double(report.examples) / report.seconds : 0.0);
}

JsonValue validation_event(const ValidationReport& report) {
  JsonValue value = event("eval");
  value.set("epoch", report.epoch).set("step", report.step).set("cost", report.cost);
  JsonValue metrics = JsonValue::array();
  for (const MetricsAtK& at : report.metrics) {
    JsonValue one = JsonValue::object();
    one.set("k", at.k);
    at.for_each(
        [&one](const MetricInfo& metric, double x) { one.set(std::string(metric.name), x); });
    metrics.push(one);
  }
  value.set("metrics", metrics).set("examples", report.examples);
  value.set("watched", report.watched).set("value", report.value).set("best", report.best);
  return value.set("since_best", report.since_best).set("seconds", report.seconds);
}

JsonValue checkpoint_event(std::int64_t epoch, std::int64_t step,
                           const std::filesystem::path& file) {
  return event("checkpoint").set("epoch", epoch).set("step", step).set("file", file);
}

JsonValue end_event(const std::string& reason, std::int64_t epochs, double seconds,
                    const std::filesystem::path& model) {
  JsonValue value = event("end");
  value.set("reason", reason).set("epochs", epochs).set("seconds", seconds);
  if (!model.empty()) value.set("model", model);
  return value;
}

JsonValue error_event(const std::string& message, int exit_code) {
  return event("error").set("message", message).set("exit_code", exit_code);
}

void StepEvents::begin_within(std::int64_t epoch, Index examples, double cost_sum) {
  epoch_ = epoch;
  examples_ = examples;
  cost_sum_ = cost_sum;
}

JsonValue StepEvents::take(const StepReport& report, double now) {
  if (report.epoch != epoch_) {
    begin_within(report.epoch, 0, 0.0);
    since_ = -1.0;
  }
  if (since_ < 0.0) since_ = now - report.seconds;
  if (has_told_ && now - told_at_ < every_) return {};
  has_told_ = true;
  told_at_ = now;
  const double sum = report.cost * double(report.examples);
  const Index examples = report.examples - examples_;
  const double seconds = now - since_;
  JsonValue value = event("step");
  value.set("step", report.step).set("epoch", report.epoch + 1).set("batch", report.batch);
  value.set("cost", examples > 0 ? (sum - cost_sum_) / double(examples) : report.cost);
  value.set("examples_per_second", seconds > 0.0 ? double(examples) / seconds : 0.0);
  examples_ = report.examples;
  cost_sum_ = sum;
  since_ = now;
  return value;
}

}  // namespace norn::run
