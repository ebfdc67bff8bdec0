// SPDX-License-Identifier: Apache-2.0
// Versions of the program and of what it uses.
#include "tools/common/version.h"

#include "norn_build.h"  // written when the program is built

#include <CLI/Version.hpp>
#include <fmt/format.h>
#include <spdlog/version.h>

namespace norn::tools {

std::string program_version() {
  return NORN_VERSION;
}

std::string source_version() {
  return NORN_SOURCE_VERSION;
}

std::vector<LibraryVersion> frame_libraries() {
  std::vector<LibraryVersion> all;
  all.push_back({"CLI11", CLI11_VERSION});
  all.push_back({"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                                    FMT_VERSION % 100)});
  all.push_back(
      {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)});
  return all;
}

std::string version_line(const std::string& program) {
  return fmt::format("{} {} (Norn) {}", program, program_version(), source_version());
}

std::string version_text(const std::string& program, const std::vector<LibraryVersion>& libraries) {
  std::string text = version_line(program) + "\n";
  text += fmt::format("build: {}, {}\n", NORN_BUILD_TYPE, NORN_COMPILER);
  for (const auto& list : {libraries, frame_libraries()})
    for (const LibraryVersion& library : list)
      text += fmt::format("{}: {}\n", library.name, library.version);
  return text;
}

}  // namespace norn::tools
