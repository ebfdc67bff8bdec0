// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "norn/data/text_reader.h"
#include "src/run/requests.h"

#include <memory>
#include <optional>

/// The predictor's requests as text.
namespace norn::tools {

using run::RequestBatch;
using run::RequestSource;

/// Whether features of requests have values. Automatic: those of LibSVM text, as importer takes
/// them.
enum class RequestValues { automatic, yes, no };

/// What numbers of LibSVM text say: units, or labels of units.
enum class TextNumbers { units, labels };

/// The unit that a number of LibSVM text names. `index` is looked at for labels alone.
std::optional<Index> unit_of(Column number, TextNumbers numbers, const LabelIndex& index);

struct TextRequestSettings {
  std::filesystem::path file;
  TextOptions text;
  RequestValues values = RequestValues::automatic;
  const LabelIndex* features = nullptr;      ///< of the input layer; null: the text has numbers
  const LabelIndex* seen_units = nullptr;    ///< labels of the output units, to tell the seen ones
  TextNumbers numbers = TextNumbers::units;  ///< for `features`
  TextNumbers seen_numbers = TextNumbers::units;  ///< for `seen_units`
  std::size_t layers = 0;                         ///< of the network
  int input_layer = 0;
  Index input_units = 0;
};
std::unique_ptr<RequestSource> make_text_requests(const TextRequestSettings& settings);

}  // namespace norn::tools
