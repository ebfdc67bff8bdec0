// SPDX-License-Identifier: Apache-2.0
// The NetCDF library's C interface behind NetcdfFile.

#include "netcdf_file.h"

#include "file_seal.h"
#include "netcdf_thread.h"
#include "norn/base/error.h"
#include "norn/base/files.h"
#include "opened_size.h"

#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>
#include <netcdf.h>

namespace norn {

namespace {

/// What the file or the library cannot do, in words that follow "cannot read variable ...: ".
struct Problem {
  std::string text;
};

void check(int status) {
  if (status != NC_NOERR) throw Problem{nc_strerror(status)};
}

/// In the order of StoredType; NC_NAT: a type that is none of ours.
constexpr nc_type kTypes[] = {NC_CHAR, NC_BYTE,  NC_UBYTE,  NC_SHORT, NC_USHORT, NC_INT,
                              NC_UINT, NC_INT64, NC_UINT64, NC_FLOAT, NC_DOUBLE, NC_NAT};

StoredType stored_type(nc_type type) {
  int number = 0;
  while (kTypes[number] != type && kTypes[number] != NC_NAT) ++number;
  return StoredType(number);
}

static_assert(sizeof(long) == sizeof(Index));

int get_attribute(int file, int variable, const char* name, float* value) {
  return nc_get_att_float(file, variable, name, value);
}
int get_attribute(int file, int variable, const char* name, double* value) {
  return nc_get_att_double(file, variable, name, value);
}
int get_attribute(int file, int variable, const char* name, std::int32_t* value) {
  return nc_get_att_int(file, variable, name, value);
}
int get_attribute(int file, int variable, const char* name, std::uint32_t* value) {
  return nc_get_att_uint(file, variable, name, value);
}
int get_attribute(int file, int variable, const char* name, long long* value) {
  return nc_get_att_longlong(file, variable, name, value);
}
int get_attribute(int file, int variable, const char* name, unsigned long long* value) {
  return nc_get_att_ulonglong(file, variable, name, value);
}

template <typename Held, typename T = Held>
Attribute number_attribute(int file, int variable, const char* name) {
  T value{};
  check(get_attribute(file, variable, name, &value));
  return Held(value);
}

std::string text_attribute(int file, int variable, const char* name, std::size_t length) {
  std::string text(length, '\0');
  if (length > 0) check(nc_get_att_text(file, variable, name, text.data()));
  // Some writers store the terminating zero.
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::optional<Attribute> read_attribute(int file, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  const int status = nc_inq_att(file, variable, name, &type, &length);
  if (status == NC_ENOTATT) return std::nullopt;
  check(status);
  if (type == NC_CHAR) return text_attribute(file, variable, name, length);
  if (length != 1) throw Problem{fmt::format("holds {} values, expected one", length)};
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
      return number_attribute<std::uint64_t, unsigned long long>(file, variable, name);
    case StoredType::uint32:
      return number_attribute<std::uint32_t>(file, variable, name);
    case StoredType::int32:
      return number_attribute<std::int32_t>(file, variable, name);
    case StoredType::other:
      throw Problem{"is neither a number nor text"};
    default:
      return number_attribute<std::int64_t, long long>(file, variable, name);
  }
}

struct PutAttribute {
  int file;
  int variable;
  const char* name;
  int operator()(const std::string& text) const {
    return nc_put_att_text(file, variable, name, text.size(), text.c_str());
  }
  int operator()(float value) const {
    return nc_put_att_float(file, variable, name, NC_FLOAT, 1, &value);
  }
  int operator()(double value) const {
    return nc_put_att_double(file, variable, name, NC_DOUBLE, 1, &value);
  }
  int operator()(std::int32_t value) const {
    return nc_put_att_int(file, variable, name, NC_INT, 1, &value);
  }
  int operator()(std::uint32_t value) const {
    return nc_put_att_uint(file, variable, name, NC_UINT, 1, &value);
  }
  int operator()(std::int64_t value) const {
    const long long wide = value;
    return nc_put_att_longlong(file, variable, name, NC_INT64, 1, &wide);
  }
  int operator()(std::uint64_t value) const {
    const unsigned long long wide = value;
    return nc_put_att_ulonglong(file, variable, name, NC_UINT64, 1, &wide);
  }
};

using Sizes = std::vector<std::size_t>;

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

/// The library passes over blanks and control characters at the beginning of a path, and takes some
/// words before a colon for protocols.
std::string library_path(const std::filesystem::path& path) {
  return path.is_absolute() ? path.string() : "./" + path.string();
}

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

struct Variable {
  int id = 0;
  StoredType type = StoredType::other;
  std::vector<Index> extent;
};

Index length_of(int file, int dimension) {
  std::size_t length = 0;
  check(nc_inq_dimlen(file, dimension, &length));
  if (length > std::size_t(std::numeric_limits<Index>::max()))
    throw Problem{fmt::format("a dimension has {} elements", length)};
  return Index(length);
}

std::map<std::string, Variable> read_variables(int file) {
  std::map<std::string, Variable> variables;
  int count = 0;
  check(nc_inq_nvars(file, &count));
  for (int id = 0; id < count; ++id) {
    char name[NC_MAX_NAME + 1] = {};
    nc_type type = NC_NAT;
    int rank = 0;
    check(nc_inq_var(file, id, name, &type, &rank, nullptr, nullptr));
    std::vector<int> dimensions(static_cast<std::size_t>(rank));
    if (rank > 0) check(nc_inq_vardimid(file, id, dimensions.data()));
    Variable variable{id, stored_type(type), {}};
    for (const int dimension : dimensions) variable.extent.push_back(length_of(file, dimension));
    variables[name] = std::move(variable);
  }
  return variables;
}

}  // namespace

const char* stored_type_name(StoredType type) {
  constexpr const char* kNames[] = {"char", "byte",  "ubyte",  "short", "ushort", "int",
                                    "uint", "int64", "uint64", "float", "double", "another type"};
  return kNames[int(type)];
}

struct NetcdfFile::State {
  static constexpr int kClosed = -1;
  int file = kClosed;                // the library's number of it
  std::filesystem::path path;        // where it stands now
  std::optional<OpenedSize> opened;  // of a file that is read
  Mode mode = Mode::read;
  std::map<std::string, Variable> variables;
  std::map<std::string, std::pair<int, Index>> dimensions;  // of a file that is written

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (file == kClosed) return;
    on_netcdf_thread([this] {
      try {
        finish();
      } catch (const Problem&) {
        // A file that is given up; close() is where failures count.
      }
    });
  }

  void finish() {
    const int number = std::exchange(file, kClosed);
    mode == Mode::create ? store_and_close(number, path) : check(nc_close(number));
  }

  const Variable& variable(const std::string& name) const {
    const auto found = variables.find(name);
    if (found == variables.end()) throw Problem{"is missing"};
    return found->second;
  }

  /// The variable when it has this block. The library itself takes the number of dimensions, and
  /// with it the lengths of both lists, from the file.
  const Variable& block(const std::string& name, std::span<const Index> start,
                        std::span<const Index> count) const {
    const Variable& found = variable(name);
    if (start.size() != found.extent.size() || count.size() != start.size())
      throw Problem{
          fmt::format("has {} dimensions, expected {}", found.extent.size(), start.size())};
    for (std::size_t d = 0; d < start.size(); ++d)
      if (start[d] < 0 || count[d] < 0 || start[d] > found.extent[d] ||
          count[d] > found.extent[d] - start[d])
        throw Problem{fmt::format("has {} elements along dimension {}, {} from {} are wanted",
                                  found.extent[d], d, count[d], start[d])};
    return found;
  }

  template <typename T>
  void read(const std::string& name, std::span<const Index> start, std::span<const Index> count,
            T* values) const {
    const Variable& source = block(name, start, count);
    check(get(file, source.id, Sizes(start.begin(), start.end()), Sizes(count.begin(), count.end()),
              values));
  }
};

template <typename Work>
void NetcdfFile::call(const char* verb, const std::string& item, Work&& work) const {
  std::string problem;
  on_netcdf_thread([&] {
    try {
      work();
    } catch (const Problem& found) {
      problem = found.text;
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
  state_->path = path;
  if (mode == Mode::create) {
    call("create", "",
         [&] { check(nc_create(library_path(path).c_str(), NC_NETCDF4, &state_->file)); });
    return;
  }
  if (is_folder(path))
    throw DataError(fmt::format("{}: is a folder, expected a NetCDF file", shown_.string()));
  if (!path_exists(path))
    throw DataError(fmt::format("{}: no such file; check the path", shown_.string()));
  state_->opened.emplace(path);
  const bool sealed = check_seal(path);
  call("read as a NetCDF file", "", [&] {
    check(nc_open(library_path(path).c_str(), NC_NOWRITE, &state_->file));
    state_->variables = read_variables(state_->file);
  });
  if (!sealed && attribute(kSealedAttribute))
    throw DataError(fmt::format(
        "{}: the end of the file is missing: it was cut off, or another program changed it; use "
        "an older copy of the file, or delete its attribute {} if the change was wanted",
        shown_.string(), kSealedAttribute));
}

NetcdfFile::~NetcdfFile() = default;

void NetcdfFile::close() {
  const bool writes = state_->mode == Mode::create;
  if (writes) set_attribute(kSealedAttribute, std::int32_t(1));
  call("finish", "", [this] { state_->finish(); });
  if (writes) seal_file(state_->path, places_of(state_->path, variables()), shown_);
}

std::optional<Attribute> NetcdfFile::attribute(const std::string& name,
                                               const std::string& variable) const {
  std::optional<Attribute> value;
  call("read attribute", name, [&] {
    const int holder = variable.empty() ? NC_GLOBAL : state_->variable(variable).id;
    value = read_attribute(state_->file, holder, name.c_str());
  });
  return value;
}

std::optional<Index> NetcdfFile::dimension(const std::string& name) const {
  std::optional<Index> size;
  call("read dimension", name, [&] {
    int dimension = 0;
    const int status = nc_inq_dimid(state_->file, name.c_str(), &dimension);
    if (status == NC_EBADDIM) return;
    check(status);
    size = length_of(state_->file, dimension);
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
    for (const Index along : state_->variable(variable).extent)
      if (__builtin_mul_overflow(size, along, &size)) throw Problem{"has more than 2^63 elements"};
  });
  return size;
}

template <typename T>
void NetcdfFile::read(const std::string& variable, std::span<const Index> start,
                      std::span<const Index> count, T* values) const {
  call("read variable", variable, [&] { state_->read(variable, start, count, values); });
  if (state_->opened) state_->opened->require_unchanged(shown_);
}

void NetcdfFile::read_bytes(const std::string& variable, Index first, std::span<char> bytes) const {
  if (bytes.empty()) return;
  call("read variable", variable, [&] {
    const StoredType stored = type(variable);
    if (stored != StoredType::text && stored != StoredType::int8 && stored != StoredType::uint8)
      throw Problem{"has a type of more than one byte, expected char"};
    const Index count = Index(bytes.size());
    state_->read(variable, {&first, 1}, {&count, 1}, bytes.data());
  });
  if (state_->opened) state_->opened->require_unchanged(shown_);
}

void NetcdfFile::set_attribute(const std::string& name, const Attribute& value,
                               const std::string& variable) {
  call("write attribute", name, [&] {
    const int holder = variable.empty() ? NC_GLOBAL : state_->variable(variable).id;
    check(std::visit(PutAttribute{state_->file, holder, name.c_str()}, value));
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
      throw Problem{fmt::format("the dimension {} is not defined", dimension)};
    const auto& [number, size] = along->second;
    Variable variable{0, type, {size}};
    check(nc_def_var(state_->file, name.c_str(), kTypes[int(type)], 1, &number, &variable.id));
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
    const Variable& target = state_->block(variable, {&first, 1}, {&count, 1});
    check(put(state_->file, target.id, std::size_t(first), values.size(), values.data()));
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
