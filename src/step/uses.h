// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/tensors.h"

#include <algorithm>
#include <vector>

/// The arrays that ops use, as the ops say.
namespace norn::step {

class TensorUses {
 public:
  TensorUses(const StepFacts& the_facts, StepTensors& all) : facts(the_facts), tensors(all) {}

  const StepFacts& facts;
  StepTensors& tensors;
  std::vector<const Tensor*> read, written;  ///< each once, but not those that are empty

  template <typename... Arrays>
  void reads(Arrays&... arrays) {
    (add(read, arrays), ...);
  }
  /// And does not read what stood there.
  template <typename... Arrays>
  void writes(Arrays&... arrays) {
    (add(written, arrays), ...);
  }
  template <typename... Arrays>
  void updates(Arrays&... arrays) {
    reads(arrays...);
    writes(arrays...);
  }
  /// All that `owner` lists.
  template <typename Owner>
  void writes_all(Owner& owner) {
    owner.for_each_tensor([this](auto& array) { this->writes(array); });
  }
  template <typename Owner>
  void updates_all(Owner& owner) {
    owner.for_each_tensor([this](auto& array) { this->updates(array); });
  }

  // What several ops have in common.
  /// Of a hidden layer, for products forward; a gradient's reads them transposed, too.
  void reads_activations(int layer);
  void reads_weights(int edge);
  /// The weights, their state and copies.
  void updates_weights(int edge);
  /// Costs and flags of sums.
  void updates_flags();
  void adds_to(DeltaSum& sum);
  /// The delta of a layer, if it has one.
  void adds_to_delta(int layer);
  /// What the pre-activations of a layer are made of.
  void reads_sources(int layer);
  /// Of a layer with its sources, for gradients and deltas.
  void writes_lanes();

 private:
  template <typename Array>
  static void add(std::vector<const Tensor*>& list, Array& array) {
    const Tensor* tensor = &array.tensor();
    if (!tensor->empty() && std::find(list.begin(), list.end(), tensor) == list.end())
      list.push_back(tensor);
  }
};

/// During which ops of a program an array holds what is needed: from the first that writes it to
/// the last that reads it. Throughout where the first reads it, as what an earlier step has left.
struct Lifetime {
  int first = -1;  ///< -1: no op uses it
  int last = -1;
};
Lifetime lifetime_of(const Tensor& tensor, const std::vector<TensorUses>& uses);

}  // namespace norn::step
