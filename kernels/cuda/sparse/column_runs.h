// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/column_runs.h"
#include "kernels/cuda/device/stream.h"

namespace norn::cuda {

/// Fills in the numbers of `runs`, which `begin` points at too.
void find_column_runs(const Stream& stream, const CsrView& x, const ColumnRuns& runs, int* begin);

}  // namespace norn::cuda
