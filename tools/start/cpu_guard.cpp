// SPDX-License-Identifier: Apache-2.0
// Looks at the processor before anything else of the program runs, its libraries' initialisers
// included: these may use instructions that it lacks. Part of every program; compiled for the
// oldest x86-64.
#include "tools/common/cpu_features.h"

#include <cstring>

#include <unistd.h>

namespace {

constexpr int kDeviceExitCode = 4;

void say(const char* words) {
  // Nothing can be done where it fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, words, std::strlen(words));
}

void check_processor(int argc, char** argv, char**) {
  using namespace norn::tools;
  char text[1024];
  if (!describe_missing(kNeededCpuFeatures, present_cpu_features(), text, sizeof(text))) return;
  const char* program = argc > 0 ? argv[0] : "norn";
  if (const char* slash = std::strrchr(program, '/')) program = slash + 1;
  say(program);
  say(": error: ");
  say(text);
  say("\n");
  _exit(kDeviceExitCode);
}

}  // namespace

// The dynamic linker calls what stands here before the initialisers of shared libraries.
__attribute__((section(".preinit_array"),
               used)) void (*const kFirstOfAll)(int, char**, char**) = check_processor;
