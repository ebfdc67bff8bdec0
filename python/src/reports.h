// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/evaluation.h"
#include "norn/run/train.h"

#include <span>

#include <nanobind/nanobind.h>

/// What the engine reports, as dictionaries.
namespace norn::python {

nanobind::dict dictionary_of(const run::RunBeginning& report);
nanobind::dict dictionary_of(const StepReport& report);
nanobind::dict dictionary_of(const EpochReport& report);
nanobind::dict dictionary_of(const ValidationReport& report);
nanobind::dict dictionary_of(const Evaluation& evaluation);
/// {"recall@10": 0.5, ...}, those that have a value.
nanobind::dict dictionary_of(std::span<const MetricsAtK> metrics);

}  // namespace norn::python
