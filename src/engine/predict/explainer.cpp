// SPDX-License-Identifier: Apache-2.0
// Leaving out entries: rows of changed examples are predicted in batches of any mixture, since a
// row's scores do not depend on its company.
#include "src/engine/predict/explainer.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

namespace norn {
namespace {

template <typename T>
void grow(Buffer<T>& buffer, Index size) {
  if (buffer.size() < size) buffer = Buffer<T>(size);
}

template <typename T>
void take(const std::vector<T>& from, Index example, std::vector<T>& to) {
  if (!from.empty()) to.push_back(from[std::size_t(example)]);
}

// What is no number is larger than all.
float size_of(const EntryEffect& one) {
  return std::isnan(one.effect) ? std::numeric_limits<float>::infinity() : std::abs(one.effect);
}

bool comes_first(const EntryEffect& a, const EntryEffect& b) {
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b);
  return a.input != b.input ? a.input < b.input : a.unit < b.unit;
}

}  // namespace

void require_entries(const NetworkDescriptor& network, const std::vector<DatasetShape>& shapes) {
  std::vector<std::string> dense;
  for (const LayerDescriptor& layer : network.layers) {
    if (layer.kind != LayerKind::input) continue;
    const auto shape = std::ranges::find(shapes, layer.dataset, &DatasetShape::name);
    if (shape != shapes.end() && shape->gives_sparse_batches) return;
    dense.push_back(fmt::format("\"{}\"", layer.name));
  }
  throw UsageError(
      fmt::format("the model's inputs are dense ({}): they have no entries that could be left out; "
                  "explanations are of sparse inputs",
                  join(dense)));
}

Explainer::Explainer(Network& network, int output_layer, Index most, Index most_scores)
    : network_(network), layer_(output_layer), most_(most), most_scores_(most_scores) {
  require(most >= 1, "Explainer: at least one effect must be kept");
  const std::vector<LayerDescriptor>& layers = network.descriptor().layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::input) continue;
    const auto same = std::ranges::find_if(inputs_, [&](int other) {
      return layers[std::size_t(other)].dataset == layers[i].dataset;
    });
    first_input_.push_back(int(same - inputs_.begin()));
    inputs_.push_back(int(i));
  }
  changed_.resize(inputs_.size());
}

std::vector<Explanation> Explainer::explain(const BoundBatch& batch, std::span<const Index> units) {
  require(batch.examples >= 1 && Index(units.size()) % batch.examples == 0,
          "Explainer: as many units for each example");
  Question question{batch, units, Index(units.size()) / batch.examples, {}};
  question.answers.resize(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) question.answers[i].unit = units[i];
  find_entries(batch);
  std::vector<Row> rows;
  std::set<Index> wanted;  // by the examples of these rows
  const auto answer_rows = [&] {
    if (rows.empty()) return;
    answer(question, rows, std::vector<Index>(wanted.begin(), wanted.end()));
    rows.clear();
    wanted.clear();
  };
  for (Index example = 0; example < batch.examples; ++example) {
    std::set<Index> asked(question.of(example).begin(), question.of(example).end());
    asked.erase(-1);
    if (asked.empty()) continue;
    for (Index entry = -1; entry < entries(example); ++entry) {
      const bool is_new = entry < 0 || rows.empty();
      const Index columns = Index(wanted.size() + (is_new ? asked.size() : 0));
      if (Index(rows.size()) == network_.batch() || Index(rows.size() + 1) * columns > most_scores_)
        answer_rows();
      if (entry < 0 || rows.empty()) wanted.insert(asked.begin(), asked.end());
      rows.push_back({example, entry});
    }
  }
  answer_rows();
  return std::move(question.answers);
}

// What an example has: a unit once, though several layers read it.
void Explainer::find_entries(const BoundBatch& batch) {
  entries_.clear();
  entry_begin_.assign(1, 0);
  for (Index example = 0; example < batch.examples; ++example) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const HostBatch* const input = batch.of_layer[std::size_t(inputs_[i])];
      if (!input || !input->is_sparse || first_input_[i] != int(i)) continue;
      const CsrView rows = input->csr();
      const std::span<const Column> columns(rows.column + rows.row_begin[example],
                                            rows.column + rows.row_begin[example + 1]);
      for (std::size_t at = 0; at < columns.size(); ++at)
        if (at == 0 || columns[at] != columns[at - 1]) entries_.push_back({int(i), columns[at]});
    }
    entry_begin_.push_back(Index(entries_.size()));
  }
}

Index Explainer::entries(Index example) const {
  return entry_begin_[std::size_t(example) + 1] - entry_begin_[std::size_t(example)];
}

const Explainer::Entry& Explainer::entry(Row row) const {
  return entries_[std::size_t(entry_begin_[std::size_t(row.example)] + row.entry)];
}

void Explainer::answer(Question& question, std::span<const Row> rows,
                       std::span<const Index> units) {
  const MatrixView<const float> found = scores(changed(question.batch, rows), units);
  for (Index r = 0; r < Index(rows.size()); ++r) {
    const Row row = rows[std::size_t(r)];
    const std::span<Explanation> answers =
        std::span(question.answers)
            .subspan(std::size_t(row.example * question.asked), std::size_t(question.asked));
    for (Explanation& one : answers) {
      if (one.unit < 0) continue;
      const float score = found(r, std::ranges::lower_bound(units, one.unit) - units.begin());
      if (row.entry < 0)
        one.score = score;
      else
        one.effects.push_back({entry(row).input, entry(row).unit, one.score - score});
      if (row.entry + 1 == entries(row.example)) keep_largest(one.effects);
    }
  }
}

void Explainer::keep_largest(std::vector<EntryEffect>& effects) const {
  const auto kept = std::min(effects.size(), std::size_t(most_));
  std::partial_sort(effects.begin(), effects.begin() + std::ptrdiff_t(kept), effects.end(),
                    comes_first);
  effects.resize(kept);
  effects.shrink_to_fit();
}

BoundBatch Explainer::changed(const BoundBatch& batch, std::span<const Row> rows) {
  BoundBatch all;
  all.examples = Index(rows.size());
  all.ignore_absent = batch.ignore_absent;
  all.of_layer.assign(batch.of_layer.size(), nullptr);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const HostBatch* const from = batch.of_layer[std::size_t(inputs_[i])];
    if (!from) continue;
    require(!from->stored && from->first == 0 && from->examples == batch.examples,
            "Explainer: the batch must hold its examples whole");
    HostBatch& to = changed_[i];
    to.examples = all.examples;
    to.width = from->width;
    to.is_sparse = from->is_sparse;
    to.weight.clear();
    to.example.clear();
    for (const Row row : rows) {
      take(from->weight, row.example, to.weight);
      take(from->example, row.example, to.example);
    }
    if (from->is_sparse) {
      leave_out(*from, rows, first_input_[i], to);
    } else {
      const MatrixView<const float> values = from->matrix();
      if (to.dense.rows() < to.examples) to.dense = Matrix<float>(network_.batch(), values.cols);
      for (Index r = 0; r < to.examples; ++r)
        std::copy_n(values.row(rows[std::size_t(r)].example), values.cols, to.dense.view().row(r));
    }
    all.of_layer[std::size_t(inputs_[i])] = &to;
  }
  return all;
}

void Explainer::leave_out(const HostBatch& from, std::span<const Row> rows, int input,
                          HostBatch& to) const {
  const CsrView whole = from.csr();
  Index entries = 0;
  for (const Row row : rows)
    entries += Index(whole.row_begin[row.example + 1] - whole.row_begin[row.example]);
  CsrBuffer& left = to.sparse;
  grow(left.row_begin, Index(rows.size()) + 1);
  grow(left.column, entries);
  left.has_values = whole.value != nullptr;
  if (left.has_values) grow(left.value, entries);
  left.rows = Index(rows.size());
  left.cols = whole.cols;
  RowOffset end = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    left.row_begin.data()[r] = end;
    const Row row = rows[r];
    const bool is_changed = row.entry >= 0 && entry(row).input == input;
    for (RowOffset i = whole.row_begin[row.example]; i < whole.row_begin[row.example + 1]; ++i) {
      if (is_changed && whole.column[i] == entry(row).unit) continue;
      left.column.data()[end] = whole.column[i];
      if (left.has_values) left.value.data()[end] = whole.value[i];
      ++end;
    }
  }
  left.row_begin.data()[rows.size()] = end;
}

// [B x units] of an ascending list of units, in main memory, on every rank.
MatrixView<const float> Explainer::scores(const BoundBatch& batch, std::span<const Index> units) {
  const Context& context = network_.context();
  Memory& memory = context.compute.memory;
  const Index columns = Index(units.size());
  const Index size = batch.examples * columns;
  if (gathered_.size() < size) gathered_ = Buffer<float>(size, memory);
  const MatrixView<float> gathered{gathered_.data(), batch.examples, columns, columns};
  const auto place_of = [&](Index unit) {
    return Index(std::ranges::lower_bound(units, unit) - units.begin());
  };
  network_.predict(batch, layer_, [&](Range block, MatrixView<const float> y, int) {
    for (Index c = place_of(block.begin); c < columns && units[std::size_t(c)] < block.end; ++c)
      context.compute.kernels.pointwise->copy(y.columns(units[std::size_t(c)] - block.begin, 1),
                                              gathered.columns(c, 1));
  });
  MatrixView<float> whole = gathered;
  if (!memory.is_host()) {
    context.collectives->wait_for_all(*context.compute.kernels.queue);
    grow(host_, size);
    memory.read(gathered_.data(), host_.data(), std::size_t(size) * sizeof(float));
    whole.data = host_.data();
  }
  if (context.communicator.size() == 1) return whole;
  std::vector<Range> shares;
  for (const Range& of_rank : network_.shares(layer_))
    shares.push_back({place_of(of_rank.begin), place_of(of_rank.end)});
  context.communicator.all_gather_columns(whole, shares);
  return whole;
}

}  // namespace norn
