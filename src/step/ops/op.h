// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an op speaks of: src/step/program.h lists them.
#include "src/step/state.h"
#include "src/step/traffic.h"
#include "src/step/uses.h"
#include "src/step/work.h"
