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
#include <optional>
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
constexpr std::size_t kUnpackedTogether = std::size_t(1) << 16;  // bytes
constexpr std::int64_t kUsualRatio = 32;  // of lines and what they are compressed to, at most
constexpr Index kFewestPacked = 8;        // bytes of a label, about, where memory is reserved
constexpr std::size_t kDigits = 64;       // of a SHA-256

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

/// Unpacks the lines of a file's labels piece by piece, and counts them before anybody has memory
/// for more than the file says there are.
class Unpacker {
 public:
  Unpacker(const LabelTable::Stored& stored, const std::string& where)
      : stored_(stored), where_(where), packed_(stored.packed) {
    if (inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// Calls take(lines), each of them whole, until all were taken.
  template <typename Take>
  void run(const Take& take) {
    while (!ended_) {
      unpack_some();
      const std::size_t end = lines_.rfind('\n') + 1;  // 0: there is none
      check(std::string_view(lines_).substr(0, end));
      if (end > 0) take(std::string_view(lines_).substr(0, end));
      lines_.erase(0, end);
      if (lines_.size() > LabelIndex::kLongestLabel) fail_length();
    }
    if (!packed_.empty() || stream_.avail_in > 0)
      fail_damaged(where_, ": other bytes follow their end");
    if (!lines_.empty() || count_ != stored_.count || bytes_ != stored_.line_bytes)
      fail_damaged(where_);
  }

 private:
  [[noreturn]] void fail_length() const {
    fail_damaged(where_, fmt::format(": one has more than {} bytes", LabelIndex::kLongestLabel));
  }

  void unpack_some() {
    if (stream_.avail_in == 0) {
      const auto part = packed_.first(std::min(packed_.size(), kLinesTogether));
      packed_ = packed_.subspan(part.size());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
      stream_.avail_in = uInt(part.size());
    }
    const std::size_t before = lines_.size();
    lines_.resize(before + kUnpackedTogether);
    stream_.next_out = reinterpret_cast<Bytef*>(lines_.data() + before);
    stream_.avail_out = uInt(kUnpackedTogether);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    ended_ = result == Z_STREAM_END;
    // Without input and output there is no progress, which the file is too short for.
    if (result != Z_OK && !ended_) fail_damaged(where_);
    lines_.resize(before + kUnpackedTogether - stream_.avail_out);
    bytes_ += std::int64_t(lines_.size() - before);
    if (bytes_ > stored_.line_bytes)
      fail_damaged(where_, fmt::format(": they have more than {} bytes", stored_.line_bytes));
    if (std::string_view(lines_).substr(before).find('\0') != std::string_view::npos)
      fail_damaged(where_, ": one has a byte of zero");
  }

  void check(std::string_view lines) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      if (end - begin > LabelIndex::kLongestLabel) fail_length();
      if (++count_ > stored_.count)
        fail_damaged(where_, fmt::format(": they are more than {}", stored_.count));
      begin = end + 1;
    }
  }

  const LabelTable::Stored& stored_;
  const std::string& where_;
  std::span<const char> packed_;  // what zlib has not been given
  z_stream stream_{};
  std::string lines_;  // the last of them has no end yet
  Index count_ = 0;
  std::int64_t bytes_ = 0;
  bool ended_ = false;
};

/// Of whole lines, the numbers of the labels before them being `count`.
void add_lines(std::string_view lines, const std::string& where, LabelIndex& index) {
  std::vector<std::string_view> labels;
  std::vector<Column> numbers;
  while (!lines.empty()) {
    const Index before = index.size();
    labels.clear();
    while (!lines.empty() && Index(labels.size()) < kLabelsTogether) {
      labels.push_back(lines.substr(0, lines.find('\n')));
      lines.remove_prefix(labels.back().size() + 1);
    }
    numbers.clear();
    index.number_all(labels, LabelIndex::Absent::add, numbers);
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (Index(numbers[i]) != before + Index(i))
        throw DataError(
            fmt::format("{}: the label {} of feature {} is that of feature {}, too; import again",
                        where, excerpt(labels[i]), before + Index(i), numbers[i]));
  }
}

/// What a file holds, as an index; its lines are added to a sum, where there is one.
LabelIndex unpacked_index(const LabelTable::Stored& stored, const std::string& where,
                          Sha256* sum = nullptr) {
  LabelIndex index;
  index.reserve(std::clamp<Index>(stored.count, 0, Index(stored.packed.size()) / kFewestPacked));
  Unpacker(stored, where).run([&](std::string_view some) {
    if (sum) sum->add(some);
    add_lines(some, where, index);
  });
  return index;
}

}  // namespace

std::optional<Column> number_named(std::string_view label) {
  Column number = 0;
  const auto read = std::from_chars(label.data(), label.data() + label.size(), number);
  if (read.ec != std::errc() || read.ptr != label.data() + label.size()) return std::nullopt;
  return label.front() == '0' && label.size() > 1 ? std::nullopt : std::optional(number);
}

LabelList::LabelList(std::string lines) : lines_(std::move(lines)), begin_{0} {
  begin_.reserve(std::size_t(std::ranges::count(lines_, '\n')) + 1);
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
    if (const std::size_t at = label.find_first_of(std::string_view("\n\0", 2));
        at != std::string_view::npos)
      throw DataError(
          fmt::format("the label {} of number {} has a {}, which a label may not; rename it",
                      excerpt(label), number, label[at] == '\n' ? "line feed" : "byte of zero"));
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
  // Many of the same, as likely as not: an index stops at the first that is there twice.
  if (state_->stored.line_bytes / kUsualRatio > std::int64_t(state_->stored.packed.size())) index();
  std::string lines;
  Unpacker(state_->stored, state_->where).run([&](std::string_view some) { lines += some; });
  return LabelList(std::move(lines));
}

LabelIndex LabelTable::index() const {
  require(has_words(), "LabelTable::index: the labels are not there");
  if (!are_numbers()) return unpacked_index(state_->stored, state_->where);
  LabelIndex index;
  add_lines(lines_of_numbers(size()), state_->where, index);
  return index;
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
  Sha256 sum;
  unpacked_index(stored, where, &sum);
  if (sum.hex() != stored.sha256)
    fail_damaged(where,
                 fmt::format(": their SHA-256 is {:.8}, expected {:.8}", sum.hex(), stored.sha256));
}

namespace {

/// Nothing is as long as a table of numbers, which a few bytes of a file make as long as they like.
void match_numbers(const LabelTable& features, const LabelTable& units, UnitMatch& match) {
  const Index count = features.size();
  if (units.are_numbers()) {
    match.same_below = std::min(count, units.size());
    match.unknown = count - match.same_below;
    return;
  }
  const LabelList words = units.list();
  for (Index unit = 0; unit < words.size(); ++unit)
    if (const auto feature = number_named(words[unit]); feature && Index(*feature) < count)
      match.others.emplace_back(*feature, Column(unit));
  std::ranges::sort(match.others);
  match.unknown = count - Index(match.others.size());
}

}  // namespace

UnitMatch match_units(const LabelTable& features, const LabelTable& units) {
  require(features.has_words() && units.has_words(), "match_units: both need their labels");
  UnitMatch match;
  match.units = units;
  if (features.are_numbers()) {
    match_numbers(features, units, match);
    return match;
  }
  const Index count = features.size();
  if (units.are_numbers()) {
    const LabelList words = features.list();
    for (Index feature = 0; feature < count; ++feature) {
      const auto unit = number_named(words[feature]);
      match.to.push_back(unit && Index(*unit) < units.size() ? *unit : LabelIndex::kUnknown);
    }
    match.unknown = std::ranges::count(match.to, LabelIndex::kUnknown);
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
