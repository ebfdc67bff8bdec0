// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// What a process can give up for good before it looks at a file that somebody else made. All of
/// this is of the kernel, where it has it, and needs no rights.
namespace norn {

/// This process ends when the one at the other end of the socket does, whatever it is doing.
void end_with_the_other_side(int socket);

/// From here on this process opens no other file than this one, makes and removes none, runs no
/// program and reaches no server: Landlock. False where the kernel cannot.
bool open_nothing_but(int descriptor);

/// From here on this process does what reading an open file takes, and nothing else: a filter of
/// system calls. False where the kernel cannot.
bool open_nothing();

/// What of these the kernel has.
struct Confinement {
  int landlock = 0;  ///< its version; 0: none
  bool filters = false;
  std::string text() const;  ///< "landlock 7, seccomp yes"
};
Confinement confinement_of_kernel();

}  // namespace norn
