// SPDX-License-Identifier: Apache-2.0
// Labels of units: compressed, summed up, and matched.

#include "norn/data/label_table.h"

#include "norn/base/error.h"
#include "row_parser.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/data/label_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <future>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <zlib.h>

namespace norn {

namespace {

constexpr std::size_t kLinesTogether = std::size_t(1) << 20;  // bytes compressed at a time
constexpr Index kLabelsTogether = Index(1) << 12;
constexpr Index kMostThreads = 8;  // more wait for memory
// Level 1 is three times as fast as zlib's default, and files of labels are 5 to 15 % larger.
constexpr int kCompression = 1;
constexpr std::int64_t kMostCompressed = 1032;  // times, of the format (RFC 1951)
constexpr std::size_t kDigits = 64;             // of a SHA-256

[[noreturn]] void fail_damaged(const std::string& where, const std::string& how = {}) {
  throw DataError(fmt::format(
      "{}: its labels of features are damaged{}; use an older copy of the file, or import again",
      where, how));
}

/// The digits of a number, in a place of their own.
class Digits {
 public:
  std::string_view of(Index number) {
    const auto end = std::to_chars(text_.data(), text_.data() + text_.size(), number);
    return {text_.data(), std::size_t(end.ptr - text_.data())};
  }

 private:
  std::array<char, 24> text_;
};

bool names_are_numbers(const LabelIndex& labels) {
  Digits digits;
  for (Index number = 0; number < labels.size(); ++number)
    if (labels.label(number) != digits.of(number)) return false;
  return true;
}

std::string lines_of_numbers(Index count) {
  std::string lines;
  Digits digits;
  for (Index number = 0; number < count; ++number) (lines += digits.of(number)) += '\n';
  return lines;
}

/// Compresses and sums up lines that come in pieces.
class Packer {
 public:
  Packer() {
    if (deflateInit(&stream_, kCompression) != Z_OK) throw std::bad_alloc();
  }
  ~Packer() { deflateEnd(&stream_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void add(std::string_view lines, bool last) {
    sum_.add(lines);
    stored_.line_bytes += Index(lines.size());
    // zlib does not write to its input, but older versions do not say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(lines.data()));
    stream_.avail_in = uInt(lines.size());
    std::array<char, 1 << 16> out;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = uInt(out.size());
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      stored_.packed.insert(stored_.packed.end(), out.data(),
                            out.data() + (out.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }
  LabelTable::Stored take(Index count) {
    stored_.count = count;
    stored_.sha256 = sum_.hex();
    return std::move(stored_);
  }

 private:
  z_stream stream_{};
  Sha256 sum_;
  LabelTable::Stored stored_;
};

/// Where an index has each label; by several threads.
std::vector<Column> find_labels(const LabelIndex& index, const LabelList& labels) {
  const Index count = labels.size();
  std::vector<Column> found(static_cast<std::size_t>(count));
  const auto find = [&](Index begin, Index end) {
    for (Index first = begin; first < end; first += kLabelsTogether) {
      const Index some = std::min(kLabelsTogether, end - first);
      index.find_all(labels.views(first, some),
                     std::span(found).subspan(std::size_t(first), std::size_t(some)));
    }
  };
  const Index threads = std::clamp<Index>(std::thread::hardware_concurrency(), 1,
                                          std::min(kMostThreads, count / kLabelsTogether + 1));
  const Index share = (count + threads - 1) / threads;
  std::vector<std::future<void>> parts;
  for (Index begin = 0; begin < count; begin += share)
    parts.push_back(std::async(std::launch::async, find, begin, std::min(count, begin + share)));
  for (auto& part : parts) part.get();
  return found;
}

LabelIndex index_of(const LabelList& labels, const std::string& where) {
  LabelIndex index;
  index.reserve(labels.size());
  std::vector<Column> numbers;
  for (Index first = 0; first < labels.size(); first += kLabelsTogether) {
    const Index count = std::min(kLabelsTogether, labels.size() - first);
    numbers.clear();
    index.number_all(labels.views(first, count), LabelIndex::Absent::add, numbers);
    for (Index i = 0; i < count; ++i)
      if (Index(numbers[std::size_t(i)]) != first + i)
        throw DataError(
            fmt::format("{}: the label {} of feature {} is that of feature {}, too; import again",
                        where, excerpt(labels[first + i]), first + i, numbers[std::size_t(i)]));
  }
  return index;
}

}  // namespace

LabelList::LabelList(std::string lines) : lines_(std::move(lines)), begin_{0} {
  for (std::size_t at = lines_.find('\n'); at != std::string::npos; at = lines_.find('\n', at + 1))
    begin_.push_back(at + 1);
}

std::vector<std::string_view> LabelList::views(Index first, Index count) const {
  std::vector<std::string_view> labels;
  for (Index number = first; number < first + count; ++number) labels.push_back((*this)[number]);
  return labels;
}

LabelTable::LabelTable(Stored stored, std::string where)
    : state_(std::make_shared<State>(State{std::move(stored), std::move(where)})) {}

LabelTable LabelTable::numbers(Index count) {
  Stored stored;
  stored.count = count;
  return {std::move(stored), {}};
}

LabelTable LabelTable::of(const LabelIndex& labels) {
  if (names_are_numbers(labels)) return numbers(labels.size());
  Packer packer;
  std::string lines;
  for (Index number = 0; number < labels.size(); ++number) {
    const std::string_view label = labels.label(number);
    if (label.find('\n') != std::string_view::npos)
      throw DataError(
          fmt::format("the label {} of number {} has a line feed, which a label may not; rename it",
                      excerpt(label), number));
    (lines += label) += '\n';
    if (lines.size() < kLinesTogether) continue;
    packer.add(lines, false);
    lines.clear();
  }
  packer.add(lines, true);
  return {packer.take(labels.size()), {}};
}

bool LabelTable::same_as(const LabelTable& other) const {
  return known() && other.known() && size() == other.size() &&
         state_->stored.sha256 == other.state_->stored.sha256;
}

LabelTable LabelTable::checksum_only() const {
  Stored stored = state_->stored;
  stored.packed.clear();
  stored.line_bytes = 0;
  return {std::move(stored), state_->where};
}

LabelList LabelTable::list() const {
  require(has_words(), "LabelTable::list: the labels are not there");
  if (are_numbers()) return LabelList(lines_of_numbers(size()));
  const Stored& stored = state_->stored;
  const auto fail = [&] { fail_damaged(state_->where); };
  if (stored.line_bytes < 0 ||
      stored.line_bytes / kMostCompressed > std::int64_t(stored.packed.size()))
    fail();
  std::string lines(std::size_t(stored.line_bytes), '\0');
  uLongf bytes = lines.size();
  const int result =
      uncompress(reinterpret_cast<Bytef*>(lines.data()), &bytes,
                 reinterpret_cast<const Bytef*>(stored.packed.data()), uLong(stored.packed.size()));
  if (result != Z_OK || bytes != lines.size()) fail();
  LabelList list(std::move(lines));
  if (list.size() != stored.count) fail();
  return list;
}

LabelIndex LabelTable::index() const {
  return index_of(list(), state_->where);
}

void check_labels(const LabelTable& labels, const std::string& where) {
  if (!labels.known()) return;
  const LabelTable::Stored& stored = labels.stored();
  if (labels.are_numbers()) {
    if (!stored.packed.empty()) fail_damaged(where, ": they have no checksum");
    return;
  }
  if (stored.sha256.size() != kDigits ||
      stored.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail_damaged(where, fmt::format(": their checksum is {}, expected {} hexadecimal digits",
                                    excerpt(stored.sha256), kDigits));
  if (!labels.has_words()) return;
  const LabelList list = labels.list();
  Sha256 sum;
  for (Index number = 0; number < list.size(); ++number) {
    sum.add(list[number]);
    sum.add("\n");
  }
  if (sum.hex() != stored.sha256)
    fail_damaged(where,
                 fmt::format(": their SHA-256 is {:.8}, expected {:.8}", sum.hex(), stored.sha256));
  index_of(list, where);
}

UnitMatch match_units(const LabelTable& features, const LabelTable& units) {
  require(features.has_words() && units.has_words(), "match_units: both need their labels");
  UnitMatch match;
  match.units = units;
  const Index count = features.size();
  if (features.are_numbers() && units.are_numbers()) {
    match.to.assign(std::size_t(count), LabelIndex::kUnknown);
    std::iota(match.to.begin(), match.to.begin() + std::min(count, units.size()), Column(0));
    match.unknown = std::max<Index>(0, count - units.size());
    return match;
  }
  // The smaller table becomes the index in which the other's labels are looked up.
  const bool by_unit = count < units.size();
  const LabelTable& indexed = by_unit ? features : units;
  const LabelTable& listed = by_unit ? units : features;
  auto unpacked = std::async(std::launch::async, [&] { return listed.list(); });
  const LabelIndex index = indexed.index();
  const std::vector<Column> found = find_labels(index, unpacked.get());
  if (by_unit) {
    match.to.assign(std::size_t(count), LabelIndex::kUnknown);
    for (std::size_t unit = 0; unit < found.size(); ++unit)
      if (found[unit] != LabelIndex::kUnknown) match.to[found[unit]] = Column(unit);
  } else {
    match.to = found;
  }
  match.unknown = std::ranges::count(match.to, LabelIndex::kUnknown);
  return match;
}

}  // namespace norn
