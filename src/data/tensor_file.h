// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// NetCDF files of attributes and vectors of numbers: model files and checkpoints. What the items
/// mean is the engine's affair.
namespace norn {

using Attribute = std::variant<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float,
                               double, std::string>;

/// Writes a file that is complete or absent: beside its place, checksummed, synced, renamed by
/// commit(). Everything that goes wrong throws DataError naming the file.
class TensorFileWriter {
 public:
  explicit TensorFileWriter(const std::filesystem::path& path);
  ~TensorFileWriter();
  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;

  void attribute(const std::string& name, const Attribute& value);
  /// Defines a one-dimensional variable over a dimension, which is new or of the same size. Define
  /// all before the first write.
  void define_float(const std::string& variable, const std::string& dimension, Index size);
  void define_double(const std::string& variable, const std::string& dimension, Index size);
  /// Bytes that are no numbers.
  void define_bytes(const std::string& variable, const std::string& dimension, Index size);
  /// Writes elements [first, first + values.size()).
  void write(const std::string& variable, Index first, std::span<const float> values);
  void write(const std::string& variable, Index first, std::span<const double> values);
  void write(const std::string& variable, Index first, std::span<const std::uint8_t> values);
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class TensorFileReader {
 public:
  /// Throws DataError when the file is missing, truncated or not NetCDF.
  explicit TensorFileReader(const std::filesystem::path& path);
  ~TensorFileReader();
  TensorFileReader(const TensorFileReader&) = delete;
  TensorFileReader& operator=(const TensorFileReader&) = delete;

  const std::filesystem::path& path() const;
  /// Whether the file's seal vouches for all of its items.
  bool is_sealed() const;
  bool has_attribute(const std::string& name) const;
  /// Numbers are converted (integer types to each other, integers to floating point). The first
  /// form throws DataError naming file and attribute when it is missing or of the wrong type.
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::int64_t integer_or(const std::string& name, std::int64_t otherwise) const;
  double number_or(const std::string& name, double otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;

  bool has_variable(const std::string& name) const;
  /// Elements in all, whatever the number of dimensions.
  Index size(const std::string& variable) const;
  /// Reads elements [first, first + values.size()) of a variable (row-major when it has several
  /// dimensions). Numbers are converted.
  void read(const std::string& variable, Index first, std::span<float> values) const;
  void read(const std::string& variable, Index first, std::span<double> values) const;
  /// All bytes of a variable of bytes.
  std::vector<char> read_bytes(const std::string& variable) const;
  /// Reads every checksummed variable once and compares; throws DataError naming the variable.
  /// Files without checksums pass.
  void verify() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace norn
