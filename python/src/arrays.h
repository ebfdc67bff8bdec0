// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

/// Arrays that Python and the engine share, without copies.
namespace norn::python {

/// A vector in main memory that is read where it stands. Arguments of this type are declared
/// .noconvert(): else another dtype would be converted in silence.
template <typename T>
using Vector =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <typename T>
using Matrix =
    nanobind::ndarray<const T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// An array of NumPy over a vector's elements, which it keeps. With the GIL.
template <typename T>
nanobind::object array_of(std::vector<T> values, std::vector<std::size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(kept,
                                [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

/// Arrays of Python's that the engine keeps, and lets go on any thread.
template <typename... Arrays>
class KeptArrays {
 public:
  explicit KeptArrays(const Arrays&... arrays) : arrays_(new std::tuple<Arrays...>(arrays...)) {}
  KeptArrays(const KeptArrays&) = delete;
  KeptArrays& operator=(const KeptArrays&) = delete;
  ~KeptArrays() {
    if (!nanobind::is_alive()) return;  // the interpreter is gone, and with it what they are
    const nanobind::gil_scoped_acquire gil;
    delete arrays_;
  }

 private:
  std::tuple<Arrays...>* arrays_;
};
template <typename... Arrays>
std::shared_ptr<const void> keep(const Arrays&... arrays) {
  return std::make_shared<const KeptArrays<Arrays...>>(arrays...);
}

}  // namespace norn::python
