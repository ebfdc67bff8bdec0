// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

/// Lists by the number of a layer or of an edge.
namespace norn {

template <typename T>
class Numbered {
 public:
  Numbered() = default;
  explicit Numbered(std::size_t count) : list_(count) {}
  T& operator[](int number) { return list_[std::size_t(number)]; }
  const T& operator[](int number) const { return list_[std::size_t(number)]; }
  int size() const { return int(list_.size()); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  void resize(int count) { list_.resize(std::size_t(count)); }

 private:
  std::vector<T> list_;
};

}  // namespace norn
