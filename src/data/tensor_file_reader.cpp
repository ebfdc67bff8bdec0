// SPDX-License-Identifier: Apache-2.0
// Model and checkpoint files, ours and DSSTNE's, read as attributes and flat vectors.

#include "netcdf_file.h"
#include "norn/base/error.h"
#include "src/data/tensor_file.h"
#include "variable_checksum.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kVerifyChunk = Index(1) << 20;  // elements

/// Reads elements [first, first + count) of a variable of any shape in row-major order, as the
/// fewest blocks: each time as many whole slabs of the outermost aligned dimension as fit.
template <typename T>
void read_flat(const NetcdfFile& file, const std::string& variable,
               const std::vector<Index>& extent, Index first, std::span<T> values) {
  const std::size_t rank = extent.size();
  std::vector<Index> inner(rank, 1);  // elements of one step along each dimension
  for (std::size_t d = rank - 1; d > 0; --d) inner[d - 1] = inner[d] * extent[d];
  Index done = 0;
  while (done < Index(values.size())) {
    const Index left = Index(values.size()) - done;
    std::vector<Index> start(rank), count(rank, 1);
    Index rest = first + done;
    for (std::size_t d = 0; d < rank; ++d) {
      start[d] = rest / inner[d];
      rest %= inner[d];
    }
    std::size_t level = rank - 1;
    while (level > 0 && start[level] == 0 && left >= inner[level - 1]) --level;
    count[level] = std::min(extent[level] - start[level], left / inner[level]);
    for (std::size_t d = level + 1; d < rank; ++d) count[d] = extent[d];
    file.read(variable, start, count, values.data() + done);
    done += count[level] * inner[level];
  }
}

}  // namespace

struct TensorFileReader::State {
  NetcdfFile file;
  explicit State(const std::filesystem::path& path) : file(path, NetcdfFile::Mode::read) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(
        fmt::format("{}: {}; the file may be damaged or of another kind", name(), problem));
  }
  std::string name() const { return file.path().string(); }

  Attribute need(const std::string& attribute) const {
    auto value = file.attribute(attribute);
    if (!value) fail(fmt::format("attribute \"{}\" is missing", attribute));
    return std::move(*value);
  }

  template <typename T>
  void read(const std::string& variable, Index first, std::span<T> values) const {
    if (!file.has_variable(variable)) fail(fmt::format("variable \"{}\" is missing", variable));
    const std::vector<Index> extent = file.extent(variable);
    const Index size = file.size(variable);
    if (first < 0 || first > size || Index(values.size()) > size - first || extent.empty()) {
      fail(fmt::format("variable \"{}\" has {} elements, elements {} to {} are wanted", variable,
                       size, first, first + Index(values.size())));
    }
    read_flat(file, variable, extent, first, values);
  }

  template <typename T>
  void read_whole(const std::string& variable) const {
    std::vector<T> chunk;
    const Index size = file.size(variable);
    for (Index first = 0; first < size; first += kVerifyChunk) {
      chunk.resize(std::size_t(std::min(kVerifyChunk, size - first)));
      read(variable, first, std::span<T>(chunk));
    }
  }
};

TensorFileReader::TensorFileReader(const std::filesystem::path& path)
    : state_(std::make_unique<State>(path)) {}

TensorFileReader::~TensorFileReader() = default;

const std::filesystem::path& TensorFileReader::path() const {
  return state_->file.path();
}

bool TensorFileReader::is_sealed() const {
  return state_->file.is_sealed();
}

bool TensorFileReader::has_attribute(const std::string& name) const {
  return state_->file.attribute(name).has_value();
}

std::int64_t TensorFileReader::integer(const std::string& name) const {
  return std::visit(
      [&](const auto& held) -> std::int64_t {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          state_->fail(fmt::format("attribute \"{}\" is text, expected a whole number", name));
        } else if constexpr (std::is_floating_point_v<Held>) {
          state_->fail(fmt::format(
              "attribute \"{}\" is {}, of a floating-point type, expected a whole number", name,
              held));
        } else {
          // A seed uses all 64 bits: it comes back as the integer of the same bits.
          return std::int64_t(held);
        }
      },
      state_->need(name));
}

double TensorFileReader::number(const std::string& name) const {
  return std::visit(
      [&](const auto& held) -> double {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>)
          state_->fail(fmt::format("attribute \"{}\" is text, expected a number", name));
        else
          return double(held);
      },
      state_->need(name));
}

std::string TensorFileReader::text(const std::string& name) const {
  const Attribute value = state_->need(name);
  if (const auto* held = std::get_if<std::string>(&value)) return *held;
  state_->fail(fmt::format("attribute \"{}\" is a number, expected text", name));
}

std::int64_t TensorFileReader::integer_or(const std::string& name, std::int64_t otherwise) const {
  return has_attribute(name) ? integer(name) : otherwise;
}

double TensorFileReader::number_or(const std::string& name, double otherwise) const {
  return has_attribute(name) ? number(name) : otherwise;
}

std::string TensorFileReader::text_or(const std::string& name, const std::string& otherwise) const {
  return has_attribute(name) ? text(name) : otherwise;
}

bool TensorFileReader::has_variable(const std::string& name) const {
  return state_->file.has_variable(name);
}

Index TensorFileReader::size(const std::string& variable) const {
  if (!has_variable(variable)) state_->fail(fmt::format("variable \"{}\" is missing", variable));
  return state_->file.size(variable);
}

void TensorFileReader::read(const std::string& variable, Index first,
                            std::span<float> values) const {
  state_->read(variable, first, values);
}

void TensorFileReader::read(const std::string& variable, Index first,
                            std::span<double> values) const {
  state_->read(variable, first, values);
}

std::vector<char> TensorFileReader::read_bytes(const std::string& variable) const {
  std::vector<char> bytes(std::size_t(size(variable)));
  state_->file.read_bytes(variable, 0, bytes);
  return bytes;
}

void TensorFileReader::verify() const {
  // What is read from its beginning to its end is compared with its checksum.
  for (const std::string& variable : state_->file.variables()) {
    if (!state_->file.attribute(kChecksumAttribute, variable)) continue;
    switch (state_->file.type(variable)) {
      case StoredType::uint8:
        read_bytes(variable);
        break;
      case StoredType::float64:
        state_->read_whole<double>(variable);
        break;
      default:
        state_->read_whole<float>(variable);
    }
  }
}

}  // namespace norn
