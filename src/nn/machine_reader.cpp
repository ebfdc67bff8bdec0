// SPDX-License-Identifier: Apache-2.0
// Reading descriptions of machines from JSON, by the table of keys.
#include "norn/base/error.h"
#include "norn/nn/machine.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/nn/key_check.h"
#include "src/nn/key_reader.h"

#include <fmt/format.h>

namespace norn {
namespace {

class MachineReader final : public keys::KeyReader {
 public:
  using KeyReader::KeyReader;

  MachineDescription read() {
    const Json::Value& root = text_.root();
    if (!root.isObject()) {
      text_.error({1, 1}, {},
                  fmt::format("{} is not a machine; expected a JSON object", keys::shown(root)));
      text_.throw_errors();
    }
    keys::Key machine;
    machine.members = keys::machine_keys();
    read_members(root, machine, {});
    text_.throw_errors();
    check(root);
    text_.throw_errors();
    return draft_.machine;
  }

 private:
  void read_layers(const Json::Value&) override {}

  // The member of that name, which is there: the text has been read.
  static const Json::Value& member(const Json::Value& object, const std::string& name) {
    for (const std::string& spelling : object.getMemberNames())
      if (equal_ignoring_case(spelling, name)) return object[spelling];
    return object;
  }

  // What concerns several keys.
  void check(const Json::Value& root) {
    const DeviceDescription& device = draft_.machine.device;
    const Json::Value& products = member(member(root, "Device"), "Products");
    const TextPlace at = text_.place_of_key(products);
    const std::string key = "Device.Products";
    if (device.products.empty())
      text_.error(at, key, "Device: Products is empty; expected an entry for each precision");
    for (std::size_t i = 0; i < device.products.size(); ++i) {
      const Precision precision = device.products[i].precision;
      if (!device.is_gpu && precision != Precision::fp32)
        text_.error(
            at, key,
            fmt::format("Device: Products: a CPU computes in fp32, not in {}", name_of(precision)));
      for (std::size_t j = 0; j < i; ++j)
        if (device.products[j].precision == precision)
          text_.error(at, key,
                      fmt::format("Device: Products: {} is given twice", name_of(precision)));
    }
    for (const char* name : {"InsideNode", "BetweenNodes"})
      if (const Json::Value& links = member(root, name); links.empty())
        text_.error(text_.place_of_key(links), name,
                    fmt::format("{} is empty; expected one way or several", name));
  }
};

}  // namespace

const ProductRates& MachineDescription::products_in(Precision precision) const {
  std::vector<std::string> known;
  for (const ProductRates& rates : device.products) {
    if (rates.precision == precision) return rates;
    known.emplace_back(name_of(rates.precision));
  }
  throw UsageError(fmt::format(
      "`precision` {}: the machine \"{}\" has no Products in that precision; it has: {}",
      name_of(precision), name, join(known)));
}

MachineDescription parse_machine_json(const std::string& text, const std::string& source,
                                      const std::function<void(const std::string&)>& note) {
  JsonText json(text, source, note);
  return MachineReader(json).read();
}

MachineDescription read_machine_json(const std::filesystem::path& file,
                                     const std::function<void(const std::string&)>& note) {
  const std::optional<std::string> text = read_text_file(file);
  if (!text)
    throw UsageError(
        fmt::format("{}: cannot be read; expected the description of a machine in JSON, such as "
                    "configs/machines/h200.json",
                    file.string()));
  return parse_machine_json(*text, file.string(), note);
}

}  // namespace norn
