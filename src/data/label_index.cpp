// SPDX-License-Identifier: Apache-2.0
// A hash table of labels by linear probing, its labels in large blocks.

#include "norn/data/label_index.h"

#include "norn/base/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t(1) << 20;
constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kGroup = 32;  // labels looked up together
static_assert(LabelIndex::kLongestLabel == std::numeric_limits<std::uint16_t>::max());

/// The two halves of a 128-bit product, folded: every bit of the operands reaches the result.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return std::uint64_t(product) ^ std::uint64_t(product >> 64);
}

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

/// Multiplicative hashing of eight bytes at a time.
std::uint64_t hash_of(std::string_view label) {
  constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15ull, kOdd2 = 0xBF58476D1CE4E5B9ull;
  std::uint64_t hash = label.size() * kOdd1;
  const char* at = label.data();
  std::size_t left = label.size();
  for (; left >= 8; at += 8, left -= 8) hash = fold(hash ^ load(at, 8), kOdd2);
  if (left > 0) hash = fold(hash ^ load(at, left), kOdd2);
  return fold(hash ^ kOdd2, kOdd1);
}

}  // namespace

LabelIndex::LabelIndex() : slots_(kFirstSlots) {}

const char* LabelIndex::bytes_of(std::uint64_t position) const {
  return blocks_[position / kBlockBytes].get() + position % kBlockBytes;
}

std::string_view LabelIndex::label(Index number) const {
  const char* const at = bytes_of(position_[std::size_t(number)]);
  std::uint16_t size = 0;
  std::memcpy(&size, at, sizeof(size));
  return {at + sizeof(size), size};
}

/// The label's slot, or the free one where it belongs.
std::size_t LabelIndex::slot_of(std::string_view label_text, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  const auto tag = std::uint32_t(hash >> 32);
  while (true) {
    const Slot& at = slots_[slot];
    if (at.number_plus_one == 0) return slot;
    if (at.hash == tag && label(Index(at.number_plus_one) - 1) == label_text) return slot;
    slot = (slot + 1) & mask;
  }
}

std::optional<Index> LabelIndex::find(std::string_view label) const {
  const Slot& slot = slots_[slot_of(label, hash_of(label))];
  if (slot.number_plus_one == 0) return std::nullopt;
  return Index(slot.number_plus_one) - 1;
}

Index LabelIndex::add(std::string_view label) {
  return insert(label, hash_of(label));
}

Index LabelIndex::insert(std::string_view label, std::uint64_t hash) {
  std::size_t slot = slot_of(label, hash);
  if (slots_[slot].number_plus_one != 0) return Index(slots_[slot].number_plus_one) - 1;
  if (label.size() > kLongestLabel) {
    throw DataError(fmt::format("the label beginning \"{}\" has {} bytes, more than {}; shorten it",
                                label.substr(0, 40), label.size(), kLongestLabel));
  }
  if (position_.size() >= kUnknown - 1) {
    throw DataError("more than 4,294,967,294 labels; columns have 32 bits");
  }
  if (position_.size() * 3 >= slots_.size() * 2) {
    grow(slots_.size() * 2);
    slot = slot_of(label, hash);
  }
  position_.push_back(store(label));
  slots_[slot] = {std::uint32_t(hash >> 32), std::uint32_t(position_.size())};
  return size() - 1;
}

/// Hashes a group of labels and begins to fetch what their look-up needs. It waits for its slot,
/// then for the label's position, then for its bytes: three rounds.
void LabelIndex::prefetch(std::span<const std::string_view> labels, std::uint64_t* hashes) const {
  std::array<std::uint32_t, kGroup> guess;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    hashes[i] = hash_of(labels[i]);
    __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    guess[i] = slots_[hashes[i] & (slots_.size() - 1)].number_plus_one;
    if (guess[i] != 0) __builtin_prefetch(&position_[guess[i] - 1]);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (guess[i] != 0) __builtin_prefetch(bytes_of(position_[guess[i] - 1]));
  }
}

void LabelIndex::number_all(std::span<const std::string_view> labels, Absent absent,
                            std::vector<Column>& numbers) {
  const std::size_t before = numbers.size();
  numbers.resize(before + labels.size());
  const std::span<Column> found = std::span(numbers).subspan(before);
  if (absent == Absent::report) return find_all(labels, found);
  std::array<std::uint64_t, kGroup> hash;
  for (std::size_t first = 0; first < labels.size(); first += kGroup) {
    const auto group = labels.subspan(first, std::min(kGroup, labels.size() - first));
    prefetch(group, hash.data());
    for (std::size_t i = 0; i < group.size(); ++i)
      found[first + i] = Column(insert(group[i], hash[i]));
  }
}

void LabelIndex::find_all(std::span<const std::string_view> labels,
                          std::span<Column> numbers) const {
  std::array<std::uint64_t, kGroup> hash;
  for (std::size_t first = 0; first < labels.size(); first += kGroup) {
    const auto group = labels.subspan(first, std::min(kGroup, labels.size() - first));
    prefetch(group, hash.data());
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Slot& slot = slots_[slot_of(group[i], hash[i])];
      numbers[first + i] = slot.number_plus_one == 0 ? kUnknown : slot.number_plus_one - 1;
    }
  }
}

void LabelIndex::reserve(Index labels) {
  position_.reserve(std::size_t(labels));
  const std::size_t slots = std::bit_ceil(std::size_t(labels) * 3 / 2 + 1);
  if (slots > slots_.size()) grow(slots);
}

/// A power of two of slots. Labels are hashed again: a slot keeps only half of the hash.
void LabelIndex::grow(std::size_t slots) {
  std::vector<Slot>(slots).swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (Index number = 0; number < size(); ++number) {
    const std::uint64_t hash = hash_of(label(number));
    std::size_t slot = hash & mask;
    while (slots_[slot].number_plus_one != 0) slot = (slot + 1) & mask;
    slots_[slot] = {std::uint32_t(hash >> 32), std::uint32_t(number + 1)};
  }
}

std::uint64_t LabelIndex::store(std::string_view label) {
  const std::uint64_t bytes = label.size() + sizeof(std::uint16_t);
  if (blocks_.empty() || used_ % kBlockBytes + bytes > kBlockBytes || used_ % kBlockBytes == 0) {
    used_ = blocks_.size() * kBlockBytes;
    blocks_.push_back(std::make_unique<char[]>(kBlockBytes));
  }
  char* const at = blocks_.back().get() + used_ % kBlockBytes;
  const auto size = std::uint16_t(label.size());
  std::memcpy(at, &size, sizeof(size));
  std::copy(label.begin(), label.end(), at + sizeof(size));
  const std::uint64_t position = used_;
  used_ += bytes;
  return position;
}

}  // namespace norn
