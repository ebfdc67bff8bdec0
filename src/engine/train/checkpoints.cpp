// SPDX-License-Identifier: Apache-2.0
// Names, search and removal of checkpoint files.
#include "src/engine/train/checkpoints.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/engine/train/trainer.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

struct Checkpoint {
  std::pair<std::int64_t, std::int64_t> made;  // epochs, batches of the next one
  fs::path path;
};

// "epoch12" or "epoch12.batch34" between the model's stem and its extension.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_position(std::string_view text) {
  constexpr std::string_view kEpoch = "epoch";
  constexpr std::string_view kBatch = ".batch";
  if (text.substr(0, kEpoch.size()) != kEpoch) return std::nullopt;
  text.remove_prefix(kEpoch.size());
  const std::size_t dot = text.find(kBatch);
  const auto epoch = parse_integer(text.substr(0, dot));
  if (!epoch) return std::nullopt;
  if (dot == std::string_view::npos) return std::pair(std::int64_t(*epoch), std::int64_t(0));
  const auto batch = parse_integer(text.substr(dot + kBatch.size()));
  if (!batch) return std::nullopt;
  return std::pair(std::int64_t(*epoch), std::int64_t(*batch));
}

fs::path folder_of(const fs::path& model) {
  return model.has_parent_path() ? model.parent_path() : fs::path(".");
}

// The position that a file's name gives, if it is the name of one of the model's checkpoints.
std::optional<std::pair<std::int64_t, std::int64_t>> position_of(const std::string& name,
                                                                 const fs::path& model) {
  const std::string prefix = model.stem().string() + ".";
  const std::string suffix = model.extension().string();
  if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
    return std::nullopt;
  return parse_position(
      std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

// Newest first. `problem` says why some may be missing, if so.
std::vector<Checkpoint> list_checkpoints(const fs::path& model, std::error_code& problem) {
  std::vector<Checkpoint> found;
  for (const fs::path& entry : entries_of(folder_of(model), problem)) {
    const std::string name = entry.filename().string();
    if (const auto position = position_of(name, model))
      found.push_back({*position, model.parent_path() / name});
  }
  std::sort(found.begin(), found.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.made > b.made; });
  return found;
}

// All of them: one that is overlooked would be a run that begins anew.
std::vector<Checkpoint> all_checkpoints(const fs::path& model) {
  std::error_code problem;
  std::vector<Checkpoint> found = list_checkpoints(model, problem);
  if (problem && problem != std::errc::no_such_file_or_directory)
    throw DataError(fmt::format("{}: checkpoints cannot be looked for: {}; check the folder",
                                folder_of(model).string(), problem.message()));
  return found;
}

// What a file could be resumed from: nothing, and a warning, when it is no whole model with a
// training state.
std::optional<TrainingState> resumable_state(const fs::path& path, const Log& log) {
  try {
    const TensorFileReader file(path);
    file.verify();
    const ModelInfo info = read_model_info(file);
    if (info.has_training_state) return info.state;
    log.warning(fmt::format("{}: is passed over: it holds no training state", path.string()));
  } catch (const std::exception& error) {  // of any kind: what a damaged file says is arbitrary
    log.warning(fmt::format("passed over: {}", error.what()));
  }
  return std::nullopt;
}

}  // namespace

fs::path checkpoint_path(const fs::path& model, std::int64_t epoch, std::int64_t batch) {
  const std::string position =
      batch == 0 ? fmt::format("epoch{}", epoch) : fmt::format("epoch{}.batch{}", epoch, batch);
  fs::path path = model;
  return path.replace_filename(
      fmt::format("{}.{}{}", model.stem().string(), position, model.extension().string()));
}

fs::path best_model(const fs::path& model) {
  fs::path path = model;
  return path.replace_filename(
      fmt::format("{}.best{}", model.stem().string(), model.extension().string()));
}

void remove_old_checkpoints(const fs::path& model, int keep, std::int64_t epoch,
                            std::int64_t batch) {
  if (keep <= 0) return;
  std::error_code ignored;  // as checkpoints that cannot be removed: they do no harm
  std::vector<Checkpoint> checkpoints = list_checkpoints(model, ignored);
  std::erase_if(checkpoints, [&](const Checkpoint& checkpoint) {
    return checkpoint.made > std::pair(epoch, batch);
  });
  for (std::size_t i = std::size_t(keep); i < checkpoints.size(); ++i) {
    fs::remove(checkpoints[i].path, ignored);
  }
}

void remove_checkpoints(const fs::path& model) {
  std::vector<Checkpoint> all = all_checkpoints(model);
  all.push_back({{}, best_model(model)});
  for (const Checkpoint& checkpoint : all) {
    std::error_code error;
    fs::remove(checkpoint.path, error);
    if (error)
      throw DataError(fmt::format("{}: the checkpoint could not be removed: {}; remove it first",
                                  checkpoint.path.string(), error.message()));
  }
}

std::vector<fs::path> remove_abandoned_files(const fs::path& model) {
  std::error_code ignored;
  const fs::path target = fs::is_symlink(model, ignored) ? fs::canonical(model, ignored) : model;
  std::vector<fs::path> found =
      abandoned_temporaries(folder_of(model), [&](const std::string& name) {
        return name == model.filename() || name == best_model(model).filename() ||
               position_of(name, model);
      });
  if (target != model && !target.empty())  // a link: the model is written beside what it names
    for (fs::path& path : abandoned_temporaries(
             folder_of(target), [&](const std::string& name) { return name == target.filename(); }))
      found.push_back(std::move(path));
  if (!model.has_parent_path())  // named as the model is
    for (fs::path& path : found) path = path.lexically_normal();
  std::erase_if(found, [](const fs::path& path) {
    std::error_code error;  // one that cannot be removed does no harm
    return !fs::remove(path, error);
  });
  return found;
}

bool has_checkpoints(const fs::path& model) {
  return path_exists(model) || path_exists(best_model(model)) || !all_checkpoints(model).empty();
}

std::optional<fs::path> find_checkpoint(const fs::path& model, const Log& log) {
  std::optional<fs::path> newest;
  std::pair<std::int64_t, std::int64_t> latest(-1, 0);
  const auto consider = [&](const fs::path& path) {
    const auto state = resumable_state(path, log);
    if (!state) return false;
    std::pair<std::int64_t, std::int64_t> reached(state->epoch, state->batch);
    // The best model of a run that ended later, unless one has gone on from there.
    if (path == model && state->search.ended_epoch > 0 && !path_exists(best_model(model)))
      reached = {state->search.ended_epoch, std::numeric_limits<std::int64_t>::max()};
    if (reached <= latest) return false;
    latest = reached;
    newest = path;
    return true;
  };
  for (const Checkpoint& checkpoint : all_checkpoints(model))
    if (consider(checkpoint.path)) break;
  for (const fs::path& other : {best_model(model), model})
    if (path_exists(other)) consider(other);
  return newest;
}

}  // namespace norn
