// SPDX-License-Identifier: Apache-2.0
// The doctor's report, for people and for scripts.
#include "src/base/text.h"

#include "tools/common/command_line.h"
#include "tools/common/version.h"
#include "tools/doctor/doctor.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr std::size_t kColumns = 110;
constexpr std::size_t kIndent = 15;

// The words behind a label, in lines of at most kColumns.
std::string labelled(const std::string& label, const std::string& text) {
  return fmt::format("{:{}}{}{}\n", "", kIndent, label,
                     wrap(text, kIndent + label.size(), kColumns));
}

std::string lines_of(const Finding& finding) {
  std::string out =
      fmt::format("  {:<11}  {:<19}  {}", word_of(finding.health), finding.name, finding.value);
  const bool off = finding.health == Health::warning || finding.health == Health::problem;
  if (!off)
    return out +
           (finding.expected.empty() ? "\n" : fmt::format(" (expected: {})\n", finding.expected));
  return out + "\n" + labelled("expected: ", finding.expected) + labelled("do: ", finding.advice);
}

}  // namespace

const char* word_of(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warning:
      return "warning";
    case Health::problem:
      return "problem";
    case Health::not_checked:
      return "not checked";
  }
  return "";
}

int DoctorReport::count(Health health) const {
  return int(std::count_if(findings.begin(), findings.end(),
                           [&](const Finding& f) { return f.health == health; }));
}

std::string doctor_table(const DoctorReport& report) {
  std::string out;
  std::string host;
  std::string area;
  const bool several = std::any_of(
      report.findings.begin(), report.findings.end(),
      [&](const Finding& f) { return !f.host.empty() && f.host != report.findings.front().host; });
  for (const Finding& finding : report.findings) {
    if (several && finding.host != host && !finding.host.empty())
      out += fmt::format("{}== {} ==\n", out.empty() ? "" : "\n", finding.host);
    if (finding.area != area || finding.host != host) out += finding.area + "\n";
    host = finding.host;
    area = finding.area;
    out += lines_of(finding);
  }
  return out + fmt::format("\n{}, {}; {} ok, {} not checked; {:.1f} s\n",
                           counted(report.count(Health::problem), "problem"),
                           counted(report.count(Health::warning), "warning"),
                           report.count(Health::ok), report.count(Health::not_checked),
                           report.seconds);
}

JsonValue json_of(const Finding& finding) {
  JsonValue value = JsonValue::object();
  value.set("host", finding.host).set("area", finding.area).set("check", finding.name);
  value.set("state", word_of(finding.health)).set("value", finding.value);
  return value.set("expected", finding.expected).set("do", finding.advice);
}

std::string doctor_json(const DoctorReport& report) {
  JsonValue summary = JsonValue::object();
  summary.set("ok", report.count(Health::ok)).set("warnings", report.count(Health::warning));
  summary.set("problems", report.count(Health::problem));
  summary.set("not_checked", report.count(Health::not_checked));
  JsonValue checks = JsonValue::array();
  for (const Finding& finding : report.findings) checks.push(json_of(finding));
  JsonValue value = JsonValue::object();
  value.set("program", version_line("trainer")).set("summary", summary);
  return value.set("seconds", report.seconds).set("checks", checks).text();
}

void look_at(std::span<const Check> checks, const Examination& machine, Findings& findings) {
  for (const Check& check : checks) {
    findings.begin(check.area, check.name);
    check.look(machine, findings);
  }
}

void look_at_host(const Examination& machine, Findings& findings) {
  look_at(cpu_checks(), machine, findings);
  look_at(memory_checks(), machine, findings);
  look_at(disk_checks(), machine, findings);
  look_at(driver_checks(), machine, findings);
  for (const ExaminedGpu& gpu : machine.gpus) {
    const std::string area = fmt::format("GPU {} ({})", gpu.shape.device, gpu.shape.name);
    for (const auto checks : {gpu_state_checks(), gpu_rate_checks()})
      for (const GpuCheck& check : checks) {
        findings.begin(area, check.name);
        check.look(gpu, machine, findings);
      }
  }
  look_at(link_checks(), machine, findings);
}

}  // namespace norn::tools
