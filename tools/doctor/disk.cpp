// SPDX-License-Identifier: Apache-2.0
// The doctor's checks of the folder where the model goes.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/files.h"

#include <array>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
constexpr const char* kNoModel = "--model is not given";

fs::path folder_of(const Examination& machine) {
  const fs::path folder = fs::absolute(machine.model).parent_path();
  std::error_code failure;
  const fs::path real = fs::canonical(folder, failure);
  return failure ? folder : real;
}

// Spaces in mountinfo are written \040.
std::string plain_mount(std::string text) {
  for (std::size_t at = 0; (at = text.find("\\040", at)) != std::string::npos;)
    text.replace(at, 4, 1, ' ');
  return text;
}

// The kind of the file system that a folder is on: of the longest mount point above it.
std::string kind_of(const Examination& machine, const fs::path& folder) {
  const std::string text = read_text(machine.root / "proc/self/mountinfo").value_or("");
  std::istringstream lines(text);
  std::string line;
  std::string best;
  std::string kind;
  const std::string path = (folder / "").string();
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    std::string mount;
    for (int i = 0; i < 5 && words >> mount; ++i) {
    }
    mount = plain_mount(mount);
    while (words >> word && word != "-") {
    }
    std::string found;
    words >> found;
    std::string start = mount;
    if (start.empty() || start.back() != '/') start += '/';
    if (found.empty() || path.rfind(start, 0) != 0 || start.size() < best.size()) continue;
    best = start;
    kind = found;
  }
  return kind;
}

void check_kind(const Examination& machine, Findings& findings) {
  if (machine.model.empty()) return findings.not_checked(kNoModel);
  const std::string kind = kind_of(machine, folder_of(machine));
  if (kind.empty()) return findings.not_checked("/proc/self/mountinfo does not tell");
  static const std::set<std::string> lost = {"tmpfs", "ramfs", "overlay", "aufs"};
  static const std::set<std::string> far = {"nfs", "nfs4",       "cifs",      "smb3",
                                            "9p",  "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse"};
  if (lost.count(kind) > 0)
    return findings.warning(kind, "a disk",
                            "what is written here is lost with the machine or container: put "
                            "--model on a disk, or a mounted volume");
  if (far.count(kind) > 0)
    return findings.warning(
        kind, "a disk of this machine, or a parallel file system",
        "checkpoints go over the network, so they may be seldom: see the rates below");
  findings.ok(kind);
}

void check_space(const Examination& machine, Findings& findings) {
  if (machine.model.empty()) return findings.not_checked(kNoModel);
  const auto space = machine.space(folder_of(machine));
  if (!space)
    return findings.problem(folder_of(machine).string() + " is not there", "a folder",
                            "make it: mkdir -p, or give another --model");
  const std::string value = fmt::format("{} free of {}", human_bytes(double(space->free)),
                                        human_bytes(double(space->total)));
  const char* advice =
      "--keep checkpoints and the model stand beside each other: free some space, or give a "
      "smaller --keep";
  if (double(space->free) < 0.25 * kGibi)
    return findings.problem(value, "at least 256 MiB", advice);
  if (double(space->free) < 5.0 * kGibi) return findings.warning(value, "at least 5 GiB", advice);
  findings.ok(value);
}

void check_rate(const Examination& machine, Findings& findings) {
  if (machine.model.empty()) return findings.not_checked(kNoModel);
  if (!machine.disk) return findings.not_checked("it was not measured");
  if (!machine.disk->error.empty())
    return findings.problem(machine.disk->error, "files can be written",
                            "give a --model in a folder that you may write to");
  const std::string value = fmt::format("{:.0f} MB/s written and synced, {:.1f} ms a sync",
                                        machine.disk->megabytes, machine.disk->sync_milliseconds);
  if (machine.disk->megabytes >= 100.0 && machine.disk->sync_milliseconds <= 100.0)
    return findings.ok(value);
  findings.warning(
      value, "at least 100 MB/s, at most 100 ms",
      "checkpoints are seldom where writing takes long, and a stop waits for one: use a "
      "faster disk");
}

constexpr std::array kChecks = {
    Check{"disk", "file system", check_kind},
    Check{"disk", "space", check_space},
    Check{"disk", "write rate", check_rate},
};

}  // namespace

std::span<const Check> disk_checks() {
  return kChecks;
}

}  // namespace norn::tools
