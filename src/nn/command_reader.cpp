// SPDX-License-Identifier: Apache-2.0
// Reading DSSTNE's command files, by the table of keys.
#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/nn/command_file.h"
#include "src/nn/key_check.h"
#include "src/nn/key_reader.h"

#include <fmt/format.h>

namespace norn {
namespace {

class CommandReader final : public keys::KeyReader {
 public:
  using KeyReader::KeyReader;

  CommandFile read() {
    const Json::Value& root = text_.root();
    if (!root.isObject()) {
      text_.error(
          {1, 1}, {},
          fmt::format("{} is not a command file; expected a JSON object", keys::shown(root)));
      text_.throw_errors();
    }
    keys::Key file;
    file.members = keys::command_keys();
    read_members(root, file, {});
    text_.throw_errors();
    check();
    text_.throw_errors();
    return draft_.command;
  }

 private:
  void read_layers(const Json::Value&) override {}

  // What concerns several keys.
  void check() {
    const CommandFile& command = draft_.command;
    const TextPlace begin = text_.place_of(text_.root());
    if (command.kind == CommandKind::train && !command.epochs)
      text_.error(begin, "TrainingParameters.Epochs",
                  "TrainingParameters: Epochs is missing; Command Train needs a number of passes "
                  "over the data");
    for (const auto& [key, name] : {std::pair{"Network", &command.network},
                                    {"Data", &command.data},
                                    {"TrainingParameters.Results", &command.results}})
      if (name->empty()) text_.error(begin, key, fmt::format("{} is empty; name a file", key));
  }
};

}  // namespace

CommandFile parse_command_file(const std::string& text, const std::string& source,
                               const std::function<void(const std::string&)>& note) {
  JsonText json(text, source, note);
  return CommandReader(json).read();
}

CommandFile read_command_file(const std::filesystem::path& file,
                              const std::function<void(const std::string&)>& note) {
  const std::optional<std::string> text = read_text_file(file);
  if (!text)
    throw UsageError(fmt::format(
        "{}: cannot be read; expected a command file in JSON, as DSSTNE's CDL", file.string()));
  return parse_command_file(*text, file.string(), note);
}

}  // namespace norn
