// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"
#include "src/tensor/executor.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

/// Random inputs of the kernel tests: seeded afresh, the seed printed with every failure.
namespace norn::samples {

/// A test with random numbers of its own. NORN_TEST_SEED repeats a run.
class RandomTest : public ::testing::Test {
 protected:
  static std::uint64_t choose_seed() {
    const char* word = std::getenv("NORN_TEST_SEED");
    return word != nullptr ? std::strtoull(word, nullptr, 10) : std::random_device{}();
  }
  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }

  const std::uint64_t seed_ = choose_seed();
  std::mt19937_64 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "NORN_TEST_SEED=" + std::to_string(seed_)};
};

/// A matrix whose rows are further apart than they are long; what lies between is poisoned.
template <typename T>
class PaddedMatrix {
 public:
  PaddedMatrix(Index rows, Index cols, Index padding = 5)
      : rows_(rows),
        cols_(cols),
        stride_(cols + padding),
        elements_(std::size_t(rows * (cols + padding)), poison()) {}

  MatrixView<T> view() { return {elements_.data(), rows_, cols_, stride_}; }
  T& operator()(Index r, Index c) { return elements_[std::size_t(r * stride_ + c)]; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }

  /// Whether nobody wrote between the rows.
  bool padding_is_intact() const {
    for (Index r = 0; r < rows_; ++r)
      for (Index c = cols_; c < stride_; ++c) {
        const T expected = poison();
        if (std::memcmp(&elements_[std::size_t(r * stride_ + c)], &expected, sizeof(T)) != 0)
          return false;
      }
    return true;
  }
  /// Whether all elements have the same bits.
  bool same_bits(const PaddedMatrix& other) const {
    return elements_.size() == other.elements_.size() &&
           (elements_.empty() || std::memcmp(elements_.data(), other.elements_.data(),
                                             elements_.size() * sizeof(T)) == 0);
  }

 private:
  static T poison() {
    if constexpr (std::is_floating_point_v<T>)
      return std::numeric_limits<T>::quiet_NaN();
    else if constexpr (std::is_same_v<T, Bfloat16>)
      return T{0x5A5A};
    else
      return T(0x5A5A5A5A);
  }
  Index rows_;
  Index cols_;
  Index stride_;
  std::vector<T> elements_;
};

/// A sparse matrix that owns its arrays.
struct SparseRows {
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;
  std::vector<float> value;
  Index cols = 0;

  void append_row(const std::set<Column>& columns) {
    column.insert(column.end(), columns.begin(), columns.end());
    row_begin.push_back(RowOffset(column.size()));
  }
  Index rows() const { return Index(row_begin.size()) - 1; }
  CsrView view() const {
    return {row_begin.data(), column.data(), value.empty() ? nullptr : value.data(), rows(), cols};
  }
};

/// The widths at which loops of vectors, strips and tails begin and end.
inline const std::vector<Index>& edge_widths() {
  static const std::vector<Index> widths{1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1000};
  return widths;
}

template <typename T>
VectorView<T> view_of(std::vector<T>& v) {
  return {v.data(), Index(v.size())};
}
template <typename T>
VectorView<const T> view_of(const std::vector<T>& v) {
  return {v.data(), Index(v.size())};
}

/// |actual - expected| relative to max(floor, |expected|).
inline double relative_error(double actual, double expected, double floor) {
  return std::abs(actual - expected) / std::max(floor, std::abs(expected));
}

}  // namespace norn::samples
