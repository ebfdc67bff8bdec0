// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

/// What ranks exchange in a step.
namespace norn {

/// A collective of a step.
struct CollectivePlan {
  /// exchange: of partial sums, from every rank to every other
  enum class Kind { all_gather, reduce_scatter, exchange, all_reduce };
  std::string stage;
  Kind kind = Kind::all_gather;
  double bytes = 0.0;  ///< of the whole array
  /// Of all ranks' shares as they are sent: all as large as the largest, as if all ranks sent as
  /// much as the busiest.
  double sent = 0.0;
  /// Whether every rank passes on the whole of it, such as what one rank has for all.
  bool passed_on = false;
  int count = 1;  ///< how often in a step
  /// Whether it overlaps with updates of weights, where there are as many left.
  bool overlaps = false;
  /// GPUs of several machines send columns packed: bytes that are copied for that, and copies.
  double packed = 0.0;
  double packings = 0.0;
  /// GPUs: bytes of a rank's memory where columns stand that are sent or received, through NCCL and
  /// through the memory of the machine's GPUs.
  std::int64_t nccl_bytes = 0;
  std::int64_t peer_bytes = 0;
};

}  // namespace norn
