// SPDX-License-Identifier: Apache-2.0
// The machine that plans are made for when none is named: configs/machines/h200.json.
#include "norn/nn/machine.h"

namespace norn {

MachineDescription h200_machine() {
  MachineDescription machine;
  machine.name =
      "NVIDIA H200, 8 a node, 400 Gb/s a GPU between nodes (links between nodes not measured)";
  machine.ranks_per_node = 8;
  DeviceDescription& device = machine.device;
  device.memory_gib = 139;
  device.gigabytes = 4290;
  device.cache_gigabytes = 10000;
  device.row_share = 0.75;
  device.giga_outputs = 1135;
  device.calls = {10, 10, 4, 3};
  device.products = {{Precision::fp32, 51, 0.95, 0.95, 0.9},
                     {Precision::tf32, 395, 0.86, 0.79, 1},
                     {Precision::bf16, 790, 0.985, 0.915, 1}};
  machine.inside_node = {{7, 0.4, 310}};
  machine.between_nodes = {{6, 5, 20}, {20, 8, 45}};
  machine.overlap = 0.5;
  return machine;
}

}  // namespace norn
