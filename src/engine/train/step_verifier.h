// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/state_copy.h"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace norn {

/// Computes steps twice from the same state and compares what they changed: hardware that computes
/// wrongly without saying so is found out. Keeps a copy of weights and state where those stand.
class StepVerifier {
 public:
  /// `device`: what this rank computes on, for the message.
  StepVerifier(Network& network, std::string device);

  /// As Network::train_step, and leaves the same. Throws DeviceError on every rank when the two
  /// results differ on any, naming the ranks that went wrong first.
  FixedSum train_step(const BoundBatch& batch, const StepPosition& position);

 private:
  /// What a step came to on this rank.
  struct Result {
    FixedSum cost;
    std::exception_ptr divergence;
    std::uint64_t state = 0;             ///< checksum of all regions
    std::vector<std::uint64_t> brought;  ///< to each collective
  };
  Result compute(const BoundBatch& batch, const StepPosition& position);
  void require_equal(const Result& first, const Result& second, const StepPosition& position);

  Network& network_;
  std::string device_;
  StateCopy before_;
  Buffer<std::uint64_t> sum_;  // one
};

}  // namespace norn
