// SPDX-License-Identifier: Apache-2.0
// Holding back examples or entries, drawn with counter-based random numbers.

#include "src/data/hold_out.h"

#include "norn/base/error.h"
#include "src/base/philox.h"
#include "stored_dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

/// Streams within RandomPurpose::validation.
enum Stream : std::uint32_t { kExamples = 0, kRounding = 1, kEntries = 2 };

/// How many of an example's `candidates` are held back. One stays known, and of a held-back example
/// with two or more at least one is sought.
Index sought_of(const HoldOutRule& rule, Index example, Index candidates) {
  if (candidates < 2) return 0;
  const bool by_user = rule.by == HoldOutBy::user;
  // A random offset rounds: shares are right on average even for short rows.
  const double offset =
      Philox::stream(rule.seed, RandomPurpose::validation, kRounding).uniform(example, 0);
  const auto count =
      Index(std::floor(double(candidates) * (by_user ? kSoughtOfUser : rule.share) + offset));
  return std::clamp<Index>(count, by_user ? 1 : 0, candidates - 1);
}

/// The entries that are held back from the examples of a batch, worked out once for all views.
class HeldBack {
 public:
  HeldBack(const HoldOutRule& rule, const std::vector<HoldOutSet>& sets, std::size_t target)
      : rule_(rule), sets_(sets), target_(target), batches_(sets.size()) {}

  /// Whether entries are held back from a set.
  bool concerns(std::size_t number) const {
    const DatasetInfo& info = sets_[number].set->info();
    const DatasetInfo& target = sets_[target_].set->info();
    return info.shares_units_with(target);
  }

  /// Gathers these examples of all sets that are concerned, and chooses.
  void choose(std::span<const Index> examples) {
    if (std::ranges::equal(examples, examples_)) return;
    examples_.clear();  // until all is known
    for (std::size_t i = 0; i < sets_.size(); ++i)
      if (concerns(i)) sets_[i].set->gather(examples, batches_[i]);
    begin_.assign(1, 0);
    column_.clear();
    for (std::size_t r = 0; r < examples.size(); ++r) {
      choose_row(examples[r], Index(r));
      begin_.push_back(column_.size());
    }
    examples_.assign(examples.begin(), examples.end());
  }
  const HostBatch& batch(std::size_t number) const { return batches_[number]; }
  /// Ascending.
  std::span<const Column> row(Index r) const {
    const std::size_t from = begin_[std::size_t(r)];
    return {column_.data() + from, begin_[std::size_t(r) + 1] - from};
  }

 private:
  static std::span<const Column> row_of(const HostBatch& batch, Index r) {
    const CsrView csr = batch.csr();
    return {csr.column + csr.row_begin[r], std::size_t(csr.row_begin[r + 1] - csr.row_begin[r])};
  }

  // What may be held back: by entry the targets; of a held-back example those that its inputs
  // hold, too, because what they do not hold is sought anyway.
  void choose_row(Index example, Index r) {
    known_.clear();
    if (rule_.by == HoldOutBy::user)
      for (std::size_t i = 0; i < sets_.size(); ++i)
        if (sets_[i].is_input && concerns(i)) {
          const std::span<const Column> row = row_of(batches_[i], r);
          known_.insert(known_.end(), row.begin(), row.end());
        }
    std::ranges::sort(known_);
    const Philox random = Philox::stream(rule_.seed, RandomPurpose::validation, kEntries);
    const std::span<const Column> targets = row_of(batches_[target_], r);
    drawn_.clear();
    for (std::size_t p = 0; p < targets.size(); ++p)
      if (rule_.by == HoldOutBy::entry || std::ranges::binary_search(known_, targets[p]))
        drawn_.emplace_back(random.word(std::uint64_t(example), p), targets[p]);
    const Index count = sought_of(rule_, example, Index(drawn_.size()));
    std::nth_element(drawn_.begin(), drawn_.begin() + count, drawn_.end());
    const std::size_t first = column_.size();
    for (Index i = 0; i < count; ++i) column_.push_back(drawn_[std::size_t(i)].second);
    std::sort(column_.begin() + std::ptrdiff_t(first), column_.end());
  }

  HoldOutRule rule_;
  std::vector<HoldOutSet> sets_;
  std::size_t target_;
  std::vector<Index> examples_;  // of the batch at hand
  std::vector<HostBatch> batches_;
  std::vector<std::size_t> begin_ = {0};
  std::vector<Column> column_;
  std::vector<Column> known_;
  std::vector<std::pair<std::uint32_t, Column>> drawn_;
};

using ExampleList = std::shared_ptr<const std::vector<Index>>;

/// A set with some of its examples, or without the entries that are held back.
class HeldOutView final : public Dataset {
 public:
  /// `examples`: null for all. `held_back`: null to leave entries as they are.
  HeldOutView(std::shared_ptr<Dataset> set, std::size_t number, ExampleList examples,
              std::shared_ptr<HeldBack> held_back)
      : Dataset(set->info()),
        set_(std::move(set)),
        number_(number),
        chosen_(std::move(examples)),
        held_back_(std::move(held_back)) {
    if (chosen_) info_.examples = Index(chosen_->size());
    info_.unique_examples = info_.examples;
    info_.indexed = false;
    if (!info_.gives_sparse_batches()) return;
    HostBatch all;
    std::vector<Index> examples_of_view(std::size_t(info_.examples));
    std::iota(examples_of_view.begin(), examples_of_view.end(), Index(0));
    locate(examples_of_view, all);
    info_.entries = all.entries;
  }

  void gather(std::span<const Index> examples, HostBatch& batch) override {
    const std::span<const Index> inner = numbers_of(examples);
    if (!held_back_) return set_->gather(inner, batch);
    held_back_->choose(inner);
    copy_known(held_back_->batch(number_), batch);
  }

  void locate(std::span<const Index> examples, HostBatch& batch) override {
    set_->locate(numbers_of(examples), batch);
    batch.row.assign(examples.begin(), examples.end());
  }

  void read_rows(Index first, Index count, HostBatch& batch) override {
    std::vector<Index> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), first);
    gather(rows, batch);
  }

  RowOffset row_entries() const override { return info_.entries; }

 private:
  std::span<const Index> numbers_of(std::span<const Index> examples) {
    if (!chosen_) return examples;
    inner_.clear();
    for (const Index example : examples) {
      if (example < 0 || example >= info_.examples)
        throw ShapeError(
            fmt::format("data set \"{}\": example {} was asked for, the part has 0 to "
                        "{}",
                        info_.name, example, info_.examples - 1));
      inner_.push_back((*chosen_)[std::size_t(example)]);
    }
    return inner_;
  }

  void copy_known(const HostBatch& from, HostBatch& batch) const {
    batch.examples = from.examples;
    batch.width = from.width;
    batch.is_sparse = true;
    batch.weight = from.weight;
    batch.example = from.example;
    batch.stored = nullptr;
    const CsrView x = from.csr();
    CsrBuffer& csr = batch.sparse;
    csr.rows = x.rows;
    csr.cols = x.cols;
    csr.has_values = x.value != nullptr;
    reserve(csr.row_begin, csr.rows + 1);
    reserve(csr.column, Index(x.entries()));
    if (csr.has_values) reserve(csr.value, Index(x.entries()));
    RowOffset to = 0;
    csr.row_begin.data()[0] = 0;
    for (Index r = 0; r < x.rows; ++r) {
      const std::span<const Column> out = held_back_->row(r);
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        if (std::ranges::binary_search(out, x.column[i])) continue;
        csr.column.data()[to] = x.column[i];
        if (csr.has_values) csr.value.data()[to] = x.value[i];
        ++to;
      }
      csr.row_begin.data()[r + 1] = to;
    }
  }

  std::shared_ptr<Dataset> set_;
  std::size_t number_;
  ExampleList chosen_;
  std::shared_ptr<HeldBack> held_back_;
  std::vector<Index> inner_;
};

/// The examples to train on and those that are held back, each ascending.
std::pair<ExampleList, ExampleList> choose_examples(const HoldOutRule& rule, Index examples) {
  const auto count = std::clamp<Index>(Index(std::llround(double(examples) * rule.share)), 1,
                                       std::max<Index>(1, examples - 1));
  if (examples < 2)
    throw UsageError(
        fmt::format("validation by user: {} example cannot be shared out; give more data, or "
                    "validate by entry",
                    examples));
  const Philox random = Philox::stream(rule.seed, RandomPurpose::validation, kExamples);
  std::vector<std::pair<std::uint64_t, Index>> drawn;
  drawn.reserve(std::size_t(examples));
  for (Index e = 0; e < examples; ++e) {
    const Philox::Block block = random.block(std::uint64_t(e), 0);
    drawn.emplace_back((std::uint64_t(block.word[0]) << 32) | block.word[1], e);
  }
  std::nth_element(drawn.begin(), drawn.begin() + count, drawn.end());
  const auto take = [&](Index from, Index to) {
    std::vector<Index> list;
    for (Index i = from; i < to; ++i) list.push_back(drawn[std::size_t(i)].second);
    std::ranges::sort(list);
    return std::make_shared<const std::vector<Index>>(std::move(list));
  };
  return {take(count, examples), take(0, count)};
}

}  // namespace

HeldOutViews hold_out(const HoldOutRule& rule, const std::vector<HoldOutSet>& sets,
                      std::size_t target) {
  require(target < sets.size(), "hold_out: the target is one of the sets");
  require(rule.share > 0.0 && rule.share < 1.0, "hold_out: a share between 0 and 1");
  const bool by_entry = rule.by == HoldOutBy::entry;
  ExampleList trained, validated;
  if (!by_entry)
    std::tie(trained, validated) = choose_examples(rule, sets[target].set->info().examples);
  const auto held_back = std::make_shared<HeldBack>(rule, sets, target);
  const auto view = [&](std::size_t i, const ExampleList& examples, bool without) {
    return std::make_unique<HeldOutView>(sets[i].set, i, examples,
                                         without && held_back->concerns(i) ? held_back : nullptr);
  };
  HeldOutViews views;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    views.training.push_back(view(i, trained, by_entry));
    views.validation.push_back(view(i, validated, sets[i].is_input));
  }
  if (by_entry) views.trained_targets = view(target, nullptr, true);
  return views;
}

}  // namespace norn
