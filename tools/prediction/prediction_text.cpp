// SPDX-License-Identifier: Apache-2.0
// Predictions as text.
#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "tools/prediction/prediction_lines.h"
#include "tools/prediction/prediction_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn::tools {
namespace {

class TextWriter final : public PredictionWriter {
 public:
  TextWriter(const std::filesystem::path& path, std::unique_ptr<PredictionLines> lines)
      : path_(path), lines_(std::move(lines)) {
    if (path == "-") return;
    file_.emplace(path);
    stream_ = file_->open();
  }
  ~TextWriter() override {
    if (stream_) std::fclose(stream_);
  }

  void write_ranked(std::span<const std::string> labels, const TopK& best,
                    std::span<const Explanation> why) override {
    text_.clear();
    for (std::size_t r = 0; r < labels.size(); ++r) {
      const auto count = std::size_t(best.count.data()[r]);
      const auto of_example =
          why.empty() ? why : why.subspan(r * (why.size() / labels.size()), count);
      lines_->add_ranked(labels[r], {best.unit.view().row(Index(r)), count},
                         {best.score.view().row(Index(r)), count}, of_example, text_);
    }
    flush_text();
  }

  void write_values(std::span<const std::string> labels, MatrixView<const float> values) override {
    text_.clear();
    for (std::size_t r = 0; r < labels.size(); ++r)
      lines_->add_values(labels[r], {values.row(Index(r)), std::size_t(values.cols)}, text_);
    flush_text();
  }

  void commit() override {
    if (!stream_) return;  // stdout is checked at the end of the program
    std::FILE* stream = std::exchange(stream_, nullptr);
    if (std::fclose(stream) != 0) fail();
    file_->commit();
  }

 private:
  void flush_text() {
    std::FILE* stream = stream_ ? stream_ : stdout;
    if (std::fwrite(text_.data(), 1, text_.size(), stream) != text_.size()) fail();
  }

  [[noreturn]] void fail() const {
    throw DataError(fmt::format(
        "{}: cannot be written: {}; {}", stream_ || file_ ? path_.string() : "standard output",
        std::strerror(errno), errno == ENOSPC ? "free some space" : "write elsewhere"));
  }

  std::filesystem::path path_;
  std::unique_ptr<PredictionLines> lines_;
  std::optional<AtomicFile> file_;
  std::FILE* stream_ = nullptr;
  std::string text_;
};

}  // namespace

ScoreFormat::ScoreFormat(const std::string& format) {
  // [%][flags][width][.precision]letter, in the words of fmt.
  std::size_t at = !format.empty() && format[0] == '%' ? 1 : 0;
  bool left = false;
  std::string flags;
  for (; at < format.size() && std::strchr("-+ #0", format[at]); ++at) {
    if (format[at] == '-')
      left = true;
    else
      flags += format[at];
  }
  std::string spec;
  // fmt wants sign, #, 0 in this order, each once.
  if (flags.find('+') != std::string::npos)
    spec += '+';
  else if (flags.find(' ') != std::string::npos)
    spec += ' ';
  if (flags.find('#') != std::string::npos) spec += '#';
  if (flags.find('0') != std::string::npos && !left) spec += '0';
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < format.size() && format[at] >= '0' && format[at] <= '9') ++at;
    spec += format.substr(first, at - first);
    return at - first;
  };
  bool valid = digits() <= 3;
  if (at < format.size() && format[at] == '.') {
    spec += '.';
    ++at;
    const std::size_t length = digits();
    if (length == 0) spec += '0';
    valid = valid && length <= 2;
  }
  valid = valid && at + 1 == format.size() && std::strchr("fFeEgG", format[at]) != nullptr;
  if (!valid)
    throw UsageError(
        fmt::format("--score-format: \"{}\" is no printf format of a number; write "
                    "for example 4.3f, .6e or g",
                    format));
  format_ = fmt::format("{{:{}{}{}}}", left ? "<" : "", spec, format[at]);
}

void ScoreFormat::append(float score, std::string& text) const {
  fmt::format_to(std::back_inserter(text), fmt::runtime(format_), double(score));
}

std::unique_ptr<PredictionWriter> make_text_writer(const std::filesystem::path& path,
                                                   const ScoreFormat& format,
                                                   const LabelIndex* units, TextForm form,
                                                   std::vector<InputUnits> inputs) {
  return std::make_unique<TextWriter>(
      path, make_prediction_lines(form, format, units, std::move(inputs)));
}

}  // namespace norn::tools
