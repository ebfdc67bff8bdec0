// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "kernels/named_variant.h"
#include "tests/kernels/samples.h"

#include <cmath>
#include <optional>
#include <vector>

/// Independent float64 formulas of activations and losses, and targets of every kind, for the tests
/// of the cost kernels. A value type that has no formula here is tested against its own in float64.
namespace norn::reference {

template <typename F>
double value(const F& f, double z) {
  return f.value(z);
}
inline double value(const Linear&, double z) {
  return z;
}
inline double value(const Sigmoid&, double z) {
  return 0.5 * (1 + std::tanh(z / 2));
}
inline double value(const Tanh&, double z) {
  return 2 / (1 + std::exp(-2 * z)) - 1;
}
inline double value(const Relu&, double z) {
  return std::max(0.0, z);
}
inline double value(const LeakyRelu& f, double z) {
  return std::max(0.0, z) + double(f.relu_slope) * std::min(0.0, z);
}
inline double value(const Elu& f, double z) {
  return std::max(0.0, z) + double(f.alpha) * (std::exp(std::min(0.0, z)) - 1);
}
inline double value(const Selu& f, double z) {
  return double(f.lambda) * (std::max(0.0, z) + double(f.alpha) * (std::exp(std::min(0.0, z)) - 1));
}
inline double value(const SoftPlus&, double z) {
  return std::log(1 + std::exp(z));
}
inline double value(const SoftSign&, double z) {
  return z / (1 + std::fabs(z));
}
inline double value(const Swish& f, double z) {
  return z / (1 + std::exp(-double(f.beta) * z));
}
inline double value(const Gelu&, double z) {
  return z * (1 + std::erf(z / std::sqrt(2.0))) / 2;
}

inline double minus_log(double x) {
  return -std::log(std::max(1e-12, x));
}

template <typename L>
double cost(const L& loss, double y, double t) {
  return loss.cost(y, t);
}
inline double cost(const AbsoluteError&, double y, double t) {
  return std::fabs(y - t);
}
inline double cost(const SquaredError&, double y, double t) {
  return std::pow(y - t, 2) / 2;
}
inline double cost(const Huber& loss, double y, double t) {
  const double distance = std::fabs(y - t);
  const double delta = double(loss.delta);
  return distance <= delta ? std::pow(distance, 2) / 2 : delta * distance - delta * delta / 2;
}
inline double cost(const SquaredHinge&, double y, double t) {
  const double distance = t > 0 ? std::fabs(t) - y : y - std::fabs(t);
  return distance > 0 ? distance * distance / 2 : 0;
}
inline double cost(const Hinge&, double y, double t) {
  return t * y >= 1 ? 0 : 1 - t * y;
}
inline double cost(const CrossEntropy&, double y, double t) {
  return t * minus_log(y) + (1 - t) * minus_log(1 - y);
}
inline double cost(const ScaledMarginalCrossEntropy& loss, double y, double t) {
  if (t == 1 && y < double(loss.one_target)) return double(loss.one_scale) * minus_log(y);
  if (t == 0 && y > double(loss.zero_target)) return double(loss.zero_scale) * minus_log(1 - y);
  return 0;
}
inline double cost(const DataScaledMarginalCrossEntropy& loss, double y, double t) {
  if (t != 0) return y < double(loss.one_target) ? double(loss.one_scale) * t * minus_log(y) : 0;
  return y > double(loss.zero_target) ? double(loss.zero_scale) * minus_log(1 - y) : 0;
}

/// Every loss with its default parameters, and the marginal ones also with others.
inline std::vector<Loss> losses() {
  std::vector<Loss> all;
  for (const std::string& name : names_of<Loss>()) all.push_back(*find_named<Loss>(name));
  all.push_back(ScaledMarginalCrossEntropy{
      .one_target = 1.0f, .zero_target = 0.0f, .one_scale = 1.5f, .zero_scale = 0.75f});
  all.push_back(DataScaledMarginalCrossEntropy{
      .one_target = 0.7f, .zero_target = 0.2f, .one_scale = 1.5f, .zero_scale = 0.75f});
  return all;
}

enum class Kind { boolean, valued, dense };
enum class Weights { none, one_an_example };

inline const char* word(Kind kind) {
  return kind == Kind::boolean ? "boolean" : kind == Kind::valued ? "valued" : "dense";
}

/// Targets of a layer, and what they mean as plain numbers.
struct Targets {
  Kind kind = Kind::boolean;
  samples::SparseRows sparse;
  std::vector<float> dense;  ///< [rows x dense_width]
  Index rows = 0;
  Index width = 0;        ///< of the layer
  Index dense_width = 0;  ///< of the dense data
  bool ignore_absent = false;
  std::vector<float> weight;
  std::vector<float> entry_weight;  ///< one a stored entry, or none

  TargetView view() const {
    TargetView v;
    v.is_sparse = kind != Kind::dense;
    if (v.is_sparse)
      v.sparse = sparse.view();
    else
      v.dense = {dense.data(), rows, dense_width, dense_width};
    v.ignore_absent = ignore_absent;
    v.weight = samples::view_of(weight);
    v.entry_weight = entry_weight.empty() ? nullptr : entry_weight.data();
    return v;
  }
  /// The number of a stored entry of a sparse target, or nothing when it is absent.
  std::optional<std::size_t> entry(Index r, Index unit) const {
    const RowOffset end = sparse.row_begin[std::size_t(r) + 1];
    for (RowOffset i = sparse.row_begin[std::size_t(r)]; i < end; ++i)
      if (Index(sparse.column[std::size_t(i)]) == unit) return std::size_t(i);
    return std::nullopt;
  }
  /// The raw value of a stored entry (1 when boolean), or nothing when it is absent.
  std::optional<double> stored(Index r, Index unit) const {
    if (kind == Kind::dense)
      return unit < dense_width ? double(dense[std::size_t(r * dense_width + unit)]) : 0.0;
    const std::optional<std::size_t> i = entry(r, unit);
    if (!i) return std::nullopt;
    return sparse.value.empty() ? 1.0 : double(sparse.value[*i]);
  }
  /// What the cost of a unit is multiplied by, beside the weight of its example.
  double unit_weight(Index r, Index unit) const {
    const std::optional<std::size_t> i = entry_weight.empty() ? std::nullopt : entry(r, unit);
    return i ? double(entry_weight[*i]) : 1.0;
  }
  Index stored_count(Index r) const {
    return sparse.row_begin[std::size_t(r) + 1] - sparse.row_begin[std::size_t(r)];
  }
  double example_weight(Index r) const {
    return weight.empty() ? 1.0 : double(weight[std::size_t(r)]);
  }
  /// The target that a loss sees; nothing when the entry has neither cost nor delta.
  template <typename L>
  std::optional<double> seen_by(const L& loss, Index r, Index unit) const {
    const std::optional<double> raw = stored(r, unit);
    if (!raw) return ignore_absent ? std::nullopt : std::optional<double>(0.0);
    return kind == Kind::dense ? *raw : loss.stored_target(*raw);
  }
};

/// Weights of the stored entries of sparse targets, 0 among them.
template <typename Uniform>
void weigh_entries(Targets& targets, const Uniform& uniform) {
  for (std::size_t i = 0; i < targets.sparse.column.size(); ++i)
    targets.entry_weight.push_back(uniform(0, 1) < 0.1f ? 0.0f : uniform(0.1f, 3.0f));
}

/// Random targets: row 0 empty, row 1 full, row 2 with the first and last unit, the others mixed.
template <typename Uniform>
Targets random_targets(Kind kind, Index rows, Index width, const Uniform& uniform) {
  Targets targets;
  targets.kind = kind;
  targets.rows = rows;
  targets.width = width;
  targets.dense_width = std::max<Index>(1, width - width / 4);
  targets.sparse.cols = width;
  for (Index r = 0; r < rows; ++r) {
    std::set<Column> columns;
    if (r == 1)
      for (Index c = 0; c < width; ++c) columns.insert(Column(c));
    if (r == 2) columns = {Column(0), Column(width - 1)};
    if (r > 2)
      for (Index c = 0; c < width; ++c)
        if (uniform(0, 1) < 0.1f) columns.insert(Column(c));
    targets.sparse.append_row(columns);
  }
  if (kind == Kind::valued)
    for (std::size_t i = 0; i < targets.sparse.column.size(); ++i)
      targets.sparse.value.push_back(uniform(0.2f, 2.0f));
  for (Index i = 0; i < rows * targets.dense_width; ++i) {
    const float draw = uniform(0, 1);
    targets.dense.push_back(draw < 0.5f ? 0.0f : draw < 0.75f ? 1.0f : uniform(0.1f, 0.9f));
  }
  return targets;
}

}  // namespace norn::reference
