// SPDX-License-Identifier: Apache-2.0
// NetCDF-C++4 behind NetcdfFile.

#include "netcdf_file.h"

#include "netcdf_thread.h"
#include "norn/base/error.h"
#include "opened_size.h"

#include <map>
#include <netcdf>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

using netCDF::NcFile;
using netCDF::NcType;
using netCDF::NcVar;

/// The library's message without the name of its source file.
std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

StoredType stored_type(const NcType& type) {
  switch (type.getId()) {
    case NC_CHAR:
      return StoredType::text;
    case NC_BYTE:
      return StoredType::int8;
    case NC_UBYTE:
      return StoredType::uint8;
    case NC_SHORT:
      return StoredType::int16;
    case NC_USHORT:
      return StoredType::uint16;
    case NC_INT:
      return StoredType::int32;
    case NC_UINT:
      return StoredType::uint32;
    case NC_INT64:
      return StoredType::int64;
    case NC_UINT64:
      return StoredType::uint64;
    case NC_FLOAT:
      return StoredType::float32;
    case NC_DOUBLE:
      return StoredType::float64;
    default:
      return StoredType::other;
  }
}

NcType netcdf_type(StoredType type) {
  switch (type) {
    case StoredType::text:
      return netCDF::ncChar;
    case StoredType::int8:
      return netCDF::ncByte;
    case StoredType::uint8:
      return netCDF::ncUbyte;
    case StoredType::int16:
      return netCDF::ncShort;
    case StoredType::uint16:
      return netCDF::ncUshort;
    case StoredType::int32:
      return netCDF::ncInt;
    case StoredType::uint32:
      return netCDF::ncUint;
    case StoredType::int64:
      return netCDF::ncInt64;
    case StoredType::uint64:
      return netCDF::ncUint64;
    case StoredType::float32:
      return netCDF::ncFloat;
    case StoredType::float64:
      return netCDF::ncDouble;
    case StoredType::other:
      break;
  }
  throw ShapeError("a NetCDF variable of an unknown type cannot be defined");
}

/// The library's overloads name built-in types: Index is one of them, whatever it is called here.
template <typename T>
using Native = std::conditional_t<std::is_same_v<T, Index>, long, T>;
static_assert(sizeof(long) == sizeof(Index));

template <typename T, typename Holder>
T scalar(const Holder& attribute) {
  T value{};
  attribute.getValues(&value);
  return value;
}

/// NcException is thrown for what the file or the library cannot do; others are errors already.
template <typename Holder>
Attribute attribute_value(const Holder& attribute) {
  const StoredType type = stored_type(attribute.getType());
  if (type == StoredType::text) {
    std::string text;
    if (attribute.getAttLength() > 0) attribute.getValues(text);
    // Some writers store the terminating zero.
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }
  if (attribute.getAttLength() != 1) {
    throw std::invalid_argument(
        fmt::format("holds {} values, expected one", attribute.getAttLength()));
  }
  if (attribute.getType().getId() == NC_STRING) {
    char* stored = nullptr;
    attribute.getValues(&stored);
    const std::string text = stored ? stored : "";
    nc_free_string(1, &stored);
    return text;
  }
  switch (type) {
    case StoredType::float32:
      return scalar<float>(attribute);
    case StoredType::float64:
      return scalar<double>(attribute);
    case StoredType::uint64:
      return std::uint64_t(scalar<unsigned long long>(attribute));
    case StoredType::uint32:
      return scalar<std::uint32_t>(attribute);
    case StoredType::int32:
      return scalar<std::int32_t>(attribute);
    case StoredType::other:
      throw std::invalid_argument("is neither a number nor text");
    default:
      return std::int64_t(scalar<long>(attribute));
  }
}

template <typename Place>
void put_attribute(const Place& place, const std::string& name, const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    place.putAtt(name, *text);
  } else if (const auto* real = std::get_if<float>(&value)) {
    place.putAtt(name, netCDF::ncFloat, *real);
  } else if (const auto* wide = std::get_if<double>(&value)) {
    place.putAtt(name, netCDF::ncDouble, *wide);
  } else if (const auto* small = std::get_if<std::int32_t>(&value)) {
    place.putAtt(name, netCDF::ncInt, *small);
  } else if (const auto* natural = std::get_if<std::uint32_t>(&value)) {
    place.putAtt(name, netCDF::ncUint, *natural);
  } else if (const auto* large = std::get_if<std::int64_t>(&value)) {
    place.putAtt(name, netCDF::ncInt64, static_cast<long long>(*large));
  } else {
    place.putAtt(name, netCDF::ncUint64,
                 static_cast<unsigned long long>(std::get<std::uint64_t>(value)));
  }
}

std::vector<std::size_t> sizes(std::span<const Index> values) {
  return std::vector<std::size_t>(values.begin(), values.end());
}

}  // namespace

const char* stored_type_name(StoredType type) {
  constexpr const char* kNames[] = {"char", "byte",  "ubyte",  "short", "ushort", "int",
                                    "uint", "int64", "uint64", "float", "double", "another type"};
  return kNames[int(type)];
}

namespace {

/// A file that can be given up: after a close that failed, NcFile's destructor would try again and
/// print.
class OpenFile final : public NcFile {
 public:
  using NcFile::NcFile;
  void give_up() { nullObject = true; }
};

}  // namespace

struct NetcdfFile::State {
  std::unique_ptr<OpenFile> file;
  std::optional<OpenedSize> opened;  // of a file that is read
  Mode mode = Mode::read;
  std::map<std::string, NcVar> variables;
  std::map<std::string, StoredType> types;               // of the variables
  std::map<std::string, netCDF::NcGroupAtt> attributes;  // of a file that is read

  const NcVar& variable(const std::string& name) const {
    const auto found = variables.find(name);
    if (found == variables.end()) throw std::invalid_argument("is missing");
    return found->second;
  }
};

template <typename Work>
void NetcdfFile::call(const char* verb, const std::string& item, Work&& work) const {
  std::string problem;
  on_netcdf_thread([&] {
    try {
      work();
    } catch (const netCDF::exceptions::NcException& error) {
      problem = first_line(error.what());
    } catch (const std::invalid_argument& error) {
      problem = error.what();
    }
  });
  if (problem.empty()) return;
  const std::string name = item.empty() ? "" : fmt::format(" \"{}\"", item);
  if (state_ && state_->mode == Mode::create) {
    throw DataError(fmt::format("{}: cannot {}{}: {}; check the disk's free space and permissions",
                                shown_.string(), verb, name, problem));
  }
  throw DataError(
      fmt::format("{}: cannot {}{}: {}; the file may be damaged or of another kind, write it again",
                  shown_.string(), verb, name, problem));
}

NetcdfFile::NetcdfFile(const std::filesystem::path& path, Mode mode,
                       const std::filesystem::path& shown)
    : shown_(shown.empty() ? path : shown), state_(std::make_unique<State>()) {
  state_->mode = mode;
  std::error_code ignored;
  if (mode == Mode::read) {
    if (!std::filesystem::exists(path, ignored)) {
      throw DataError(fmt::format("{}: no such file; check the path", shown_.string()));
    }
    if (std::filesystem::is_directory(path, ignored)) {
      throw DataError(fmt::format("{}: is a folder, expected a NetCDF file", shown_.string()));
    }
    state_->opened.emplace(path);
  }
  call(mode == Mode::read ? "read as a NetCDF file" : "create", "", [&] {
    state_->file = std::make_unique<OpenFile>(path.string(),
                                              mode == Mode::read ? NcFile::read : NcFile::replace);
    for (auto& [name, variable] : state_->file->getVars()) {
      state_->variables[name] = variable;
      state_->types[name] = stored_type(variable.getType());
    }
    for (auto& [name, value] : state_->file->getAtts()) {
      state_->attributes.insert_or_assign(name, value);
    }
  });
}

NetcdfFile::~NetcdfFile() {
  if (!state_->file) return;
  on_netcdf_thread([this] {
    try {
      state_->file->close();
    } catch (const netCDF::exceptions::NcException&) {
      // A file that is given up; close() is where failures count.
    }
    state_->file->give_up();
    state_->file.reset();
  });
}

void NetcdfFile::close() {
  call("finish", "", [this] {
    std::unique_ptr<OpenFile> file = std::move(state_->file);
    try {
      file->close();
    } catch (...) {
      file->give_up();
      throw;
    }
  });
}

std::optional<Attribute> NetcdfFile::attribute(const std::string& name,
                                               const std::string& variable) const {
  std::optional<Attribute> value;
  call("read attribute", name, [&] {
    if (variable.empty()) {
      const auto found = state_->attributes.find(name);
      if (found != state_->attributes.end()) value = attribute_value(found->second);
    } else {
      const auto all = state_->variable(variable).getAtts();
      if (const auto found = all.find(name); found != all.end()) {
        value = attribute_value(found->second);
      }
    }
  });
  return value;
}

std::optional<Index> NetcdfFile::dimension(const std::string& name) const {
  std::optional<Index> size;
  call("read dimension", name, [&] {
    const auto all = state_->file->getDims();
    if (const auto found = all.find(name); found != all.end()) {
      size = Index(found->second.getSize());
    }
  });
  return size;
}

bool NetcdfFile::has_variable(const std::string& name) const {
  return state_->variables.count(name) > 0;
}

std::vector<std::string> NetcdfFile::variables() const {
  std::vector<std::string> names;
  for (const auto& [name, variable] : state_->variables) names.push_back(name);
  return names;
}

StoredType NetcdfFile::type(const std::string& variable) const {
  const auto found = state_->types.find(variable);
  return found == state_->types.end() ? StoredType::other : found->second;
}

std::vector<Index> NetcdfFile::extent(const std::string& variable) const {
  std::vector<Index> extent;
  call("read variable", variable, [&] {
    for (const auto& dimension : state_->variable(variable).getDims()) {
      extent.push_back(Index(dimension.getSize()));
    }
  });
  return extent;
}

template <typename T>
void NetcdfFile::read(const std::string& variable, std::span<const Index> start,
                      std::span<const Index> count, T* values) const {
  call("read variable", variable, [&] {
    const NcVar& source = state_->variable(variable);
    source.getVar(sizes(start), sizes(count), reinterpret_cast<Native<T>*>(values));
  });
  if (state_->opened) state_->opened->require_unchanged(shown_);
}

void NetcdfFile::read_bytes(const std::string& variable, Index first, std::span<char> bytes) const {
  if (bytes.empty()) return;
  call("read variable", variable, [&] {
    const NcVar& source = state_->variable(variable);
    if (source.getType().getSize() != 1) {
      throw std::invalid_argument("has a type of more than one byte, expected char");
    }
    source.getVar({std::size_t(first)}, {bytes.size()}, static_cast<void*>(bytes.data()));
  });
  if (state_->opened) state_->opened->require_unchanged(shown_);
}

void NetcdfFile::set_attribute(const std::string& name, const Attribute& value,
                               const std::string& variable) {
  call("write attribute", name, [&] {
    if (variable.empty()) {
      put_attribute(*state_->file, name, value);
    } else {
      put_attribute(state_->variable(variable), name, value);
    }
  });
}

void NetcdfFile::define_dimension(const std::string& name, Index size) {
  call("define dimension", name, [&] { state_->file->addDim(name, std::size_t(size)); });
}

void NetcdfFile::define_variable(const std::string& name, StoredType type,
                                 const std::string& dimension) {
  call("define variable", name, [&] {
    NcVar variable = state_->file->addVar(name, netcdf_type(type), state_->file->getDim(dimension));
    // Everything is written once; filling would write it twice.
    variable.setFill(false, static_cast<const void*>(nullptr));
    state_->variables[name] = variable;
    state_->types[name] = type;
  });
}

template <typename T>
void NetcdfFile::write(const std::string& variable, Index first, std::span<const T> values) {
  if (values.empty()) return;
  call("write variable", variable, [&] {
    state_->variable(variable).putVar({std::size_t(first)}, {values.size()},
                                      reinterpret_cast<const Native<T>*>(values.data()));
  });
}

template void NetcdfFile::read(const std::string&, std::span<const Index>, std::span<const Index>,
                               float*) const;
template void NetcdfFile::read(const std::string&, std::span<const Index>, std::span<const Index>,
                               double*) const;
template void NetcdfFile::read(const std::string&, std::span<const Index>, std::span<const Index>,
                               Index*) const;
template void NetcdfFile::read(const std::string&, std::span<const Index>, std::span<const Index>,
                               std::uint32_t*) const;
template void NetcdfFile::write(const std::string&, Index, std::span<const float>);
template void NetcdfFile::write(const std::string&, Index, std::span<const double>);
template void NetcdfFile::write(const std::string&, Index, std::span<const Index>);
template void NetcdfFile::write(const std::string&, Index, std::span<const std::uint32_t>);
template void NetcdfFile::write(const std::string&, Index, std::span<const char>);

}  // namespace norn
