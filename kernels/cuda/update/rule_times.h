// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/update_rule.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

/// What rules compute for themselves from a step's number, in the device's memory: it is worked out
/// on the host, so that steps that are made up for have the host's bits.
namespace norn::cuda {

/// UpdateStep::times of steps [0, count). Those of later ones are 1.
struct TimesTable {
  const float2* at = nullptr;
  Index count = 0;
};
static_assert(kMostTimes == 2, "an entry of TimesTable is a float2");

class RuleTimes {
 public:
  explicit RuleTimes(const Stream& stream) : stream_(stream) {}
  /// A table that is good for steps up to `last`. It ends where all numbers have come to 1, with
  /// Adam's usual betas after 17,000 steps, and is written once. When the stream is being captured
  /// the graph writes the table, and must be run before the next one.
  TimesTable up_to(const UpdateRule& rule, std::int64_t last);

 private:
  void write();

  Stream stream_;
  std::optional<UpdateRule> rule_;
  std::vector<float2> host_;
  bool complete_ = false;  ///< all have come to 1
  Buffer<float2> device_;
};

}  // namespace norn::cuda
