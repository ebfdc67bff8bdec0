// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The text formats that are read: docs/user/formats.md. Each has its facts and its parser in one
/// file of src/data and a line of the table in src/data/text_formats.cpp.
namespace norn {

class RowParser;
struct TextOptions;

struct TextFormatInfo {
  std::string_view name;                      ///< in options and messages: "csv"
  std::string_view title;                     ///< in sentences: "CSV"
  std::string_view help;                      ///< what a line is
  std::array<std::string_view, 2> endings{};  ///< of files' names, .gz aside: ".csv"
  bool entry_a_line = false;  ///< lines hold an entry each, in columns; else an example each
  bool numbered = false;      ///< features are numbers, and examples may have labels
  bool valued = false;        ///< features have values unless it is said otherwise
  /// Whether a text that begins so may be of this format. `ahead`: what follows the first line; its
  /// last line may be cut. The first format of the table that says so is taken.
  bool (*recognises)(std::string_view line, std::string_view ahead);
  std::unique_ptr<RowParser> (*make_parser)(const TextOptions& options);
};

std::span<const TextFormatInfo* const> text_formats();

/// Names of all formats, or of those of which `fact` holds.
std::vector<std::string> text_format_names(bool TextFormatInfo::*fact = nullptr);

/// What a line is in every format, for an option's help.
std::string text_formats_help();

/// A format of the table, or automatic: by the file's name and first lines.
class TextFormat {
 public:
  static const TextFormat automatic;
  /// "csv", or "auto". Throws UsageError naming the formats that there are.
  static TextFormat named(std::string_view name);
  /// What named() takes, "auto" first.
  static std::vector<std::string> words();

  constexpr TextFormat() = default;
  explicit constexpr TextFormat(const TextFormatInfo& info) : info_(&info) {}
  bool is_automatic() const { return info_ == nullptr; }
  /// Of a format that is not automatic.
  const TextFormatInfo& info() const { return *info_; }
  const TextFormatInfo* operator->() const { return info_; }
  bool operator==(const TextFormat&) const = default;

 private:
  const TextFormatInfo* info_ = nullptr;
};
inline constexpr TextFormat TextFormat::automatic{};

}  // namespace norn
