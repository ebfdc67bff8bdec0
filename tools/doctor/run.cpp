// SPDX-License-Identifier: Apache-2.0
// trainer --doctor on one or several ranks: one rank of a host looks at it, all measure their
// links.
#include "tools/doctor/run.h"

#include "norn/base/error.h"
#include "src/base/host.h"
#include "src/engine/plan/step_probe.h"
#include "tools/common/console.h"
#include "tools/common/version.h"
#include "tools/doctor/files.h"
#include "tools/doctor/look.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace norn::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTime = std::chrono::seconds(6);  // after which no measurement begins

// A member of a record that another rank has sent.
const JsonValue& member(const JsonValue& record, const char* name) {
  if (record[name].is_null())
    throw CommunicationError(
        fmt::format("a rank sends a record without \"{}\": it runs another version of Norn; start "
                    "the same program on every host",
                    name));
  return record[name];
}

std::vector<JsonValue> gather(Communicator& ranks, const JsonValue& mine) {
  const std::string text = mine.line();
  std::vector<JsonValue> all;
  for (const auto& bytes : ranks.gather_to_all(std::as_bytes(std::span(text))))
    all.push_back(
        parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "a rank's record"));
  return all;
}

Finding finding_from(const JsonValue& record) {
  const auto text = [&](const char* name) { return member(record, name).text_or(""); };
  Finding finding{Health::ok,    text("host"),     text("area"), text("check"),
                  text("value"), text("expected"), text("do")};
  for (const Health health : {Health::warning, Health::problem, Health::not_checked})
    if (text("state") == word_of(health)) finding.health = health;
  return finding;
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
    const std::vector<JsonValue> hosts = gather(*ranks_, host_name());
    const auto same = [&](const JsonValue& host) { return host.text_or("") == host_name(); };
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
    JsonValue mine = JsonValue::array();
    for (const Finding& finding : findings.all) mine.push(json_of(finding));
    for (const JsonValue& all : gather(*ranks_, mine))
      for (const JsonValue& one : all.entries()) report.findings.push_back(finding_from(one));
    const std::vector<JsonValue> facts = gather(*ranks_, json_of(own_facts()));
    measure_links(machine);
    int code = 0;
    if (ranks_->rank() == 0) {
      for (const JsonValue& record : facts) machine.ranks.push_back(rank_from(record));
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

JsonValue json_of(const RankFacts& rank) {
  JsonValue value = JsonValue::object();
  value.set("host", rank.host).set("cores", cores_text(rank.cores)).set("threads", rank.threads);
  value.set("blas", rank.blas).set("version", rank.version).set("gpus", rank.gpus);
  if (rank.visible_gpus) value.set("visible_gpus", *rank.visible_gpus);
  return value.set("gpu", rank.gpu);
}

RankFacts rank_from(const JsonValue& record) {
  const auto text = [&](const char* name) { return member(record, name).text_or(""); };
  RankFacts rank;
  rank.host = text("host");
  rank.cores = parse_cores(text("cores"));
  rank.threads = int(member(record, "threads").integer_or(0));
  rank.blas = text("blas");
  rank.version = text("version");
  if (record["visible_gpus"].is_text()) rank.visible_gpus = text("visible_gpus");
  rank.gpus = int(member(record, "gpus").integer_or(0));
  rank.gpu = text("gpu");
  return rank;
}

int run_doctor(const TrainerOptions& options, MpiSession& session) {
  options.check();
  return Doctor(options, session).run();
}

}  // namespace norn::tools
