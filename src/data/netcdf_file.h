// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "src/data/tensor_file.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// An open NetCDF file. All that the rest of the program sees of the NetCDF library: every call is
/// made on the one NetCDF thread, every failure is a DataError naming file, item and next step.
namespace norn {

/// Stored types, as far as they matter to us.
enum class StoredType {
  text,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64,
  other
};

/// The type's name as ncdump prints it.
const char* stored_type_name(StoredType type);

class NetcdfFile {
 public:
  enum class Mode { read, create };
  /// Mode::create replaces what is there; Mode::read looks at the file's seal first. `shown` is the
  /// name used in messages (the final name of a file that is written under a temporary one); empty:
  /// `path`.
  NetcdfFile(const std::filesystem::path& path, Mode mode, const std::filesystem::path& shown = {});
  ~NetcdfFile();
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;

  /// The name used in messages.
  const std::filesystem::path& path() const { return shown_; }
  /// Whether the seal of a file that is read vouches for all of its items.
  bool is_sealed() const;
  /// Closes; a file that was written is stored and sealed. Failures (a full disk) are thrown here.
  void close();

  /// A scalar or text attribute of the file, or of a variable when one is named.
  std::optional<Attribute> attribute(const std::string& name,
                                     const std::string& variable = {}) const;
  std::optional<Index> dimension(const std::string& name) const;
  bool has_variable(const std::string& name) const;
  std::vector<std::string> variables() const;
  StoredType type(const std::string& variable) const;
  std::vector<Index> extent(const std::string& variable) const;
  /// Elements in all. Throws DataError when the file does not hold them.
  Index size(const std::string& variable) const;

  /// Reads a block of a variable into `values`, converting numbers. T: float, double, Index,
  /// std::uint32_t. Throws DataError when the variable has other dimensions, or none so long.
  template <typename T>
  void read(const std::string& variable, std::span<const Index> start, std::span<const Index> count,
            T* values) const;
  /// The same for elements [first, first + values.size()) of a one-dimensional variable.
  template <typename T>
  void read(const std::string& variable, Index first, std::span<T> values) const {
    const Index count = Index(values.size());
    if (count > 0) read(variable, {&first, 1}, {&count, 1}, values.data());
  }
  /// Bytes of a one-dimensional variable of a type of one byte, as they are stored.
  void read_bytes(const std::string& variable, Index first, std::span<char> bytes) const;

  void set_attribute(const std::string& name, const Attribute& value,
                     const std::string& variable = {});
  void define_dimension(const std::string& name, Index size);
  /// A one-dimensional variable.
  void define_variable(const std::string& name, StoredType type, const std::string& dimension);
  /// Writes elements [first, first + values.size()), converting numbers. T: as for read, char
  /// for text, and std::uint8_t.
  template <typename T>
  void write(const std::string& variable, Index first, std::span<const T> values);

 private:
  struct State;
  void write_checksums();
  void open_what_is_there();
  template <typename Work>
  void call(const char* verb, const std::string& item, Work&& work) const;
  std::filesystem::path shown_;
  std::unique_ptr<State> state_;
};

}  // namespace norn
