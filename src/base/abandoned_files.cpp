// SPDX-License-Identifier: Apache-2.0
// Finds the temporary files of processes that were killed.

#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/host.h"
#include "src/base/text.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

constexpr double kDay = 86400.0;
/// File systems keep time on their own clocks.
constexpr double kClockSkew = 60.0;

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

struct TemporaryName {
  std::string file;  ///< what it was to become
  std::string host;  ///< empty: not said
  pid_t process = 0;
};

std::optional<TemporaryName> parse(const std::string& name) {
  constexpr std::string_view kMark = AtomicFile::kTemporaryMark;
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string::npos || mark == 0) return std::nullopt;
  TemporaryName parsed;
  parsed.file = name.substr(0, mark);
  std::string_view rest = std::string_view(name).substr(mark + kMark.size());
  const std::size_t number = rest.rfind('-');
  if (number == std::string_view::npos || !parse_integer(rest.substr(number + 1)))
    return std::nullopt;
  rest = rest.substr(0, number);
  const std::size_t dash = rest.rfind('-');
  if (dash != std::string_view::npos) {
    parsed.host = rest.substr(0, dash);
    rest = rest.substr(dash + 1);
  }
  const auto process = parse_integer(rest);
  if (!process || *process <= 0 || *process > std::numeric_limits<pid_t>::max())
    return std::nullopt;
  parsed.process = pid_t(*process);
  return parsed;
}

/// Seconds since a process of this host began; nothing when it has ended. Where that cannot be
/// told: for ever.
std::optional<double> process_age(pid_t process) {
  if (!process_lives(process)) return std::nullopt;
  constexpr double kForEver = 1e18;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_ends = text.rfind(')');  // the name may hold anything
  if (name_ends == std::string::npos) return kForEver;
  std::istringstream fields(text.substr(name_ends + 1));
  constexpr int kFieldsBetween = 19;  // the name is field 2, starttime field 22
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  double ticks = 0.0;
  if (!(fields >> ticks)) return kForEver;
  return now(CLOCK_BOOTTIME) - ticks / double(sysconf(_SC_CLK_TCK));
}

bool is_abandoned(const TemporaryName& name, const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const double idle =
      now(CLOCK_REALTIME) - double(status.st_mtim.tv_sec) - 1e-9 * double(status.st_mtim.tv_nsec);
  if (idle > kDay) return true;
  if (!name.host.empty() && name.host != host_name()) return false;
  const std::optional<double> age = process_age(name.process);
  // Numbers of processes are used again, in containers at once: a process that began after the
  // last write did not make the file.
  return !age || idle > *age + kClockSkew;
}

}  // namespace

std::vector<fs::path> abandoned_temporaries(
    const fs::path& folder, const std::function<bool(const std::string& name)>& ours) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::path& entry : entries_of(folder, ignored)) {
    const auto name = parse(entry.filename().string());
    if (name && ours(name->file) && is_abandoned(*name, entry)) found.push_back(entry);
  }
  return found;
}

void remove_abandoned(const fs::path& path) noexcept {
  // Nothing depends on it: what cannot be looked at or removed stays.
  try {
    const std::string whole = path.filename().string();
    const std::string prefix = path.stem().string() + ".";
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (const fs::path& found : abandoned_temporaries(folder, [&](const std::string& name) {
           return name == whole || name.starts_with(prefix);
         })) {
      std::error_code ignored;
      fs::remove(found, ignored);
    }
  } catch (...) {
  }
}

}  // namespace norn
