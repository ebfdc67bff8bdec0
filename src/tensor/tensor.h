// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "src/tensor/buffer.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Arrays that are declared before there is memory for them.
namespace norn {

/// What an array is for; a plan adds up each. Parameters and state are what a step leaves behind.
enum class Purpose { parameter, state, working };

/// What of an array a rank has: its units' part, all units' of its examples, or all.
enum class Layout { by_unit, by_example, whole };
struct LayoutNames {
  const char* text;
  const char* key;
};
/// By Layout: in text and in JSON.
constexpr LayoutNames names_of(Layout layout) {
  constexpr LayoutNames kNames[] = {
      {"by unit", "by_unit"}, {"by example", "by_example"}, {"whole", "whole"}};
  return kNames[int(layout)];
}

/// What is known of an array that a network holds before it has memory.
struct Tensor {
  const char* use = "";  ///< "activations": behind the name of what it belongs to
  Purpose purpose = Purpose::working;
  Index rows = 0;
  Index cols = 1;
  Layout layout = Layout::by_unit;
  const char* element = "float32";
  Index element_bytes = 4;
  /// What model files call it, behind what it belongs to; empty: they do not hold it, or not as it
  /// is.
  std::string item = {};
  float initial = 0.0f;    ///< what parameters begin with
  bool is_learnt = false;  ///< the update rule changes it, by a gradient

  bool empty() const { return rows == 0 || cols == 0; }
  Index bytes() const { return rows * cols * element_bytes; }
};

template <typename T>
constexpr const char* element_name() {
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? "float32" : "float64";
  if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 2 ? "int16" : sizeof(T) == 4 ? "int32" : "int64";
  return sizeof(T) == 2 ? "bfloat16" : "record";
}

/// A Buffer or a Matrix that is declared, and empty until it is given memory. Parameters and state
/// are zeros then, or what their declaration says; working arrays are not initialised.
template <template <typename> class Array, typename T>
class Held : public Array<T> {
 public:
  Held() = default;
  Held(const char* use, Purpose purpose, Index rows, Index cols = 1,
       Layout layout = Layout::by_unit)
      : tensor_{use, purpose, rows, cols, layout, element_name<T>(), Index(sizeof(T))} {}

  /// Declares it as an item of model files.
  Held& saved_as(std::string item, float initial = 0.0f, bool is_learnt = false) {
    tensor_.item = std::move(item);
    tensor_.initial = initial;
    tensor_.is_learnt = is_learnt;
    return *this;
  }

  const Tensor& tensor() const { return tensor_; }
  void allocate(Memory& memory) {
    if constexpr (std::is_same_v<Array<T>, Matrix<T>>)
      Array<T>::operator=(Matrix<T>(tensor_.rows, tensor_.cols, memory));
    else
      Array<T>::operator=(Buffer<T>(tensor_.rows * tensor_.cols, memory));
    if (tensor_.purpose != Purpose::working) this->fill_zero();
    if constexpr (std::is_same_v<Array<T>, Buffer<float>>)
      if (tensor_.initial != 0.0f) {
        const std::vector<float> values(std::size_t(this->size()), tensor_.initial);
        this->write(values.data(), this->size());
      }
  }
  std::byte* address() { return reinterpret_cast<std::byte*>(this->view().data); }

 private:
  Tensor tensor_;
};
template <typename T>
using HeldMatrix = Held<Matrix, T>;
template <typename T>
using HeldBuffer = Held<Buffer, T>;

}  // namespace norn
