// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

/// The one thread of the process that touches NetCDF. The NetCDF and HDF5 libraries keep state per
/// process and per thread and may not be called from several threads, not even in turn.
namespace norn {

/// Runs `work` on that thread and returns when it is done; what it throws is thrown here. Callers
/// take turns. A call from the thread itself runs at once. A forked child starts a thread of its
/// own; UsageError where it was forked during a call.
void on_netcdf_thread(const std::function<void()>& work);

}  // namespace norn
