// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/collective_plan.h"
#include "src/step/facts.h"

#include <vector>

/// The collectives of a step as its ops count them.
namespace norn::step {

class TrafficList {
 public:
  using Kind = CollectivePlan::Kind;
  explicit TrafficList(const StepFacts& facts) : facts_(facts) {}
  const std::vector<CollectivePlan>& list() const { return list_; }

  /// Of all units of a layer, `bytes` in all, each rank having its share.
  void gather(const char* stage, int layer, double bytes);
  /// The same of columns [B x units] with elements of `element` bytes.
  void gather_columns(const char* stage, int layer, double element);
  /// Rows of all examples of a layer by example, each rank having its own.
  void gather_rows(const char* stage, int layer, double element);
  /// A gradient of `bytes` of each run of examples, to the owners of a layer's units.
  void terms(const char* stage, int layer, double bytes);
  void add(const CollectivePlan& plan) { list_.push_back(plan); }
  void all_reduce(const char* stage, double bytes, int count = 1) {
    add({stage, Kind::all_reduce, bytes, bytes, false, count});
  }
  /// Sums in fixed point [B x units], of which each rank gets its share.
  void accumulators(const char* stage, int layer);
  /// Partial sums of such sums as they are.
  void partial_sums(const char* stage, int layer);
  /// What was added last overlaps with other work.
  void mark_overlapping() { list_.back().overlaps = facts_.on_gpu(); }

 private:
  double elements(int layer) const {
    return double(facts_.batch()) * double(facts_.layer(layer).units());
  }
  double largest_share_of_rows() const {
    return double(facts_.own_examples(facts_.batch()).count()) / double(facts_.batch());
  }
  double largest_share(int layer) const {
    return double(facts_.units(layer)) / double(facts_.partition(layer).width());
  }
  void pack(int layer, double element, double matrices);
  // What was added last takes such workspaces.
  void need_memory(std::int64_t nccl, std::int64_t peers) {
    list_.back().nccl_bytes = nccl;
    list_.back().peer_bytes = peers;
  }

  const StepFacts& facts_;
  std::vector<CollectivePlan> list_;
};

}  // namespace norn::step
