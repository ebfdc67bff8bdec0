// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the program was started by, as the environment says it.
namespace norn {

/// Whether a launcher started this process as one of several.
bool is_launched();
/// How many processes the launcher says that it started together; 1 when it does not say.
int launched_together();

}  // namespace norn
