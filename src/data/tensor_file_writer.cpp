// SPDX-License-Identifier: Apache-2.0
// Model and checkpoint files, written with a checksum for every variable.

#include "netcdf_file.h"
#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/data/tensor_file.h"

#include <map>

#include <fmt/format.h>

namespace norn {

namespace {

struct Variable {
  StoredType type;
  Index size;
};

}  // namespace

struct TensorFileWriter::State {
  AtomicFile place;
  NetcdfFile file;
  std::map<std::string, Variable> variables;
  std::map<std::string, Index> dimensions;

  explicit State(const std::filesystem::path& path)
      : place(path), file(place.temporary(), NetcdfFile::Mode::create, path) {}

  void define(const std::string& name, const std::string& dimension, Index size, StoredType type) {
    require(size >= 0, "TensorFileWriter: a size of at least 0");
    if (variables.count(name) > 0) {
      throw ShapeError(
          fmt::format("{}: variable \"{}\" is defined twice", file.path().string(), name));
    }
    const auto [known, is_new] = dimensions.emplace(dimension, size);
    if (is_new) file.define_dimension(dimension, size);
    require(known->second == size, "TensorFileWriter: one size for each dimension");
    file.define_variable(name, type, dimension);
    variables[name] = {type, size};
  }

  template <typename T>
  void write(const std::string& name, Index first, std::span<const T> values, StoredType type) {
    const auto found = variables.find(name);
    const Index count = Index(values.size());
    if (found == variables.end() || found->second.type != type || first < 0 ||
        first + count > found->second.size) {
      throw ShapeError(fmt::format("{}: elements {} to {} of variable \"{}\" were not defined so",
                                   file.path().string(), first, first + count, name));
    }
    if (count == 0) return;
    file.write(name, first, values);
  }
};

TensorFileWriter::TensorFileWriter(const std::filesystem::path& path)
    : state_(std::make_unique<State>(path)) {}

TensorFileWriter::~TensorFileWriter() = default;

void TensorFileWriter::attribute(const std::string& name, const Attribute& value) {
  state_->file.set_attribute(name, value);
}

void TensorFileWriter::define_float(const std::string& variable, const std::string& dimension,
                                    Index size) {
  state_->define(variable, dimension, size, StoredType::float32);
}

void TensorFileWriter::define_double(const std::string& variable, const std::string& dimension,
                                     Index size) {
  state_->define(variable, dimension, size, StoredType::float64);
}

void TensorFileWriter::define_bytes(const std::string& variable, const std::string& dimension,
                                    Index size) {
  state_->define(variable, dimension, size, StoredType::uint8);
}

void TensorFileWriter::write(const std::string& variable, Index first,
                             std::span<const std::uint8_t> values) {
  state_->write(variable, first, values, StoredType::uint8);
}

void TensorFileWriter::write(const std::string& variable, Index first,
                             std::span<const float> values) {
  state_->write(variable, first, values, StoredType::float32);
}

void TensorFileWriter::write(const std::string& variable, Index first,
                             std::span<const double> values) {
  state_->write(variable, first, values, StoredType::float64);
}

void TensorFileWriter::commit() {
  state_->file.close();
  state_->place.commit();
}

}  // namespace norn
