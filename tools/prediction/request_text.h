// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "norn/data/text_reader.h"
#include "src/data/first_line.h"

#include <optional>
#include <string>
#include <vector>

/// Text as requests.
namespace norn::tools {

/// A row a request. All lines of an example of CSV and TSV, which may stand anywhere, are one:
/// these formats are held in memory, 12 bytes an entry, and come in the order in which the examples
/// appear first. Other formats are read line by line.
class RequestText {
 public:
  /// `known`: features of the model; null: they are numbers. A first line that seems to be names of
  /// columns, and has none of them, is passed over where nobody has said what it is.
  RequestText(const std::filesystem::path& file, const TextOptions& options,
              const LabelIndex* known);
  /// As TextReader::next().
  bool next(TextRow& row);
  /// file:line of the row read last, or of what is held in memory the file.
  std::string place() const { return held_ ? reader_.name() : reader_.place(); }
  /// As TextReader's.
  Index malformed() const { return reader_.malformed(); }
  const std::string& first_malformed() const { return reader_.first_malformed(); }
  /// The first line, where it was passed over.
  const std::optional<std::string>& passed_over() const { return passed_over_; }

 private:
  struct Entry {
    Column example;
    Column feature;
    float value;
  };
  void hold();
  void pass_over_names(const FirstLineCheck& check);

  TextReader reader_;
  const LabelIndex* known_;
  std::optional<std::string> passed_over_;
  bool valued_;
  bool held_;  // or will be with the first row
  LabelIndex examples_;
  LabelIndex features_;
  std::vector<Entry> entries_;  // by example, in their order in the text
  std::size_t next_entry_ = 0;
};

}  // namespace norn::tools
