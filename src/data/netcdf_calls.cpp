// SPDX-License-Identifier: Apache-2.0
// The NetCDF library's C interface, by type.

#include "netcdf_calls.h"

#include <fmt/format.h>

namespace norn {

void check(int status) {
  if (status != NC_NOERR) throw NetcdfProblem{nc_strerror(status)};
}

std::string library_path(const std::filesystem::path& path) {
  return path.is_absolute() ? path.string() : "./" + path.string();
}

namespace {

/// In the order of StoredType; NC_NAT: a type that is none of ours.
constexpr nc_type kTypes[] = {NC_CHAR, NC_BYTE,  NC_UBYTE,  NC_SHORT, NC_USHORT, NC_INT,
                              NC_UINT, NC_INT64, NC_UINT64, NC_FLOAT, NC_DOUBLE, NC_NAT};

}  // namespace

StoredType stored_type(nc_type type) {
  int number = 0;
  while (kTypes[number] != type && kTypes[number] != NC_NAT) ++number;
  return StoredType(number);
}

nc_type netcdf_type(StoredType type) {
  return kTypes[int(type)];
}

namespace {

static_assert(sizeof(long) == sizeof(Index));

/// Of the type that the file holds.
template <typename T>
Attribute number_attribute(int file, int variable, const char* name) {
  T value{};
  check(nc_get_att(file, variable, name, &value));
  return value;
}

std::string text_attribute(int file, int variable, const char* name, std::size_t length) {
  std::string text(length, '\0');
  if (length > 0) check(nc_get_att_text(file, variable, name, text.data()));
  // Some writers store the terminating zero.
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

std::optional<Attribute> read_attribute(int file, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  const int status = nc_inq_att(file, variable, name, &type, &length);
  if (status == NC_ENOTATT) return std::nullopt;
  check(status);
  if (type == NC_CHAR) return text_attribute(file, variable, name, length);
  if (length != 1) throw NetcdfProblem{fmt::format("holds {} values, expected one", length)};
  if (type == NC_STRING) {
    char* stored = nullptr;
    check(nc_get_att_string(file, variable, name, &stored));
    std::string text = stored ? stored : "";
    nc_free_string(1, &stored);
    return text;
  }
  switch (stored_type(type)) {
    case StoredType::float32:
      return number_attribute<float>(file, variable, name);
    case StoredType::float64:
      return number_attribute<double>(file, variable, name);
    case StoredType::uint64:
      return number_attribute<std::uint64_t>(file, variable, name);
    case StoredType::uint32:
      return number_attribute<std::uint32_t>(file, variable, name);
    case StoredType::int32:
      return number_attribute<std::int32_t>(file, variable, name);
    case StoredType::other:
      throw NetcdfProblem{"is neither a number nor text"};
    default: {
      long long value = 0;
      check(nc_get_att_longlong(file, variable, name, &value));
      return std::int64_t(value);
    }
  }
}

int put_attribute(int file, int variable, const char* name, const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return nc_put_att_text(file, variable, name, text->size(), text->c_str());
  constexpr nc_type kKinds[] = {NC_INT, NC_UINT, NC_INT64, NC_UINT64, NC_FLOAT, NC_DOUBLE};
  return std::visit(
      [&](const auto& held) {
        return nc_put_att(file, variable, name, kKinds[value.index()], 1, &held);
      },
      value);
}

int get(int file, int variable, const Sizes& start, const Sizes& count, float* values) {
  return nc_get_vara_float(file, variable, start.data(), count.data(), values);
}
int get(int file, int variable, const Sizes& start, const Sizes& count, double* values) {
  return nc_get_vara_double(file, variable, start.data(), count.data(), values);
}
int get(int file, int variable, const Sizes& start, const Sizes& count, Index* values) {
  return nc_get_vara_long(file, variable, start.data(), count.data(),
                          reinterpret_cast<long*>(values));
}
int get(int file, int variable, const Sizes& start, const Sizes& count, std::uint32_t* values) {
  return nc_get_vara_uint(file, variable, start.data(), count.data(), values);
}
int get(int file, int variable, const Sizes& start, const Sizes& count, char* bytes) {
  return nc_get_vara(file, variable, start.data(), count.data(), bytes);
}

int put(int file, int variable, std::size_t start, std::size_t count, const float* values) {
  return nc_put_vara_float(file, variable, &start, &count, values);
}
int put(int file, int variable, std::size_t start, std::size_t count, const double* values) {
  return nc_put_vara_double(file, variable, &start, &count, values);
}
int put(int file, int variable, std::size_t start, std::size_t count, const Index* values) {
  return nc_put_vara_long(file, variable, &start, &count, reinterpret_cast<const long*>(values));
}
int put(int file, int variable, std::size_t start, std::size_t count, const std::uint32_t* values) {
  return nc_put_vara_uint(file, variable, &start, &count, values);
}
int put(int file, int variable, std::size_t start, std::size_t count, const char* values) {
  return nc_put_vara_text(file, variable, &start, &count, values);
}
int put(int file, int variable, std::size_t start, std::size_t count, const std::uint8_t* values) {
  return nc_put_vara_ubyte(file, variable, &start, &count, values);
}

}  // namespace norn
