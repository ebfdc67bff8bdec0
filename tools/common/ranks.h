// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the launcher says about the ranks.
namespace norn::tools {

/// Ranks of this run that share this machine, at least 1.
int ranks_on_this_host();

}  // namespace norn::tools
