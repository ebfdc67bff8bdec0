// SPDX-License-Identifier: Apache-2.0
// trainer --doctor on one or several ranks: one rank of a host looks at it, all measure their
// links.
#include "tools/doctor/run.h"

#include "norn/base/error.h"
#include "src/base/host.h"
#include "src/base/text.h"
#include "src/engine/step_probe.h"
#include "tools/common/console.h"
#include "tools/common/version.h"
#include "tools/doctor/files.h"
#include "tools/doctor/look.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include <fmt/format.h>

namespace norn::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTime = std::chrono::seconds(6);  // after which no measurement begins
constexpr char kField = '\x1f';
constexpr char kRecord = '\x1e';

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t end = text.find(mark); end != std::string::npos; end = text.find(mark, at)) {
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Of a record that another rank has sent.
std::vector<std::string> fields_of(const std::string& record, std::size_t expected) {
  std::vector<std::string> fields = split(record, kField);
  if (fields.size() != expected)
    throw CommunicationError(
        fmt::format("a rank sends records of {} fields, expected {}: it runs another version of "
                    "Norn; start the same program on every host",
                    fields.size(), expected));
  return fields;
}

std::string joined(std::span<const std::string> fields) {
  std::string text;
  for (const std::string& field : fields) text += field + kField;
  return text;
}

std::vector<std::string> gather(Communicator& ranks, const std::string& mine) {
  std::vector<std::string> texts;
  for (const auto& bytes : ranks.gather_to_all(std::as_bytes(std::span(mine))))
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return texts;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    const std::array fields = {
        fmt::format("{}", int(f.health)), f.host, f.area, f.name, f.value, f.expected, f.advice};
    text += joined(fields) + kRecord;
  }
  return text;
}

std::vector<Finding> findings_from(const std::string& text) {
  std::vector<Finding> findings;
  for (const std::string& record : split(text, kRecord)) {
    const std::vector<std::string> fields = fields_of(record, 7);
    findings.push_back({Health(parse_integer(fields[0]).value_or(0)), fields[1], fields[2],
                        fields[3], fields[4], fields[5], fields[6]});
  }
  return findings;
}

class Doctor {
 public:
  Doctor(const TrainerOptions& options, MpiSession& session)
      : options_(options),
        ranks_(session.world(options.run.collective_timeout)),
        console_("trainer", session.rank(), options.run.level()) {}

  int run() {
    const Clock::time_point start = Clock::now();
    console_.info("looking at this machine; with GPUs it takes about 10 seconds");
    ranks_->set_place({"looking at the machine"});
    const std::vector<std::string> hosts = gather(*ranks_, host_name());
    const auto same = [&](const std::string& host) { return host == host_name(); };
    here_ = int(std::count_if(hosts.begin(), hosts.end(), same));
    turn_ = int(std::count_if(hosts.begin(), hosts.begin() + ranks_->rank(), same));
    seen_gpus_ = options_.run.device == "cpu" ? 0 : cuda_device_count();
    uses_gpu_ = !ranks_->any(seen_gpus_ == 0);

    Examination machine;
    Findings findings;
    if (turn_ == 0) {
      machine = look_at_this_host(
          {options_.model, options_.run.threads, here_, uses_gpu_, start + kTime});
      look_at_host(machine, findings);
      for (Finding& finding : findings.all) finding.host = host_name();
    }
    DoctorReport report;
    for (const std::string& text : gather(*ranks_, text_of(findings.all)))
      for (Finding& finding : findings_from(text)) report.findings.push_back(std::move(finding));
    const std::vector<std::string> facts = gather(*ranks_, text_of(own_facts()));
    measure_links(machine);
    int code = 0;
    if (ranks_->rank() == 0) {
      for (const std::string& text : facts) machine.ranks.push_back(rank_from(text));
      machine.uses_gpu = uses_gpu_;
      machine.mpi = mpi_facts();
      Findings joint;
      look_at(rank_checks(), machine, joint);
      report.findings.insert(report.findings.end(), joint.all.begin(), joint.all.end());
      report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      print_results(options_.doctor_format == "json" ? doctor_json(report) : doctor_table(report));
      code = report.count(Health::problem) > 0 ? int(ExitCode::device) : 0;
    }
    return ranks_->any(code != 0) ? int(ExitCode::device) : 0;
  }

 private:
  RankFacts own_facts() const {
    RankFacts rank;
    rank.host = host_name();
    rank.cores = own_cores();
    rank.threads = options_.run.threads == 0 ? int(rank.cores.size()) : options_.run.threads;
    rank.blas = describe_cpu_kernels();
    rank.version = version_line("trainer");
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) rank.visible_gpus = visible;
    rank.gpus = seen_gpus_;
    const std::vector<GpuShape> gpus = cuda_gpus();
    const int device = options_.run.gpu.value_or(gpus.empty() ? 0 : turn_ % int(gpus.size()));
    if (uses_gpu_ && device < int(gpus.size())) rank.gpu = gpus[std::size_t(device)].pci;
    return rank;
  }

  void measure_links(Examination& machine) {
    if (ranks_->size() == 1) return;
    CpuRuntime host(1);
    machine.host_link = measure_link(host.context(*ranks_));
    if (!uses_gpu_) return;
    const std::unique_ptr<Runtime> runtime = make_runtime(options_.run.device_choice(), *ranks_);
    const Context context = runtime->context(*ranks_);
    machine.device_link = measure_link(context);
    machine.device_link_by = context.collectives->describe();
  }

  const TrainerOptions& options_;
  std::shared_ptr<Communicator> ranks_;
  Console console_;
  int here_ = 1;  // ranks of this host
  int turn_ = 0;  // which of them this one is
  int seen_gpus_ = 0;
  bool uses_gpu_ = false;
};

}  // namespace

std::string text_of(const RankFacts& rank) {
  const std::array fields = {rank.host,
                             cores_text(rank.cores),
                             fmt::format("{}", rank.threads),
                             rank.blas,
                             rank.version,
                             std::string(rank.visible_gpus ? "set" : ""),
                             rank.visible_gpus.value_or(""),
                             fmt::format("{}", rank.gpus),
                             rank.gpu};
  return joined(fields);
}

RankFacts rank_from(const std::string& text) {
  const std::vector<std::string> fields = fields_of(text, 9);
  RankFacts rank;
  rank.host = fields[0];
  rank.cores = parse_cores(fields[1]);
  rank.threads = int(parse_integer(fields[2]).value_or(0));
  rank.blas = fields[3];
  rank.version = fields[4];
  if (!fields[5].empty()) rank.visible_gpus = fields[6];
  rank.gpus = int(parse_integer(fields[7]).value_or(0));
  rank.gpu = fields[8];
  return rank;
}

int run_doctor(const TrainerOptions& options, MpiSession& session) {
  options.check();
  return Doctor(options, session).run();
}

}  // namespace norn::tools
