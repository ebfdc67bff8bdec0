// SPDX-License-Identifier: Apache-2.0
// Conversion of stored elements to floats and column numbers.

#include "stored_values.h"

#include "dataset_items.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace norn {

namespace {

constexpr Index kChunk = Index(1) << 18;  // elements converted at a time

bool is_byte(StoredType type) {
  return type == StoredType::text || type == StoredType::int8 || type == StoredType::uint8;
}

}  // namespace

float value_of_zero(const DatasetInfo& info, Role role) {
  const bool unsigned_bytes = info.type == ElementType::uint8 || info.type == ElementType::rgb8 ||
                              info.type == ElementType::rgb16;
  return unsigned_bytes && role == Role::input && !info.sparse ? -0.5f : 0.0f;
}

StoredValues::StoredValues(const NetcdfFile& file, const DatasetInfo& info, std::string variable,
                           Role role)
    : file_(file), variable_(std::move(variable)), type_(info.type) {
  const StoredType stored = file.type(variable_);
  bytes_ = is_byte(stored);
  floats_ = stored == StoredType::float32;
  shift_ = value_of_zero(info, role);
  switch (type_) {
    case ElementType::uint8:
    case ElementType::rgb8:
      scale_ = 1.0f / 256;
      break;
    case ElementType::rgb16:
      scale_ = 1.0f / 65536;
      break;
    case ElementType::int8:
      scale_ = 1.0f / 128;
      break;
    default:
      break;
  }
}

void StoredValues::read(Index first, std::span<float> values) {
  const Index count = Index(values.size());
  for (Index done = 0; done < count; done += kChunk) {
    const std::span<float> part = values.subspan(done, std::min(kChunk, count - done));
    if (bytes_) {
      read_bytes(first + done, part);
    } else {
      read_numbers(first + done, part);
    }
  }
}

void StoredValues::read_bytes(Index first, std::span<float> values) {
  raw_.resize(values.size());
  file_.read_bytes(variable_, first, raw_);
  // The data set's element type decides on the sign, not the variable's: writers differ there.
  const bool is_signed = type_ == ElementType::int8;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int number = is_signed ? int(static_cast<signed char>(raw_[i]))
                                 : int(static_cast<unsigned char>(raw_[i]));
    values[i] = float(number) * scale_ + shift_;
  }
}

void StoredValues::read_numbers(Index first, std::span<float> values) {
  if (floats_) {
    file_.read(variable_, first, values);
    if (scale_ == 1) return;
    for (float& value : values) value = value * scale_ + shift_;
    return;
  }
  wide_.resize(values.size());
  file_.read(variable_, first, std::span<double>(wide_));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(wide_[i]) * scale_ + shift_;
}

std::optional<Index> first_not_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all of it: NaN or infinite
  constexpr std::size_t kBlock = 1024;             // looked at without a branch for each
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::span<const float> block =
        values.subspan(first).first(std::min(kBlock, values.size() - first));
    std::uint32_t found = 0;
    for (const float value : block)
      found |= std::uint32_t((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
    if (found == 0) continue;
    const auto wrong =
        std::ranges::find_if(block, [](float value) { return !std::isfinite(value); });
    if (wrong != block.end()) return Index(first) + (wrong - block.begin());
  }
  return std::nullopt;
}

void read_columns(const NetcdfFile& file, const std::string& variable, Index width, Index first,
                  std::span<Column> columns) {
  const bool narrow = file.type(variable) == StoredType::uint32;
  std::vector<double> wide;
  const Index count = Index(columns.size());
  for (Index done = 0; done < count; done += kChunk) {
    const std::span<Column> part = columns.subspan(done, std::min(kChunk, count - done));
    if (narrow) {
      file.read(variable, first + done, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (part[i] >= width) throw OutOfRange{first + done + Index(i), double(part[i])};
      }
      continue;
    }
    // Doubles hold every column number exactly, and tell a fraction or a negative number.
    wide.resize(part.size());
    file.read(variable, first + done, std::span<double>(wide));
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (!(wide[i] >= 0 && wide[i] < double(width)) || wide[i] != std::floor(wide[i])) {
        throw OutOfRange{first + done + Index(i), wide[i]};
      }
      part[i] = Column(wide[i]);
    }
  }
}

}  // namespace norn
