// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/stream.h"
#include "norn/kernels/update_rule.h"

#include <cstdint>
#include <vector>

/// Adam's bias corrections in the device's memory: their powers are worked out on the host, so that
/// steps that are made up for have the host's bits.
namespace norn::cuda {

/// correct1 and correct2 of steps [0, count). Later ones are 1.
struct CorrectionTable {
  const float2* at = nullptr;
  Index count = 0;
};

class UpdateCorrections {
 public:
  explicit UpdateCorrections(const Stream& stream) : stream_(stream) {}
  /// A table that is good for steps up to `last`. It ends where both corrections have come down to
  /// 1, after 17,000 steps with the usual betas, and is written once. When the stream is being
  /// captured the graph writes the table, and must be run before the next one.
  CorrectionTable up_to(const UpdateSchedule& schedule, std::int64_t last);

 private:
  void write();

  Stream stream_;
  float beta1_ = -1.0f, beta2_ = -1.0f;
  std::vector<float2> host_;
  bool complete_ = false;  ///< both have come down to 1
  Buffer<float2> device_;
};

}  // namespace norn::cuda
