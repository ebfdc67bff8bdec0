// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "netcdf_file.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <netcdf.h>

/// The calls of the NetCDF library that differ by type, under one name each. To be made on the
/// NetCDF thread. Functions that return an int return the library's status.
namespace norn {

/// What the file or the library cannot do, in words that follow "cannot read variable ...: ".
struct NetcdfProblem {
  std::string text;
};

/// Throws NetcdfProblem unless the status is that of success.
void check(int status);

/// A path as the library takes it for what it is: it passes over blanks and control characters at
/// the beginning, and takes some words before a colon for protocols.
std::string library_path(const std::filesystem::path& path);

StoredType stored_type(nc_type type);
nc_type netcdf_type(StoredType type);

/// An attribute of a variable, or with NC_GLOBAL of the file; nothing when there is none.
std::optional<Attribute> read_attribute(int file, int variable, const char* name);
int put_attribute(int file, int variable, const char* name, const Attribute& value);

/// A block of a variable, whose lists are as long as it has dimensions. Bytes come as they are
/// stored.
using Sizes = std::vector<std::size_t>;
int get(int file, int variable, const Sizes& start, const Sizes& count, float* values);
int get(int file, int variable, const Sizes& start, const Sizes& count, double* values);
int get(int file, int variable, const Sizes& start, const Sizes& count, Index* values);
int get(int file, int variable, const Sizes& start, const Sizes& count, std::uint32_t* values);
int get(int file, int variable, const Sizes& start, const Sizes& count, char* bytes);

/// Elements of a variable of one dimension.
int put(int file, int variable, std::size_t start, std::size_t count, const float* values);
int put(int file, int variable, std::size_t start, std::size_t count, const double* values);
int put(int file, int variable, std::size_t start, std::size_t count, const Index* values);
int put(int file, int variable, std::size_t start, std::size_t count, const std::uint32_t* values);
int put(int file, int variable, std::size_t start, std::size_t count, const char* values);
int put(int file, int variable, std::size_t start, std::size_t count, const std::uint8_t* values);

}  // namespace norn
