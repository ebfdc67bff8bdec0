// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

/// HDF5 files can have their contents elsewhere: external storage, links to other files, virtual
/// data sets. The libraries open whatever such a file names.
namespace norn {

/// Throws NetcdfProblem unless all that an HDF5 file has lies in the file itself, and its groups
/// form a tree of at most 32 levels. Opens nothing but the file; other files than HDF5 pass. To be
/// called where the NetCDF library is, and before it sees the file.
void require_self_contained(const std::filesystem::path& file);

}  // namespace norn
