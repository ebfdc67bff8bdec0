// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"

#include <exception>
#include <functional>
#include <string>

namespace norn {

/// The message of the error of type E that `work` throws.
template <typename E = DataError>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& other) {
    return std::string("another error: ") + other.what();
  }
  return "no error";
}

}  // namespace norn
