// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

/// Names of features and examples, and their numbers.
namespace norn {

/// Labels numbered from 0 in the order in which they were added. Compact enough for tens of
/// millions: the bytes of a label and about 25 bytes besides.
class LabelIndex {
 public:
  LabelIndex();
  LabelIndex(LabelIndex&&) noexcept = default;
  LabelIndex& operator=(LabelIndex&&) noexcept = default;

  Index size() const { return Index(position_.size()); }
  bool empty() const { return position_.empty(); }
  /// Makes room for that many labels.
  void reserve(Index labels);
  std::optional<Index> find(std::string_view label) const;
  static constexpr std::size_t kLongestLabel = 65'535;  ///< bytes
  /// The label's number; it gets the next one when it is new. Throws DataError for a label of more
  /// than kLongestLabel bytes.
  Index add(std::string_view label);
  static constexpr Column kUnknown = 0xffffffff;
  enum class Absent { add, report };
  /// The numbers of several labels, appended to `numbers`; faster than one by one, because the
  /// memory that they need is fetched for many at a time. A label that is absent is added, or
  /// reported as kUnknown.
  void number_all(std::span<const std::string_view> labels, Absent absent,
                  std::vector<Column>& numbers);
  /// The numbers of several labels, kUnknown for those that are absent. Several threads may ask.
  void find_all(std::span<const std::string_view> labels, std::span<Column> numbers) const;
  /// The view stays valid as long as the index lives.
  std::string_view label(Index number) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number_plus_one = 0;  // 0: free
  };
  std::size_t slot_of(std::string_view label, std::uint64_t hash) const;
  void prefetch(std::span<const std::string_view> labels, std::uint64_t* hashes) const;
  const char* bytes_of(std::uint64_t position) const;
  Index insert(std::string_view label, std::uint64_t hash);
  void grow(std::size_t slots);
  std::uint64_t store(std::string_view label);

  // A label is two bytes of length and its bytes; blocks never move.
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::uint64_t used_ = 0;               // bytes of all blocks
  std::vector<std::uint64_t> position_;  // by number
  std::vector<Slot> slots_;              // open addressing, a power of two of them
};

enum class LabelBytes {
  utf8,  ///< of text that is imported
  any    ///< also of models and indexes of old files, some of which have others
};

/// Reads `label<TAB>number` lines in any order. The numbers must be 0 to n - 1, each once. Throws
/// DataError naming file and line.
LabelIndex read_label_index(const std::filesystem::path& path, LabelBytes bytes = LabelBytes::any);
/// Writes a file that is complete or absent, in the order of the numbers.
void write_label_index(const std::filesystem::path& path, const LabelIndex& index);

}  // namespace norn
