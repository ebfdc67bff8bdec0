// SPDX-License-Identifier: Apache-2.0
// The table of keys: descriptions of machines.
#include "kernels/precisions.h"
#include "src/nn/key_builders.h"

namespace norn::keys {
namespace {

Key required(Key key) {
  key.required = true;
  return key;
}

template <typename Access>
Key positive(std::string name, Access access, std::string help) {
  return required(number_key(std::move(name), access, above(0), std::move(help)));
}

template <typename Access>
Key microseconds(std::string name, Access access, std::string help) {
  return required(number_key(std::move(name), access, at_least(0), std::move(help)));
}

template <typename Access>
Key share(std::string name, Access access, std::string help) {
  Limits limits = from_to(0, 1);
  limits.above_low = true;
  return number_key(std::move(name), access, limits, std::move(help));
}

Key products_key() {
  std::vector<Key> members;
  std::vector<EnumWord<Precision>> precisions;
  for (const NamedPrecision& named : kPrecisions)
    precisions.push_back({named.name, named.precision});
  members.push_back(required(enum_key<Precision>(
      "Precision", std::move(precisions), [](auto& d) -> auto& { return d.products.precision; },
      "Of the operands, as in `--precision`; a CPU computes in fp32.")));
  members.push_back(positive(
      "TFLOPPerSecond", [](auto& d) -> auto& { return d.products.teraflops; },
      "What the largest products reach, 10^12 operations a second."));
  members.push_back(share(
      "OutputShare", [](auto& d) -> auto& { return d.products.output_share; },
      "Part of that which output layers' products reach in which the loss of their results is "
      "computed."));
  members.push_back(share(
      "ProductShare", [](auto& d) -> auto& { return d.products.product_share; },
      "Part of that which other products reach."));
  members.push_back(share(
      "UpdateShare", [](auto& d) -> auto& { return d.products.update_share; },
      "Part of that which weight gradients reach, beside the bytes of the update."));
  Key key;
  key.name = "Products";
  key.type = ValueType::objects;
  key.help = "Dense products, an entry for each precision.";
  key.required = true;
  key.members = std::move(members);
  key.begin_entry = [](Draft& d) { d.products = {}; };
  key.end_entry = [](Draft& d) { d.machine.device.products.push_back(d.products); };
  return key;
}

Key calls_key() {
  std::vector<Key> members;
  members.push_back(microseconds(
      "Output", [](auto& d) -> auto& { return d.machine.device.calls.output_microseconds; },
      "Product, cost and delta of output units in one kernel."));
  members.push_back(microseconds(
      "Product", [](auto& d) -> auto& { return d.machine.device.calls.product_microseconds; },
      "Other dense products."));
  members.push_back(microseconds(
      "Update", [](auto& d) -> auto& { return d.machine.device.calls.update_microseconds; },
      "Weight gradient and update."));
  members.push_back(microseconds(
      "Other", [](auto& d) -> auto& { return d.machine.device.calls.other_microseconds; },
      "Everything else: sparse products, activations, sums."));
  return required(object_key("CallMicroseconds", std::move(members),
                             "What a call costs besides its work, in microseconds."));
}

Key device_key() {
  std::vector<Key> members;
  members.push_back(required(enum_key<bool>(
      "Kind", {{"GPU", true}, {"CPU", false}},
      [](auto& d) -> auto& { return d.machine.device.is_gpu; }, "What a rank computes on.")));
  members.push_back(integer_key(
      "Threads", [](auto& d) -> auto& { return d.machine.device.threads; }, from_to(1, 65536),
      "Threads of a rank on a CPU, which take room for blocks; the rates are those of all."));
  members.push_back(positive(
      "MemoryGiB", [](auto& d) -> auto& { return d.machine.device.memory_gib; },
      "Memory that a rank may take, in 2^30 bytes."));
  members.push_back(positive(
      "GBPerSecond", [](auto& d) -> auto& { return d.machine.device.gigabytes; },
      "Memory, 10^9 bytes a second, read and written, as large copies reach it."));
  members.push_back(positive(
      "CacheGBPerSecond", [](auto& d) -> auto& { return d.machine.device.cache_gigabytes; },
      "Rows of weights and deltas that several examples read."));
  members.push_back(share(
      "RowShare", [](auto& d) -> auto& { return d.machine.device.row_share; },
      "Part of GBPerSecond that updates of rows here and there reach."));
  members.push_back(positive(
      "GigaOutputsPerSecond", [](auto& d) -> auto& { return d.machine.device.giga_outputs; },
      "Output units, 10^9 a second and once for each example, whose loss is computed beside "
      "their product: cost, delta, rounding."));
  members.push_back(calls_key());
  members.push_back(products_key());
  return required(
      object_key("Device", std::move(members), "What one rank computes on, and how fast."));
}

Key links_key(std::string name, std::vector<LinkWay> MachineDescription::*links, std::string help) {
  std::vector<Key> members;
  members.push_back(microseconds(
      "StartMicroseconds", [](auto& d) -> auto& { return d.link.start_microseconds; },
      "What a collective costs before its first step."));
  members.push_back(microseconds(
      "StepMicroseconds", [](auto& d) -> auto& { return d.link.step_microseconds; },
      "What a step costs; going around n ranks takes n - 1."));
  members.push_back(positive(
      "GBPerSecond", [](auto& d) -> auto& { return d.link.gigabytes; },
      "10^9 bytes a second that leave a rank while all ranks send."));
  Key key;
  key.name = std::move(name);
  key.type = ValueType::objects;
  key.help = std::move(help);
  key.required = true;
  key.members = std::move(members);
  key.begin_entry = [](Draft& d) { d.link = {}; };
  key.end_entry = [links](Draft& d) { (d.machine.*links).push_back(d.link); };
  return key;
}

std::vector<Key> make_machine_keys() {
  std::vector<Key> keys;
  Key schema;
  schema.name = "$schema";
  schema.help = "For editors: where machine.schema.json lies. Not read.";
  schema.set = [](Draft&, const Json::Value&) {};
  keys.push_back(std::move(schema));
  keys.push_back(required(text_key(
      "Name", [](auto& d) -> auto& { return d.machine.name; },
      "What plans call the machine, and whether its numbers were measured.")));
  keys.push_back(required(integer_key(
      "RanksPerNode", [](auto& d) -> auto& { return d.machine.ranks_per_node; }, from_to(1, 65536),
      "Ranks that a node has room for.")));
  keys.push_back(device_key());
  keys.push_back(links_key("InsideNode", &MachineDescription::inside_node,
                           "How ranks of a node exchange data. Of several ways, say one of little "
                           "latency and one of much bandwidth, the faster one is taken."));
  keys.push_back(links_key("BetweenNodes", &MachineDescription::between_nodes,
                           "The same between nodes, for one rank of each: ranks of a node do not "
                           "share these bytes."));
  keys.push_back(number_key(
      "Overlap", [](auto& d) -> auto& { return d.machine.overlap; }, from_to(0, 1),
      "Part of the reduction of deltas, and of their maxima, that overlaps with updates of weights "
      "on GPUs. Ranks on CPUs wait for all of it."));
  return keys;
}

}  // namespace

const std::vector<Key>& machine_keys() {
  static const std::vector<Key> keys = make_machine_keys();
  return keys;
}

}  // namespace norn::keys
