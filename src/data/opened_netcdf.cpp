// SPDX-License-Identifier: Apache-2.0
// A NetCDF file that this process itself reads.

#include "opened_netcdf.h"

#include "hdf5_structure.h"
#include "variable_checksum.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

Index length_of_dimension(int file, int dimension) {
  std::size_t length = 0;
  check(nc_inq_dimlen(file, dimension, &length));
  if (length > std::size_t(std::numeric_limits<Index>::max()))
    throw NetcdfProblem{fmt::format("a dimension has {} elements", length)};
  return Index(length);
}

std::optional<std::uint32_t> checksum_attribute(int file, int variable) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(file, variable, kChecksumAttribute, &type, &length) != NC_NOERR) return {};
  if (type != NC_UINT || length != 1) return {};
  std::uint32_t checksum = 0;
  check(nc_get_att_uint(file, variable, kChecksumAttribute, &checksum));
  return checksum;
}

/// How many bytes an element of a variable of the classic formats has.
Index bytes_of(int file, nc_type type) {
  std::size_t bytes = 0;
  check(nc_inq_type(file, type, nullptr, &bytes));
  return Index(bytes);
}

class ReadHere final : public OpenedNetcdf {
 public:
  ReadHere(const std::filesystem::path& path, bool sealed)
      : unreadable_(require_self_contained(path, sealed)) {
    check(nc_open(library_path(path).c_str(), NC_NOWRITE, &file_));
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(path, none);
    int format = 0;
    check(nc_inq_format(file_, &format));
    if (format != NC_FORMAT_NETCDF4 && format != NC_FORMAT_NETCDF4_CLASSIC)
      classic_bytes_ = none ? 0 : Index(bytes);
  }
  ~ReadHere() override { nc_close(file_); }
  ReadHere(const ReadHere&) = delete;
  ReadHere& operator=(const ReadHere&) = delete;

  StoredVariables variables() override {
    StoredVariables variables;
    int count = 0;
    check(nc_inq_nvars(file_, &count));
    for (int id = 0; id < count; ++id) {
      char name[NC_MAX_NAME + 1] = {};
      nc_type type = NC_NAT;
      int rank = 0;
      check(nc_inq_var(file_, id, name, &type, &rank, nullptr, nullptr));
      std::vector<int> dimensions(static_cast<std::size_t>(rank));
      if (rank > 0) check(nc_inq_vardimid(file_, id, dimensions.data()));
      StoredVariable variable;
      variable.id = id;
      variable.type = stored_type(type);
      for (const int dimension : dimensions)
        variable.extent.push_back(length_of_dimension(file_, dimension));
      variable.checksum = checksum_attribute(file_, id);
      variable.fault = fault_of(name, type, variable.extent);
      variables[name] = std::move(variable);
    }
    return variables;
  }

  std::optional<Attribute> attribute(int variable, const std::string& name) override {
    return read_attribute(file_, variable, name.c_str());
  }

  std::optional<Index> dimension(const std::string& name) override {
    int dimension = 0;
    const int status = nc_inq_dimid(file_, name.c_str(), &dimension);
    if (status == NC_EBADDIM) return std::nullopt;
    check(status);
    return length_of_dimension(file_, dimension);
  }

  void read(int variable, const Sizes& start, const Sizes& count, Element element,
            void* values) override {
    switch (element) {
      case Element::float32:
        return check(get(file_, variable, start, count, static_cast<float*>(values)));
      case Element::float64:
        return check(get(file_, variable, start, count, static_cast<double*>(values)));
      case Element::index:
        return check(get(file_, variable, start, count, static_cast<Index*>(values)));
      case Element::uint32:
        return check(get(file_, variable, start, count, static_cast<std::uint32_t*>(values)));
      case Element::byte:
        return check(get(file_, variable, start, count, static_cast<char*>(values)));
    }
  }

 private:
  std::string fault_of(const std::string& name, nc_type type, const std::vector<Index>& extent) {
    // As the library names a variable that has a dimension's name and is not that dimension's.
    for (const char* before : {"", "_nc4_non_coord_"})
      if (const auto known = unreadable_.find(before + name); known != unreadable_.end())
        return known->second;
    if (!classic_bytes_) return {};
    Index bytes = bytes_of(file_, type);
    for (const Index along : extent)
      if (__builtin_mul_overflow(bytes, along, &bytes)) bytes = std::numeric_limits<Index>::max();
    return bytes <= *classic_bytes_ ? "" : "has elements which the file does not hold";
  }

  Unreadable unreadable_;
  int file_ = 0;                        // the library's number of it
  std::optional<Index> classic_bytes_;  // size of a file that is not HDF5
};

}  // namespace

std::size_t bytes_of(Element element) {
  switch (element) {
    case Element::float32:
    case Element::uint32:
      return 4;
    case Element::float64:
    case Element::index:
      return 8;
    case Element::byte:
      break;
  }
  return 1;
}

std::unique_ptr<OpenedNetcdf> open_netcdf_here(const std::filesystem::path& path, bool sealed) {
  return std::make_unique<ReadHere>(path, sealed);
}

}  // namespace norn
