// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

/// Functions of the driver, whose library is looked up at run time: programs start where there is
/// none.
namespace norn::cuda {

/// The driver's function of that name as of CUDA `version` (12000: 12.0), never null. Throws
/// DeviceError where the driver is older.
void* driver_entry_point(const char* name, unsigned version);

/// The same with the type that cuda.h gives it.
template <typename Function>
Function driver_entry(const char* name, unsigned version) {
  return reinterpret_cast<Function>(driver_entry_point(name, version));
}

/// Throws DeviceError when a call of the driver failed, naming it.
void check_driver(CUresult status, const char* call);

}  // namespace norn::cuda
