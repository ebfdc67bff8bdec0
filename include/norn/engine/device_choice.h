// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/gpu_options.h"

#include <optional>

/// Where a run computes.
namespace norn {

/// What a run shall compute on.
struct DeviceChoice {
  enum class Kind { automatic, cpu, cuda };
  Kind kind = Kind::automatic;  ///< automatic: GPUs when there is one on every rank's host
  int threads = 0;              ///< of the CPU
  /// Without a number the ranks of a host take its GPUs in turn; with one, automatic is cuda.
  std::optional<int> gpu;
  GpuOptions gpu_options;  ///< but for the number of the GPU
};

/// What a run was told about its data sets: to hold them in the GPU's memory where they fit, always
/// or never.
enum class DataOnGpu { automatic, yes, no };

}  // namespace norn
