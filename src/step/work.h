// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

#include <algorithm>
#include <vector>

/// The work of a step as its ops count it, without a machine that would say how long it takes.
namespace norn::step {

inline constexpr double kFloat = sizeof(float);
inline constexpr double kBf16 = sizeof(Bfloat16);
inline constexpr double kWord = sizeof(std::int64_t);

/// Work of one kind. Bytes are those of memory that is read and written.
struct Work {
  enum class Kind {
    product,       ///< reads its weights once
    loss_product,  ///< one whose result is used up in the kernel that makes it
    update,        ///< a weight gradient and the update by it
    pass,          ///< over whole arrays, element by element
    rows           ///< over rows here and there
  };
  Kind kind = Kind::pass;
  const char* stage = "";
  double flops = 0.0;
  double filled = 1.0;  ///< the share that they are of what is multiplied in whole tiles
  double bytes = 0.0;
  double gathered = 0.0;   ///< bytes that are read more than once and mostly stand in a cache
  double evaluated = 0.0;  ///< outputs whose cost and delta are formed
  double calls = 1.0;
  int edge = -1;         ///< whose weights it reads or writes, if it does
  double updated = 0.0;  ///< weights that are updated
  double late = 0.0;     ///< the share of it that may wait until ranks exchange deltas

  /// Rows of weights are read for every entry; an update gathers deltas beside them.
  double least_bytes() const {
    return kind == Kind::rows ? bytes + gathered : std::max(bytes, gathered);
  }
};

class WorkList {
 public:
  explicit WorkList(const StepFacts& facts) : facts_(facts) {}
  const std::vector<Work>& list() const { return list_; }

  void add(const Work& work) { list_.push_back(work); }
  void pass(const char* stage, double bytes, double calls = 1.0) {
    add({.stage = stage, .bytes = bytes, .calls = calls});
  }
  /// Of the batch with the own weights of an edge.
  void product(const char* stage, int edge, double calls);
  /// With the weights of the only edge into an output layer.
  void loss_product(const char* stage, int layer, double calls);
  /// The own pre-activations of a layer, but for edges by source; and what their delta does to
  /// edges from unit to unit.
  void pre_activations(const char* stage, int layer);
  void backward_by_unit(const char* stage, int layer);
  /// Sums in fixed point: a GPU adds a few partial sums at a time.
  void partial_sums(double elements, double partial_sums);
  /// The parts of a source's delta from the own blocks of `layer`, or of the source where the edge
  /// is by source, and their sum.
  void input_delta(const char* stage, int edge);
  void update(const char* stage, int edge);
  void update_rows(int edge);
  void catch_up_rows(int edge);

  // What these consist of.
  double batch() const { return double(facts_.batch()); }
  /// Own units of a layer in all rows of a batch.
  double rows_of(int layer) const { return batch() * double(facts_.units(layer)); }
  double own_weights(int edge) const;
  double operand_bytes() const;
  /// A weight of an edge, and its state, read and written; the same of a vector of units.
  double update_bytes(int edge) const;
  double unit_update_bytes() const;
  /// Of the own blocks of a layer; a GPU takes a hidden layer's together.
  double calls_for(int layer) const;
  /// Of an output layer whose blocks may compute their loss in their product.
  double output_calls(int layer) const;

 private:
  double calls_of(int edge) const;
  void sparse_forward(int edge);

  const StepFacts& facts_;
  std::vector<Work> list_;
};

}  // namespace norn::step
