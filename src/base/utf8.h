// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace norn {

/// The text with the replacement character, U+FFFD, for every byte that is no UTF-8: what writers
/// of JSON and other readers agree on.
std::string valid_utf8(std::string_view text);

}  // namespace norn
