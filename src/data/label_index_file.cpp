// SPDX-License-Identifier: Apache-2.0
// Index files: label<TAB>number, one a line.

#include "label_index_writer.h"
#include "norn/base/error.h"
#include "norn/data/label_index.h"
#include "row_parser.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "text_lines.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

/// Labels as a file lists them, and the number that it gives to each.
struct Listing {
  LabelIndex labels;
  std::vector<Index> numbers;
};

Listing read_listing(const fs::path& path, LabelBytes bytes) {
  TextLines lines(std::vector<fs::path>{path});
  Listing listing;
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty()) continue;
    const auto fail = [&](const std::string& problem) {
      throw DataError(fmt::format("{}:{}: {}; an index file has lines of label, tab and number",
                                  path.string(), lines.line_number(), problem));
    };
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) fail(fmt::format("{} has no tab", excerpt(line)));
    const std::string_view label = line.substr(0, tab);
    const auto number = parse_integer(line.substr(tab + 1));
    if (label.empty()) fail("the label is empty");
    const auto problem = bytes == LabelBytes::utf8 ? utf8_problem(label) : std::nullopt;
    if (problem)
      throw DataError(fmt::format(
          "{}:{}: {}; convert the index first, for example with iconv -f latin1 -t utf-8",
          path.string(), lines.line_number(), *problem));
    if (label.size() > LabelIndex::kLongestLabel)
      fail(fmt::format("the label {} has {} bytes, more than {}", excerpt(label), label.size(),
                       LabelIndex::kLongestLabel));
    if (!number || *number < 0) {
      fail(fmt::format("{} is not a number from 0", excerpt(line.substr(tab + 1))));
    }
    const Index before = listing.labels.size();
    if (listing.labels.add(label) != before)
      fail(fmt::format("label {} occurs twice", excerpt(label)));
    listing.numbers.push_back(Index(*number));
  }
  return listing;
}

}  // namespace

LabelIndex read_label_index(const fs::path& path, LabelBytes bytes) {
  if (!is_file(path)) {
    throw DataError(fmt::format("{}: no such index file; check the path", path.string()));
  }
  Listing listing = read_listing(path, bytes);
  const Index count = listing.labels.size();
  bool in_order = true;
  for (Index i = 0; i < count; ++i) in_order = in_order && listing.numbers[std::size_t(i)] == i;
  if (in_order) return std::move(listing.labels);
  std::vector<Index> of_number(std::size_t(count), -1);  // position in the listing
  for (Index i = 0; i < count; ++i) {
    const Index number = listing.numbers[std::size_t(i)];
    const auto fail = [&](const std::string& problem) {
      throw DataError(fmt::format(
          "{}: the number {} of label {} {}; the numbers of {} labels must be "
          "0 to {}, each once",
          path.string(), number, excerpt(listing.labels.label(i)), problem, count, count - 1));
    };
    if (number >= count) fail("is out of range");
    if (of_number[std::size_t(number)] >= 0) fail("occurs twice");
    of_number[std::size_t(number)] = i;
  }
  LabelIndex index;
  for (const Index position : of_number) index.add(listing.labels.label(position));
  return index;
}

LabelIndexWriter::LabelIndexWriter(const fs::path& path) : place_(path), file_(place_.open()) {}

LabelIndexWriter::~LabelIndexWriter() {
  if (file_) std::fclose(file_);
}

void LabelIndexWriter::fail() const {
  throw DataError(fmt::format("{}: cannot write: {}; check the disk's free space and permissions",
                              place_.final_path().string(), std::strerror(errno)));
}

void LabelIndexWriter::add(std::string_view label) {
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{}\t{}\n", label, count_++);
  if (std::fwrite(line_.data(), 1, line_.size(), file_) != line_.size()) fail();
}

void LabelIndexWriter::finish() {
  if (!file_) return;
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
}

void LabelIndexWriter::commit() {
  finish();
  place_.commit();
}

void write_label_index(const fs::path& path, const LabelIndex& index) {
  LabelIndexWriter writer(path);
  for (Index number = 0; number < index.size(); ++number) writer.add(index.label(number));
  writer.commit();
}

}  // namespace norn
