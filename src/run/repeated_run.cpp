// SPDX-License-Identifier: Apache-2.0
// Runs that are made again.
#include "src/run/repeated_run.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/data/contents_checksum.h"
#include "src/engine/train/rate_schedule.h"
#include "src/nn/descriptor_json.h"
#include "src/run/model_session.h"
#include "src/run/ranks.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;
using From = OriginRecord::From;

// Threads do not matter for the bits: "OpenBLAS 0.3.21 Cooperlake, 16 threads", or "1 thread".
std::string without_threads(const std::string& device) {
  const bool says = device.ends_with(" threads") || device.ends_with(" thread");
  return says ? device.substr(0, device.rfind(',')) : device;
}

// Without the number of epochs, where it does not change what each of them does.
std::string settings_of(const std::string& recorded) {
  NetworkDescriptor network = parse_network_json(recorded, "network");
  TrainingDescriptor& training = network.training;
  if (!falls_to_the_end(training.schedule)) training.epochs = TrainingDescriptor().epochs;
  return to_json(network);
}

bool same_sets(const std::vector<DataSetRecord>& a, const std::vector<DataSetRecord>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const DataSetRecord& x, const DataSetRecord& y) {
                      return x.name == y.name && x.checksum == y.checksum;
                    });
}

void require_origin(const OriginRecord& origin, const fs::path& file) {
  const char* what = origin.from == From::weights ? "weights" : "checkpoint";
  if (!path_exists(origin.file))
    throw DataError(
        fmt::format("{}: the run began with the {} {}, which is not there; put it back "
                    "to repeat the run",
                    file.string(), what, origin.file.string()));
  const std::string found = checksum_text(file_checksum(origin.file));
  if (found != origin.checksum)
    throw DataError(
        fmt::format("{}: the run began with the {} {}, which is another file now: its checksum is "
                    "{}, recorded {}; put the old one back to repeat the run",
                    file.string(), what, origin.file.string(), found, origin.checksum));
}

}  // namespace

TrainingStart start_repeated(const RunRecord& recorded, const TrainOptions& options,
                             Communicator& communicator, const Log& log) {
  const fs::path& file = options.repeat;
  TrainingStart start;
  start.where = file.string();
  start.network = parse_network_json(recorded.network, file.string() + ": network",
                                     [&log](const std::string& note) { log.warning(note); });
  NetworkDescriptor changed = start.network;
  put_settings(options, changed, {});
  if (to_json(changed) != to_json(start.network))
    throw UsageError(
        "`repeat` makes the run again as it was, and another setting of this run changes its "
        "training; leave one of them out");
  if (!recorded.chosen.is_null()) start.chosen = recorded.chosen.line();
  const OriginRecord& origin = recorded.origin;
  if (!origin.has_file_of_weights()) return start;
  rank_0_alone(communicator, [&] { require_origin(origin, file); });
  start.weights = origin.file;
  start.info = open_model_info(origin.file, communicator);
  if (origin.from == From::weights) {
    start.info->has_training_state = false;
    return start;
  }
  start.state = start.info->state;
  start.resumed = true;
  return start;
}

void require_same_data(const std::vector<DataSetRecord>& recorded, const fs::path& file,
                       const std::vector<DataSetRecord>& sets, const std::string& settings) {
  if (sets.size() != recorded.size())
    throw DataError(
        fmt::format("{}: the run had {} data sets, now there are {}; give its own data with {}",
                    file.string(), recorded.size(), sets.size(), settings));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const DataSetRecord& then = recorded[i];
    const DataSetRecord& now = sets[i];
    if (now.name == then.name && now.checksum == then.checksum) continue;
    throw DataError(fmt::format(
        "{}: data set \"{}\" is not the one that {} records: its checksum is {}, recorded {} of "
        "{}; give the run's own data with {}",
        now.file.string(), now.name, file.string(), now.checksum, then.checksum, then.file.string(),
        settings));
  }
}

std::vector<std::string> differences(const RunRecord& recorded, const RunRecord& now) {
  std::vector<std::string> all;
  const auto compare = [&](const char* what, const std::string& then, const std::string& here) {
    if (then != here) all.push_back(fmt::format("{} {}, recorded {}", what, here, then));
  };
  compare("device", recorded.facts.device, now.facts.device);
  compare("precision", recorded.facts.precision, now.facts.precision);
  compare("device", without_threads(recorded.facts.device_name),
          without_threads(now.facts.device_name));
  compare("version", recorded.facts.version, now.facts.version);
  if (recorded.facts.version == now.facts.version && recorded.binary != now.binary)
    all.emplace_back("another build of the program");
  return all;
}

bool is_continued(const RunRecord& earlier, const RunRecord& now) {
  const fs::path& file = now.origin.file;
  const bool is_own = file == now.facts.model ||
                      (file.parent_path() == now.checkpoints.parent_path() &&
                       file.stem().string().starts_with(now.checkpoints.stem().string() + "."));
  return is_own && earlier.facts.model == now.facts.model && same_sets(earlier.sets, now.sets) &&
         same_sets(earlier.validation_sets, now.validation_sets) &&
         settings_of(earlier.network) == settings_of(now.network);
}

}  // namespace norn::run
