// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "netcdf_calls.h"
#include "norn/base/types.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// NetCDF files that are open for reading, in this process or in one of their own. All of this is
/// to be called on the NetCDF thread, and throws NetcdfProblem.
namespace norn {

/// What a file says of a variable.
struct StoredVariable {
  int id = 0;
  StoredType type = StoredType::other;
  std::vector<Index> extent;
  std::optional<std::uint32_t> checksum;
  std::string fault;  ///< why it must not be read, where that is so
};
using StoredVariables = std::map<std::string, StoredVariable>;

/// What the elements of a variable are converted to when they are read; bytes are not.
enum class Element : std::uint8_t { float32, float64, index, uint32, byte };
template <typename T>
inline constexpr Element kElementOf = Element::byte;
template <>
inline constexpr Element kElementOf<float> = Element::float32;
template <>
inline constexpr Element kElementOf<double> = Element::float64;
template <>
inline constexpr Element kElementOf<Index> = Element::index;
template <>
inline constexpr Element kElementOf<std::uint32_t> = Element::uint32;

std::size_t bytes_of(Element element);

/// Closed by its destructor.
class OpenedNetcdf {
 public:
  virtual ~OpenedNetcdf() = default;
  virtual StoredVariables variables() = 0;
  /// Of a variable, or with NC_GLOBAL of the file.
  virtual std::optional<Attribute> attribute(int variable, const std::string& name) = 0;
  virtual std::optional<Index> dimension(const std::string& name) = 0;
  /// A block that the variable has.
  virtual void read(int variable, const Sizes& start, const Sizes& count, Element element,
                    void* values) = 0;
};

/// By this process. A damaged file may end it. A `sealed` one holds but what Norn writes.
std::unique_ptr<OpenedNetcdf> open_netcdf_here(const std::filesystem::path& path, bool sealed);

class OpenedFile;

/// By a process of its own (docs/developer/decisions/0017-files-read-apart.md), whose end is a
/// problem of this file alone. Throws DeviceError when no process can be started.
std::unique_ptr<OpenedNetcdf> open_netcdf_apart(const OpenedFile& file);

}  // namespace norn
