// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

/// HDF5 files can have their contents elsewhere: external storage, links to other files, virtual
/// data sets. The libraries open whatever such a file names, and take its word for how much it
/// holds.
namespace norn {

/// Why what stands under a name must not be read, in words that follow "cannot read variable ...:
/// "; what is not named may be.
using Unreadable = std::map<std::string, std::string>;

/// Throws NetcdfProblem unless all that an HDF5 file has lies in the file itself, and its groups
/// form a tree of at most 32 levels; of a `sealed` one also for what Norn never writes: groups and
/// filters. Unreadable are data sets that need a filter which the library would have to load, or
/// have more elements than the file can hold. Opens nothing but the file. Of others than HDF5 files
/// only NetCDF's classic ones pass. To be called where the NetCDF library is, and before it sees
/// the file.
Unreadable require_self_contained(const std::filesystem::path& file, bool sealed);

}  // namespace norn
