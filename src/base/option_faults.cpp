// SPDX-License-Identifier: Apache-2.0
// Words for what is wrong with options.
#include "src/base/option_faults.h"

namespace norn {

void OptionFaults::out_of_range(const std::string& option, const std::string& value,
                                const std::string& expected) {
  fail(fmt::format("{} {} is out of range: it must be {}", option, value, expected));
}

}  // namespace norn
