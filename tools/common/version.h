// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/library_version.h"

#include <string>
#include <vector>

/// What this build is made of.
namespace norn::tools {

/// Major, minor, patch.
std::string program_version();
/// Commit of the sources, "70f2f4e1a2b3" or "70f2f4e1a2b3, modified"; "unknown" outside of git.
std::string source_version();
/// Libraries that all layers use, as they are at run time: CUDA, NCCL, MPI, BLAS, NetCDF, ...
std::vector<LibraryVersion> library_versions();
/// Libraries of the programs' frame: options, log lines.
std::vector<LibraryVersion> frame_libraries();

/// Program, version and commit: "trainer VERSION (Norn) 70f2f4e1a2b3".
std::string version_line(const std::string& program);

/// What --version prints. The first line is version_line(), the last ones name `libraries`
/// and those of the frame.
std::string version_text(const std::string& program, const std::vector<LibraryVersion>& libraries);

}  // namespace norn::tools
