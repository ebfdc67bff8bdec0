// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace norn {

/// The name of this machine.
std::string host_name();

/// Whether a process of this machine is there. One that has died and of which nobody has taken note
/// yet is not.
bool process_lives(long process);

/// The letter of a process's state: 'R' runs, 'S' sleeps, 'T' is stopped; '?' when it is not known.
char process_state(long process);

}  // namespace norn
