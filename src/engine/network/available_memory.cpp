// SPDX-License-Identifier: Apache-2.0
// How much memory this process may still take, on Linux.
#include "src/base/text.h"
#include "src/engine/network/context.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace norn {
namespace {

// What a run's data take can be added to it.
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 2;

std::optional<std::int64_t> read_number(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  const auto value = parse_integer(word);  // "max" is no number: no limit
  if (!value) return std::nullopt;
  return std::int64_t(*value);
}

// The number after `key` in a file of "key value" lines.
std::optional<std::int64_t> read_entry(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

std::int64_t machine_bytes() {
  if (const auto kib = read_entry("/proc/meminfo", "MemAvailable:")) return *kib * 1024;
  // Without /proc nobody knows what others can give back: all that there is.
  struct sysinfo facts {};
  return sysinfo(&facts) == 0 ? std::int64_t(facts.totalram) * facts.mem_unit : kUnlimited;
}

// What a control group's folder leaves; pages of files that it can give back count as free.
std::int64_t group_bytes(const std::string& folder, const std::string& limit_file,
                         const std::string& usage_file, const std::string& reclaimable) {
  const auto limit = read_number(folder + "/" + limit_file);
  const auto usage = read_number(folder + "/" + usage_file);
  if (!limit || !usage) return kUnlimited;
  // No limit may be the largest number there is: nothing can be added to it.
  const std::int64_t given_back = read_entry(folder + "/memory.stat", reclaimable).value_or(0);
  return std::max<std::int64_t>(*limit - std::max<std::int64_t>(*usage - given_back, 0), 0);
}

std::int64_t control_group_bytes() {
  std::int64_t least = kUnlimited;
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {  // "0::/path" or "5:memory:/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == std::string::npos) continue;
    // Limits of parents hold too; inside a container the group's own folder is the root.
    while (true) {
      const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
      const std::string folder = root + (path == "/" ? "" : path);
      least =
          std::min(least, v2 ? group_bytes(folder, "memory.max", "memory.current", "inactive_file")
                             : group_bytes(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                           "total_inactive_file"));
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return least;
}

// OpenBLAS maps a buffer of this size for every thread that is in a product, and tries for ever
// when it cannot.
constexpr std::int64_t kBlasBuffer = std::int64_t(128) << 20;

std::int64_t address_space_bytes(int lanes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const std::int64_t pages = read_number("/proc/self/statm").value_or(0);
  const std::int64_t used = pages * sysconf(_SC_PAGESIZE);
  return std::max<std::int64_t>(std::int64_t(limit.rlim_cur) - used - lanes * kBlasBuffer, 0);
}

}  // namespace

std::int64_t available_memory_bytes(int lanes) {
  return std::min({machine_bytes(), control_group_bytes(), address_space_bytes(lanes)});
}

std::int64_t program_bytes() {
  return 1024 * read_entry("/proc/self/status", "RssFile:").value_or(0);
}

}  // namespace norn
