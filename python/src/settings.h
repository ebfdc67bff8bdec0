// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/device_choice.h"
#include "norn/run/train.h"

#include <string>

#include <nanobind/nanobind.h>

namespace norn::python {

/// Of a run's settings by their names: those of the table of src/run/train_settings.h, network,
/// data, files and device. norn/_settings.py has made their values what they must be.
run::TrainOptions train_options_of(const nanobind::dict& settings);

/// "auto", "cpu", "cuda", "cuda:1"; one of precision_names().
DeviceChoice device_of(const std::string& device, int threads, const std::string& precision);

}  // namespace norn::python
