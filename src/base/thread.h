// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace norn {

/// Starts a thread. Throws DeviceError where the system allows no more of them.
std::thread start_thread(std::function<void()> work);

}  // namespace norn
