// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// Writing small JSON texts; reading them is the descriptor's business (src/nn).
namespace norn::tools {

/// The text in quotation marks, escaped. Bytes that are not UTF-8, as names of files may hold,
/// become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace norn::tools
