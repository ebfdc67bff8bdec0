// SPDX-License-Identifier: Apache-2.0
// The references of descriptors and of machines in Markdown, from the tables of keys.
#include "norn/nn/machine.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/key_check.h"

#include <fmt/format.h>

namespace norn {
namespace {

using keys::Key;
using keys::ValueType;

constexpr const char* kIntroduction = R"(# Network descriptors

This page is generated from the program's table of keys (`tools/dev/write_reference.sh`); do not edit it.
An editor that knows JSON schemas checks descriptors as you type with
[network.schema.json](../../configs/schema/network.schema.json): put
`"$schema": "schema/network.schema.json"` (the path from your file) first.
Examples are in [configs](../../configs/README.md); the formulas are in [numerics.md](numerics.md).

A descriptor is one JSON object:

```json
{
  "Name": "Autoencoder",
  "ErrorFunction": "CrossEntropy",
  "Layers": [
    { "Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input" },
    { "Name": "Hidden", "Kind": "Hidden", "N": 128, "Activation": "Relu" },
    { "Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "Sigmoid" }
  ]
}
```

Rules:

- Keys and words of choice may be written in upper or lower case. Names of layers and of data sets may not: case
  matters.
- `//` and `/* */` comments and a trailing comma are allowed.
- A key that is given twice counts as the last one says, with a remark.
- Whatever is not understood is an error: an unknown or misspelt key, a key that the layer's kind does not have, a value
  of the wrong type or out of range. All errors of a file are reported at once, with their lines.
- A boolean may be given as 0 or 1.
- An edge of the network joins all units of a source to all units of its destination; into a Convolutional or Pooling
  layer those of a window. Layers may have any number of sources and feed any number of layers; there are no cycles.
  Output layers feed no other layer.
- A layer may be wider than its data set, not narrower.
- A hidden layer that leads to no Output layer takes no part.
- Along each axis of Kernel a window has one place where its source is not wider than the kernel. With KernelStride 1 it
  has as many as the source has units, and Kernel is odd. Else it has floor((width - kernel) / stride) + 1, without padding.
- Convolutional and Pooling layers are Hidden layers. Their sources are dense; a layer without windows sees
  their units in the order of files. DeltaNorm, Sparse and SoftMax are refused on them, and a Skip into a Convolutional
  layer that does not come from a layer with windows and its size.
)";

constexpr const char* kMachines = R"(# Machines

This page is generated from the program's table of keys (`tools/dev/write_reference.sh`); do not edit it.
`trainer --plan --machine FILE` plans a run for the machine that FILE describes, which need not be at hand:
[parallel.md](parallel.md) says how. [configs/machines](../../configs/machines) has descriptions to start from:

- h200.json: NVIDIA H200 GPUs, 8 a node. Its device and its links inside a node were measured.
- cpu_cluster.json: nodes of 64 cores with 100 Gb/s between them. Typical numbers, not measured.

A description is a JSON object by the same rules as a [network's](descriptor.md): comments are allowed, keys are matched
without regard to case, and whatever is not understood is an error. Its schema is
[machine.schema.json](../../configs/schema/machine.schema.json).

**Computation.** A stage of a step takes the time of its products, plus the time of its bytes, plus what its calls
cost. The shares were chosen so that the H200's description predicts the measured steps of
[several_gpus.md](../developer/lab/several_gpus.md) within 15 %.

**Collectives.** n ranks of one node take `Start + (n - 1) Step + bytes (n - 1) / n / GBPerSecond` for an all-gather or
a reduce-scatter. An all-reduce takes twice the steps and bytes (or, around a tree, twice log2 n steps and all bytes
twice). The bytes are those of all ranks' shares, each as large as the largest. On several nodes the ranks that stand
at the same place in theirs exchange their part between nodes first or last. They do so all at the same time. The
ranks of a node exchange the whole.

)";

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

std::string names_of_key(const Key& key) {
  std::string text = fmt::format("`{}`", key.name);
  for (const keys::Spelling& alias : key.aliases) text += fmt::format(", `{}`", alias.name);
  return text;
}

std::string words_text(const Key& key) {
  std::vector<std::string> words;
  for (const keys::Word& word : key.words) {
    if (!word.listed) continue;
    std::string text = fmt::format("`{}`", word.name);
    for (const keys::Spelling& alias : word.aliases) text += fmt::format(" = `{}`", alias.name);
    words.push_back(text);
  }
  return join(words);
}

std::string default_text(const Key& key) {
  if (key.required) return "required";
  if (!key.default_text.empty()) return key.default_text;
  const Json::Value value = keys::default_of(key);
  const bool empty = value.isNull() || (value.isString() && value.asString().empty());
  return empty ? "none" : fmt::format("`{}`", keys::shown(value));
}

void add_row(std::string& text, const Key& key, const std::string& prefix, bool layers) {
  if (!key.refusal.empty()) return;
  const std::string value =
      key.type == ValueType::word ? words_text(key) : keys::expected_phrase(key);
  text += fmt::format("| {}{} |", prefix, names_of_key(key));
  if (layers) text += fmt::format(" {} |", prefix.empty() ? keys::legal_phrase(key) : "");
  const bool composed = !key.members.empty();
  text += fmt::format(" {} | {} | {} |\n", cell(value),
                      composed && !key.required ? "none" : default_text(key), cell(key.help));
  for (const Key& member : key.members)
    add_row(text, member, fmt::format("{}`{}` . ", prefix, key.name), layers);
}

void add_refusals(std::string& text, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    if (!key.refusal.empty()) text += fmt::format("- `{}` {}.\n", key.name, key.refusal);
    for (const keys::Word& word : key.words)
      if (!word.refusal.empty())
        text += fmt::format("- `\"{}\": \"{}\"` {}.\n", key.name, word.name, word.refusal);
  }
}

void add_remarks(std::string& text, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    for (const keys::Spelling& alias : key.aliases)
      if (!alias.note.empty()) text += fmt::format("- `{}` {}.\n", alias.name, alias.note);
    for (const keys::Word& word : key.words) {
      if (!word.note.empty())
        text += fmt::format("- `\"{}\": \"{}\"` {}.\n", key.name, word.name, word.note);
      for (const keys::Spelling& alias : word.aliases)
        if (!alias.note.empty())
          text += fmt::format("- `\"{}\": \"{}\"` {}.\n", key.name, alias.name, alias.note);
    }
    if (!key.boolean_note.empty()) text += fmt::format("- `{}` {}.\n", key.name, key.boolean_note);
    add_remarks(text, key.members);
  }
}

}  // namespace

std::string descriptor_reference_markdown() {
  std::string text = kIntroduction;
  text += "\n## Keys of the network\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys::network_keys()) add_row(text, key, "", false);
  text +=
      "\n## Keys of a layer\n\n| key | where | value | default | meaning "
      "|\n|---|---|---|---|---|\n";
  for (const Key& key : keys::layer_keys()) add_row(text, key, "", true);
  text += "\n## Accepted with a remark\n\n";
  add_remarks(text, keys::network_keys());
  add_remarks(text, keys::layer_keys());
  text += "\n## Refused\n\nKeys and words that DSSTNE's documents name:\n\n";
  add_refusals(text, keys::network_keys());
  add_refusals(text, keys::layer_keys());
  return text;
}

std::string machine_reference_markdown() {
  std::string text = kMachines;
  text += "## Keys\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys::machine_keys()) add_row(text, key, "", false);
  return text;
}

}  // namespace norn
