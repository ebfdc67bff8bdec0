// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/precision.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// Machines that a run may be planned for: what one rank computes in a second, and what ranks say
/// to each other in one. Files in JSON, in the units of the members here; docs/user/machines.md.
namespace norn {

/// What dense products of one precision reach.
struct ProductRates {
  Precision precision = Precision::fp32;
  double teraflops = 0.0;      ///< of the largest products, a second
  double output_share = 1.0;   ///< of them: products in which the loss of their results is computed
  double product_share = 1.0;  ///< of them: products with nothing more
  double update_share = 1.0;   ///< of them: gradients of weights, beside the bytes of the update
  bool operator==(const ProductRates&) const = default;
};

/// One way in which ranks may exchange what a collective needs: each step costs, and each byte.
struct LinkWay {
  double start_microseconds = 0.0;
  double step_microseconds = 0.0;
  double gigabytes = 0.0;  ///< of 10^9 bytes, a second, that leave a rank
  bool operator==(const LinkWay&) const = default;
};

/// What a call of a kernel costs besides its work.
struct CallTimes {
  double output_microseconds = 0.0;
  double product_microseconds = 0.0;
  double update_microseconds = 0.0;
  double other_microseconds = 0.0;
  bool operator==(const CallTimes&) const = default;
};

/// One rank's share of a machine.
struct DeviceDescription {
  bool is_gpu = true;
  int threads = 1;               ///< of a rank on the CPU
  double memory_gib = 0.0;       ///< that a rank may take, of 2^30 bytes
  double gigabytes = 0.0;        ///< of memory, read and written, a second
  double cache_gigabytes = 0.0;  ///< of rows that several examples read, a second
  double row_share = 1.0;        ///< of `gigabytes`, where rows far from each other are updated
  double giga_outputs = 0.0;     ///< output units of examples whose loss is computed, 10^9 a second
  CallTimes calls;
  std::vector<ProductRates> products;
  bool operator==(const DeviceDescription&) const = default;
};

struct MachineDescription {
  std::string name;
  int ranks_per_node = 1;
  DeviceDescription device;
  std::vector<LinkWay> inside_node;    ///< the fastest one is taken
  std::vector<LinkWay> between_nodes;  ///< for one rank of each node
  double overlap = 0.0;                ///< share of what may overlap with computation that does

  /// Throws UsageError naming those that there are.
  const ProductRates& products_in(Precision precision) const;
  bool operator==(const MachineDescription&) const = default;
};

/// Reads a description, with the same rules as network descriptors. All errors of a text are
/// reported at once, a line each, in one UsageError.
MachineDescription parse_machine_json(const std::string& text, const std::string& source,
                                      const std::function<void(const std::string&)>& note = {});
MachineDescription read_machine_json(const std::filesystem::path& file,
                                     const std::function<void(const std::string&)>& note = {});

/// configs/machines/h200.json, for plans that name no machine.
MachineDescription h200_machine();

/// docs/user/machines.md and configs/schema/machine.schema.json, from the table of keys.
std::string machine_reference_markdown();
std::string machine_json_schema();

}  // namespace norn
