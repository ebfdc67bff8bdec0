// SPDX-License-Identifier: Apache-2.0
// Reading small descriptors in tests: what is read, remarked and refused.
#pragma once

#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"

#include <string>
#include <vector>

namespace norn::test {

struct Reading {
  NetworkDescriptor network;
  std::vector<std::string> notes;
  std::string error;  ///< empty when it was read
};

inline Reading read(const std::string& text) {
  Reading reading;
  try {
    reading.network = parse_network_json(
        text, "net.json", [&](const std::string& note) { reading.notes.push_back(note); });
  } catch (const UsageError& error) {
    reading.error = error.what();
  }
  return reading;
}

/// A network with these network keys before three layers (lines 1 to 6).
inline std::string with_network_keys(const std::string& keys) {
  return "{\n" + keys + (keys.empty() ? "" : ",") + R"(
"Layers": [
{"Name": "Input", "N": 4, "Sparse": true},
{"Name": "Hidden", "N": 3},
{"Name": "Output", "N": 2}]})";
}

/// A network whose hidden layer, on line 4, has these keys too.
inline std::string with_hidden_keys(const std::string& keys) {
  const std::string hidden = R"({"Name": "Hidden", )" + keys + "},\n";
  return "{\n\"Layers\": [\n{\"Name\": \"Input\", \"N\": 4},\n" + hidden +
         R"({"Name": "Output", "N": 2}]})";
}
/// A network whose input layer, on line 3, has these keys too.
inline std::string with_input_keys(const std::string& keys) {
  const std::string input = R"({"Name": "Input", )" + keys + "},\n";
  return "{\n\"Layers\": [\n" + input + R"({"Name": "Output", "N": 2}]})";
}
/// A network whose output layer, on line 4, has these keys too.
inline std::string with_output_keys(const std::string& keys) {
  const std::string output = R"({"Name": "Output", )" + keys + "}]}";
  return "{\n\"Layers\": [\n{\"Name\": \"Input\", \"N\": 4},\n" + output;
}

}  // namespace norn::test
