// SPDX-License-Identifier: Apache-2.0
// EASE: from the entries of a data set to a network's weights.
#include "src/engine/train/ease.h"

#include "kernels/symmetric_inverse.h"
#include "norn/base/error.h"
#include "src/engine/model/model_parts.h"
#include "src/engine/train/device_inverse.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr Index kReadEntries = Index(1) << 22;  // about, at a time
constexpr Index kItems = 16;                    // whose sums a task makes
constexpr Index kRows = 64;                     // that a task fills
constexpr Index kProbeItems = 1024;             // of which large inverses are no faster
constexpr Index kDeviceProbeItems = 4096;       // fewer say more of launches than of products
constexpr int kProbes = 2;
constexpr double kLeastSeconds = 1e-6;  // that a clock can tell

double invert(Executor& lanes, const Compute& compute, bool on_device, MatrixView<double> a) {
  return on_device ? invert_on_device(lanes, compute, a) : invert_symmetric(lanes, a);
}

std::vector<Index> range(Index first, Index end) {
  std::vector<Index> numbers(std::size_t(end - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

void require_alike(bool alike, const Dataset& target, Index example) {
  if (!alike)
    throw DataError(fmt::format(
        "{}: example {} is not what the input has, and EASE predicts from an example what the same "
        "example has; give the inputs as targets, too, or use `recipe` sigmoid",
        place(target.info()), example));
}

// Columns ascend on both sides. What has the value 0 in the input may be in the target or not.
void compare_row(const CsrView& x, const CsrView& t, Index row, const Dataset& target,
                 Index example) {
  RowOffset i = x.row_begin[row];
  const RowOffset end = x.row_begin[row + 1];
  const auto skip_before = [&](Column column, bool any) {
    for (; i < end && (any || x.column[i] < column); ++i) {
      const bool again = i > x.row_begin[row] && x.column[i] == x.column[i - 1];
      require_alike(again || (x.value && x.value[i] == 0.0f), target, example);
    }
  };
  for (RowOffset j = t.row_begin[row]; j < t.row_begin[row + 1]; ++j) {
    skip_before(t.column[j], false);
    require_alike(i < end && x.column[i] == t.column[j], target, example);
    ++i;
  }
  skip_before(0, true);
}

// Runs of examples with about so many entries.
Index examples_at_a_time(const Dataset& set) {
  const DatasetInfo& info = set.info();
  const Index each =
      std::max<Index>(1, set.row_entries() / std::max<Index>(1, info.unique_examples));
  return std::max<Index>(1, kReadEntries / each);
}

std::string in_network(const std::string& where, const std::string& what) {
  return fmt::format(
      "{}: \"Method\": \"Ease\" {}; `recipe` ease makes such a network: see it with `print_recipe`",
      where, what);
}

}  // namespace

void require_ease(const NetworkDescriptor& network, const std::string& where) {
  const auto need = [&](bool holds, const char* what) {
    if (!holds) throw UsageError(in_network(where, what));
  };
  need(network.layers.size() == 2, "needs one Input and one Output layer");
  const LayerDescriptor& input = network.layers.front();
  const LayerDescriptor& output = network.layers.back();
  need(input.kind == LayerKind::input && input.sparse, "needs a sparse Input layer");
  need(input.normalize == InputNormalization::none &&
           std::holds_alternative<NoWeighting>(input.input_weighting),
       "reads data as they are: without Normalize and InputWeighting");
  const Activation* activation = std::get_if<Activation>(&output.activation);
  need(
      output.kind == LayerKind::output && activation && std::holds_alternative<Linear>(*activation),
      "needs an Output layer with the Activation Linear");
  need(!output.entry_weights.is_on(), "counts every entry once: without EntryWeights");
  need(!output.batch_normalization && output.shared_weights.empty() && output.skips.empty(),
       "needs an Output layer with weights alone");
  if (!(network.training.lambda > 0.0f))
    throw UsageError(
        fmt::format("`lambda` {} is out of range: of EASE it must be above 0; leave it out, and it "
                    "follows from "
                    "the data",
                    network.training.lambda));
}

EaseMemory ease_memory(Index items, RowOffset entries) {
  // The values, numbers and offsets of both orders; and the inverse's panel.
  return {items * (items + 512) * Index(sizeof(double)), 2 * entries * 8 + 16 * items};
}

Index most_ease_items(std::int64_t bytes, RowOffset entries, bool network_in_main_memory) {
  const double free = double(bytes - ease_memory(0, entries).entries_bytes);
  const double each = network_in_main_memory ? 12.0 : 8.0;
  // each n^2 + (512 * 8 + 16) n = free
  const double linear = (512.0 * 8.0 + 16.0) / each / 2.0;
  return free <= 0.0 ? 0 : Index(std::sqrt(linear * linear + free / each) - linear);
}

EaseData::EaseData(Dataset& input, Dataset& target, Index items) : items_(items) {
  for (const Dataset* set : {&input, &target})
    if (set->info().weighted)
      throw UsageError(
          fmt::format("{}: its examples have weights, and EASE counts every example once; leave "
                      "the weights out, or use `recipe` sigmoid",
                      place(set->info())));
  const Index examples = input.info().examples, part = examples_at_a_time(input);
  HostBatch x, t;
  for (Index first = 0; first < examples; first += part) {
    const std::vector<Index> numbers = range(first, std::min(first + part, examples));
    input.gather(numbers, x);
    if (&target != &input) target.gather(numbers, t);
    add(x.csr());
    for (Index r = 0; &target != &input && r < Index(numbers.size()); ++r)
      compare_row(x.csr(), t.csr(), r, target, numbers[std::size_t(r)]);
  }
  transpose();
}

void EaseData::add(const CsrView& rows) {
  const RowOffset before = user_begin_.back();
  for (Index r = 0; r < rows.rows; ++r)
    user_begin_.push_back(before + rows.row_begin[r + 1] - rows.row_begin[0]);
  const RowOffset begin = rows.row_begin[0], end = rows.row_begin[rows.rows];
  item_.insert(item_.end(), rows.column + begin, rows.column + end);
  if (rows.value) value_.insert(value_.end(), rows.value + begin, rows.value + end);
}

void EaseData::transpose() {
  item_begin_.assign(std::size_t(items_) + 1, 0);
  for (const Column item : item_) ++item_begin_[std::size_t(item) + 1];
  std::partial_sum(item_begin_.begin(), item_begin_.end(), item_begin_.begin());
  std::vector<RowOffset> at(item_begin_.begin(), item_begin_.end() - 1);
  user_.resize(item_.size());
  by_item_.resize(value_.size());
  for (std::size_t user = 0; user + 1 < user_begin_.size(); ++user)
    for (RowOffset e = user_begin_[user]; e < user_begin_[user + 1]; ++e) {
      const auto to = std::size_t(at[item_[std::size_t(e)]]++);
      user_[to] = Column(user);
      if (!value_.empty()) by_item_[to] = value_[std::size_t(e)];
    }
}

void EaseData::gram(Executor& executor, double lambda, MatrixView<double> gram) const {
  const auto sum = [&](Index i) {
    double* row = gram.row(i);
    std::fill_n(row, i + 1, 0.0);
    for (RowOffset k = item_begin_[std::size_t(i)]; k < item_begin_[std::size_t(i) + 1]; ++k) {
      const std::size_t user = user_[std::size_t(k)];
      const auto first = std::size_t(user_begin_[user]), end = std::size_t(user_begin_[user + 1]);
      if (value_.empty()) {
        for (std::size_t e = first; e < end && Index(item_[e]) <= i; ++e) row[item_[e]] += 1.0;
        continue;
      }
      const double value = by_item_[std::size_t(k)];
      for (std::size_t e = first; e < end && Index(item_[e]) <= i; ++e)
        row[item_[e]] += value * double(value_[e]);
    }
    row[i] += lambda;
  };
  executor.for_ranges(items_, kItems, [&](Index begin, Index end, int) {
    for (Index i = begin; i < end; ++i) sum(i);
  });
}

Matrix<double> ease_inverse(const EaseData& data, double lambda, Executor& lanes,
                            const Compute& compute) {
  Matrix<double> matrix(data.items(), data.items());
  const MatrixView<double> p = matrix.view();
  data.gram(lanes, lambda, p);
  if (!(invert(lanes, compute, inverts_on_device(compute.memory, p.rows), p) > 0.0))
    throw UsageError(fmt::format(
        "`lambda` {:g} is too small for these data: their Gram matrix has no inverse in float64; "
        "give a larger one, or leave it out, and it follows from the data",
        lambda));
  return matrix;
}

double measure_ease_rate(Index items, Executor& lanes, const Compute& compute) {
  const bool on_device = inverts_on_device(compute.memory, items);
  const Index n = std::clamp<Index>(items, 1, on_device ? kDeviceProbeItems : kProbeItems);
  Matrix<double> matrix(n, n);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProbes; ++i) {  // the first also touches the memory
    const MatrixView<double> a = matrix.view();
    for (Index r = 0; r < n; ++r) {
      std::fill_n(a.row(r), n, 1.0);
      a(r, r) = double(n);
    }
    const auto began = std::chrono::steady_clock::now();
    invert(lanes, compute, on_device, a);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    least = std::min(least, took.count());
  }
  return double(n) * double(n) * double(n) / std::max(least, kLeastSeconds);
}

void set_ease_weights(const Matrix<double>& inverse, const std::vector<double>& factors,
                      Executor& executor, Network& network, int edge) {
  const auto p = inverse.view();
  std::vector<double> scale(std::size_t(p.rows), 0.0);
  for (Index j = 0; j < p.rows; ++j) scale[std::size_t(j)] = -1.0 / p(j, j);
  scatter_rows(network, edge, 0, [&](Index first, MatrixView<float> rows) {
    executor.for_ranges(rows.rows, kRows, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) {
        const double factor = factors.empty() ? 1.0 : factors[std::size_t(first + r)];
        for (Index c = 0; c < rows.cols; ++c)
          rows(r, c) =
              c == first + r ? 0.0f : float(factor * p(first + r, c) * scale[std::size_t(c)]);
      }
    });
  });
}

}  // namespace norn
