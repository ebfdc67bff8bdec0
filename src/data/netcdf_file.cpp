// SPDX-License-Identifier: Apache-2.0
// The NetCDF library's C interface behind NetcdfFile.

#include "netcdf_file.h"

#include "file_seal.h"
#include "netcdf_calls.h"
#include "netcdf_thread.h"
#include "norn/base/error.h"
#include "opened_file.h"
#include "opened_netcdf.h"
#include "src/base/files.h"
#include "variable_checksum.h"

#include <map>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>
#include <netcdf.h>

namespace norn {

namespace {

/// Stores and closes what was written. Where HDF5 cannot close a file nc_close() crashes, so the
/// last one who closes it is not nc_close(), and where it cannot be stored it stays open until the
/// program ends.
void store_and_close(int file, const std::filesystem::path& path) {
  check(nc_sync(file));
  const hid_t ours = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  if (ours < 0) check(NC_EHDFERR);
  const int closed = nc_close(file);
  check(H5Fclose(ours) < 0 ? NC_EHDFERR : closed);
}

struct Variable : StoredVariable {
  WrittenChecksum written;
  ReadChecksum read;
  bool converted = false;  // written otherwise than it is stored, so that no checksum is known

  /// Of a variable of one dimension: the elements as they are stored, if T is that.
  template <typename T>
  bool stores() const {
    if (extent.size() != 1) return false;
    if constexpr (std::is_same_v<T, float>) return type == StoredType::float32;
    if constexpr (std::is_same_v<T, double>) return type == StoredType::float64;
    if constexpr (std::is_same_v<T, std::uint32_t>) return type == StoredType::uint32;
    if constexpr (std::is_same_v<T, std::uint8_t>) return type == StoredType::uint8;
    if constexpr (std::is_same_v<T, char>)
      return type == StoredType::text || type == StoredType::uint8;
    return type == StoredType::int64 || type == StoredType::uint64;
  }
};

template <typename T>
std::span<const char> bytes_of(const T* values, Index count) {
  return {reinterpret_cast<const char*>(values), std::size_t(count) * sizeof(T)};
}

}  // namespace

const char* stored_type_name(StoredType type) {
  constexpr const char* kNames[] = {"char", "byte",  "ubyte",  "short", "ushort", "int",
                                    "uint", "int64", "uint64", "float", "double", "another type"};
  return kNames[int(type)];
}

struct NetcdfFile::State {
  static constexpr int kClosed = -1;
  std::unique_ptr<OpenedNetcdf> source;  // of a file that is read
  int file = kClosed;                    // the library's number of one that is written
  std::filesystem::path path;            // where it stands now
  std::filesystem::path shown;           // its name in messages
  std::optional<OpenedFile> opened;      // of a file that is read
  Mode mode = Mode::read;
  bool sealed = false;  // a file that is read
  std::map<std::string, Variable> variables;
  std::map<std::string, std::pair<int, Index>> dimensions;  // of a file that is written

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (file == kClosed && !source) return;
    on_netcdf_thread([this] {
      try {
        finish();
      } catch (const NetcdfProblem&) {
        // A file that is given up; close() is where failures count.
      }
    });
  }

  void finish() {
    source.reset();
    if (file != kClosed) store_and_close(std::exchange(file, kClosed), path);
  }

  void open() {
    source = sealed ? open_netcdf_here(opened->path(), true) : open_netcdf_apart(*opened);
    for (auto& [name, stored] : source->variables()) {
      Variable variable;
      static_cast<StoredVariable&>(variable) = stored;
      variables[name] = std::move(variable);
    }
  }

  Variable& variable(const std::string& name) {
    const auto found = variables.find(name);
    if (found == variables.end()) throw NetcdfProblem{"is missing"};
    return found->second;
  }

  /// The variable when it has this block. The library itself takes the number of dimensions, and
  /// with it the lengths of both lists, from the file.
  Variable& block(const std::string& name, std::span<const Index> start,
                  std::span<const Index> count) {
    Variable& found = variable(name);
    if (!found.fault.empty()) throw NetcdfProblem{found.fault};
    if (start.size() != found.extent.size() || count.size() != start.size())
      throw NetcdfProblem{
          fmt::format("has {} dimensions, expected {}", found.extent.size(), start.size())};
    for (std::size_t d = 0; d < start.size(); ++d)
      if (start[d] < 0 || count[d] < 0 || start[d] > found.extent[d] ||
          count[d] > found.extent[d] - start[d])
        throw NetcdfProblem{fmt::format("has {} elements along dimension {}, {} from {} are wanted",
                                        found.extent[d], d, count[d], start[d])};
    return found;
  }

  template <typename T>
  void read(const std::string& name, std::span<const Index> start, std::span<const Index> count,
            T* values) {
    Variable& variable = block(name, start, count);
    source->read(variable.id, Sizes(start.begin(), start.end()), Sizes(count.begin(), count.end()),
                 kElementOf<T>, values);
    opened->require_unchanged(shown);
    if (!variable.checksum || !variable.stores<T>()) return;
    const std::optional<std::uint32_t> sum =
        variable.read.add(start[0], count[0], variable.extent[0], bytes_of(values, count[0]));
    if (sum && *sum != *variable.checksum)
      throw DataError(fmt::format(
          "{}: variable \"{}\" is damaged: its checksum is {:08x}, expected {:08x}; use "
          "an older copy of the file",
          shown.string(), name, *sum, *variable.checksum));
  }
};

template <typename Work>
void NetcdfFile::call(const char* verb, const std::string& item, Work&& work) const {
  std::string problem;
  on_netcdf_thread([&] {
    try {
      work();
    } catch (const NetcdfProblem& found) {
      problem = found.text;
    }
  });
  if (problem.empty()) return;
  // What the library finds no more in a file that was cut off is no word on why.
  if (state_ && state_->opened) state_->opened->require_unchanged(shown_);
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
  state_->path = path;
  state_->shown = shown_;
  if (mode == Mode::create) {
    call("create", "",
         [&] { check(nc_create(library_path(path).c_str(), NC_NETCDF4, &state_->file)); });
    return;
  }
  if (is_folder(path))
    throw DataError(fmt::format("{}: is a folder, expected a NetCDF file", shown_.string()));
  if (!path_exists(path))
    throw DataError(fmt::format("{}: no such file; check the path", shown_.string()));
  if (!is_file(path))
    throw DataError(
        fmt::format("{}: is a pipe or a device, expected a NetCDF file", shown_.string()));
  // The HDF5 library asks for the name of what it opens, too, which may be another file's by then.
  for (int tries = 20;; --tries) {
    state_->opened.emplace(path);
    try {
      open_what_is_there();
      return;
    } catch (const DataError&) {
      if (tries == 0 || !state_->opened->is_replaced()) throw;
    }
  }
}

void NetcdfFile::open_what_is_there() {
  state_->sealed = check_seal(state_->opened->path(), shown_);
  call("read as a NetCDF file", "", [&] { state_->open(); });
  if (is_sealed()) return;
  const auto kind = attribute(kSealedAttribute);
  const auto* const number = kind ? std::get_if<std::int32_t>(&*kind) : nullptr;
  if (number && *number > kSeal)
    throw DataError(fmt::format(
        "{}: its seal is of a newer Norn than this one; use that to read it", shown_.string()));
  if (kind)
    throw DataError(fmt::format(
        "{}: the end of the file is missing: it was cut off, or another program changed it; use "
        "an older copy of the file, or delete its attribute {} if the change was wanted",
        shown_.string(), kSealedAttribute));
}

NetcdfFile::~NetcdfFile() = default;

bool NetcdfFile::is_sealed() const {
  return state_->sealed;
}

void NetcdfFile::close() {
  const bool writes = state_->mode == Mode::create;
  if (writes) {
    write_checksums();
    set_attribute(kSealedAttribute, kSeal);
  }
  call("finish", "", [this] { state_->finish(); });
  if (writes) seal_file(state_->path, places_of(state_->path, variables(), shown_), shown_);
}

void NetcdfFile::write_checksums() {
  for (auto& [name, variable] : state_->variables) {
    if (variable.converted) continue;
    if (const auto element = variable.written.fault(variable.extent[0]))
      throw ShapeError(fmt::format("{}: variable \"{}\": element {} was not written exactly once",
                                   shown_.string(), name, *element));
    set_attribute(kChecksumAttribute, variable.written.value(), name);
  }
}

std::optional<Attribute> NetcdfFile::attribute(const std::string& name,
                                               const std::string& variable) const {
  std::optional<Attribute> value;
  require(state_->source != nullptr, "NetcdfFile::attribute: a file that is read");
  call("read attribute", name, [&] {
    const int holder = variable.empty() ? NC_GLOBAL : state_->variable(variable).id;
    value = state_->source->attribute(holder, name);
  });
  return value;
}

std::optional<Index> NetcdfFile::dimension(const std::string& name) const {
  std::optional<Index> size;
  call("read dimension", name, [&] { size = state_->source->dimension(name); });
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
  const auto found = state_->variables.find(variable);
  return found == state_->variables.end() ? StoredType::other : found->second.type;
}

std::vector<Index> NetcdfFile::extent(const std::string& variable) const {
  std::vector<Index> extent;
  call("read variable", variable, [&] { extent = state_->variable(variable).extent; });
  return extent;
}

Index NetcdfFile::size(const std::string& variable) const {
  Index size = 1;
  call("read variable", variable, [&] {
    const Variable& found = state_->variable(variable);
    for (const Index along : found.extent)
      if (__builtin_mul_overflow(size, along, &size))
        throw NetcdfProblem{"has more than 2^63 elements"};
    if (!found.fault.empty()) throw NetcdfProblem{found.fault};
  });
  return size;
}

template <typename T>
void NetcdfFile::read(const std::string& variable, std::span<const Index> start,
                      std::span<const Index> count, T* values) const {
  call("read variable", variable, [&] { state_->read(variable, start, count, values); });
}

void NetcdfFile::read_bytes(const std::string& variable, Index first, std::span<char> bytes) const {
  if (bytes.empty()) return;
  call("read variable", variable, [&] {
    const StoredType stored = type(variable);
    if (stored != StoredType::text && stored != StoredType::int8 && stored != StoredType::uint8)
      throw NetcdfProblem{"has a type of more than one byte, expected char"};
    const Index count = Index(bytes.size());
    state_->read(variable, {&first, 1}, {&count, 1}, bytes.data());
  });
}

void NetcdfFile::set_attribute(const std::string& name, const Attribute& value,
                               const std::string& variable) {
  call("write attribute", name, [&] {
    const int holder = variable.empty() ? NC_GLOBAL : state_->variable(variable).id;
    check(put_attribute(state_->file, holder, name.c_str(), value));
  });
}

void NetcdfFile::define_dimension(const std::string& name, Index size) {
  call("define dimension", name, [&] {
    int dimension = 0;
    check(nc_def_dim(state_->file, name.c_str(), std::size_t(size), &dimension));
    state_->dimensions[name] = {dimension, size};
  });
}

void NetcdfFile::define_variable(const std::string& name, StoredType type,
                                 const std::string& dimension) {
  call("define variable", name, [&] {
    const auto along = state_->dimensions.find(dimension);
    if (along == state_->dimensions.end())
      throw NetcdfProblem{fmt::format("the dimension {} is not defined", dimension)};
    const auto& [number, size] = along->second;
    Variable variable;
    variable.type = type;
    variable.extent = {size};
    check(nc_def_var(state_->file, name.c_str(), netcdf_type(type), 1, &number, &variable.id));
    // Everything is written once; filling would write it twice.
    check(nc_def_var_fill(state_->file, variable.id, NC_NOFILL, nullptr));
    state_->variables[name] = std::move(variable);
  });
}

template <typename T>
void NetcdfFile::write(const std::string& variable, Index first, std::span<const T> values) {
  if (values.empty()) return;
  call("write variable", variable, [&] {
    const Index count = Index(values.size());
    Variable& target = state_->block(variable, {&first, 1}, {&count, 1});
    check(put(state_->file, target.id, std::size_t(first), values.size(), values.data()));
    target.converted = target.converted || !target.stores<T>();
    if (!target.converted) target.written.add(first, count, bytes_of(values.data(), count));
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
template void NetcdfFile::write(const std::string&, Index, std::span<const std::uint8_t>);

}  // namespace norn
