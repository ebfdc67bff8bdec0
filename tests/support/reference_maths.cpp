// SPDX-License-Identifier: Apache-2.0
// The formulas of docs/user/numerics.md in float64.
#include "tests/support/reference_maths.h"

#include "kernels/named_variant.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace norn::reference {
namespace {

double guarded_log(double x) {
  return std::log(std::max(1e-12, x));
}

/// The margins of both marginal cross entropies.
struct Margins {
  double one_target, zero_target, one_scale, zero_scale;
};

std::optional<Margins> margins_of(const Loss& loss) {
  if (const auto* m = std::get_if<ScaledMarginalCrossEntropy>(&loss))
    return Margins{m->one_target, m->zero_target, m->one_scale, m->zero_scale};
  if (const auto* m = std::get_if<DataScaledMarginalCrossEntropy>(&loss))
    return Margins{m->one_target, m->zero_target, m->one_scale, m->zero_scale};
  return std::nullopt;
}

double marginal_cost(const Margins& m, double y, bool one, bool zero, double value) {
  if (one) return y < m.one_target ? -m.one_scale * value * guarded_log(y) : 0.0;
  if (zero) return y > m.zero_target ? -m.zero_scale * guarded_log(1.0 - y) : 0.0;
  return 0.0;
}

}  // namespace

double activation_value(const Activation& f, double z) {
  const std::string_view name = name_of(f);
  if (name == "Linear") return z;
  if (name == "Sigmoid") return 1.0 / (1.0 + std::exp(-z));
  if (name == "Tanh") return std::tanh(z);
  if (name == "Relu") return std::max(0.0, z);
  if (name == "LRelu") return z > 0.0 ? z : double(std::get<LeakyRelu>(f).relu_slope) * z;
  if (name == "ELU") return z > 0.0 ? z : double(std::get<Elu>(f).alpha) * (std::exp(z) - 1.0);
  if (name == "SELU") {
    const Selu& selu = std::get<Selu>(f);
    return double(selu.lambda) * (z > 0.0 ? z : double(selu.alpha) * (std::exp(z) - 1.0));
  }
  if (name == "SoftPlus") return std::log(1.0 + std::exp(z));
  if (name == "SoftSign") return z / (1.0 + std::abs(z));
  if (name == "Swish") return z / (1.0 + std::exp(-double(std::get<Swish>(f).beta) * z));
  if (name == "GELU") return 0.5 * z * (1.0 + std::erf(z / std::sqrt(2.0)));
  throw std::logic_error("write the formula of activation " + std::string(name) +
                         " into reference_maths.cpp");
}

bool bends_at_zero(const Activation& f) {
  const std::string_view name = name_of(f);
  return name == "Relu" || name == "LRelu" || name == "ELU" || name == "SELU";
}

double TargetRow::stored() const {
  return double(std::count_if(unit.begin(), unit.end(), [](const Target& t) { return t.stored; }));
}

TargetRow target_row(const HostBatch& batch, Index example, Index units, bool ignore_absent) {
  TargetRow row;
  row.unit.resize(std::size_t(units));
  row.sparse = batch.is_sparse;
  row.ignore_absent = ignore_absent;
  row.weighted = !batch.weight.empty();
  if (row.weighted) row.weight = double(batch.weight[std::size_t(example)]);
  if (batch.is_sparse) {
    const CsrView x = batch.csr();
    row.valued = x.value != nullptr;
    for (RowOffset i = x.row_begin[example]; i < x.row_begin[example + 1]; ++i)
      row.unit[x.column[i]] = {x.value ? double(x.value[i]) : 1.0, true};
  } else {
    const MatrixView<const float> x = batch.matrix();
    for (Index c = 0; c < x.cols; ++c) row.unit[std::size_t(c)] = {double(x(example, c)), true};
  }
  return row;
}

TargetRow target_row(const LayerDescriptor& layer, const HostBatch& batch, Index example,
                     bool ignore_absent) {
  TargetRow row = target_row(batch, example, layer.units(), ignore_absent);
  if (!layer.entry_weights.is_on()) return row;
  row.valued = false;
  for (Target& target : row.unit)
    if (target.stored) target = {1.0, true, target.value};
  return row;
}

double unit_cost(const Loss& loss, double y, const Target& target, bool sparse) {
  const std::string_view name = name_of(loss);
  const double t = target.value;
  if (name == "L1") return std::abs(y - t);
  if (name == "L2") return 0.5 * (y - t) * (y - t);
  if (name == "L2Hinge") {
    const double d = t > 0.0 ? std::min(0.0, y - std::abs(t)) : std::max(0.0, y - std::abs(t));
    return 0.5 * d * d;
  }
  if (name == "Huber") {
    const double delta = double(std::get<Huber>(loss).delta);
    const double d = std::abs(y - t);
    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
  }
  if (name == "Hinge") return std::max(0.0, 1.0 - t * y);
  if (name == "CrossEntropy") return -t * guarded_log(y) - (1.0 - t) * guarded_log(1.0 - y);
  // Stored entries of a sparse set are ones whatever their value; dense targets must be exact.
  if (name == "ScaledMarginalCrossEntropy") {
    const bool one = sparse ? target.stored : t == 1.0;
    return marginal_cost(*margins_of(loss), y, one, !one && t == 0.0, 1.0);
  }
  if (name == "DataScaledMarginalCrossEntropy")
    return marginal_cost(*margins_of(loss), y, t != 0.0, t == 0.0, t);
  throw std::logic_error("write the formula of loss " + std::string(name) +
                         " into reference_maths.cpp");
}

double row_cost(const Loss& loss, const Row& y, const TargetRow& target) {
  double sum = 0.0;
  for (std::size_t j = 0; j < y.size(); ++j)
    if (!target.sparse || target.unit[j].stored || !target.ignore_absent)
      sum += target.unit[j].weight * unit_cost(loss, y[j], target.unit[j], target.sparse);
  return target.weight * sum;
}

double softmax_cost(const Loss& loss, TargetWeight target_weight, const Row& y,
                    const TargetRow& target) {
  const std::string_view name = name_of(loss);
  const bool marginal = name == "ScaledMarginalCrossEntropy";
  const bool data_marginal = name == "DataScaledMarginalCrossEntropy";
  if (name != "CrossEntropy" && !marginal && !data_marginal) return row_cost(loss, y, target);

  const std::optional<Margins> m = margins_of(loss);
  // A set without values shares one unit of weight among an example's targets, unless told not to,
  // or unless the example has a weight of its own. Stored values speak for themselves.
  const bool boolean = target.sparse && (marginal || !target.valued) && !data_marginal;
  double unit = target.weight;
  if (!target.weighted && boolean && target_weight == TargetWeight::inverse_count)
    unit = 1.0 / target.stored();
  double sum = 0.0;
  for (std::size_t j = 0; j < y.size(); ++j) {
    const Target& t = target.unit[j];
    if (target.sparse && !t.stored) continue;
    double p = t.value;
    if (marginal) p = target.sparse || t.value == 1.0 ? 1.0 : 0.0;
    p *= t.weight;
    const bool counts = !m || m->one_target >= 1.0 || y[j] < m->one_target;
    if (p != 0.0 && counts) sum -= p * (m ? m->one_scale : 1.0) * std::log(y[j]);
  }
  return unit * sum;
}

double output_cost(const NetworkDescriptor& network, const LayerDescriptor& layer, const Row& y,
                   const TargetRow& target) {
  return std::holds_alternative<SoftMax>(layer.activation)
             ? softmax_cost(network.loss, network.target_weight, y, target)
             : row_cost(network.loss, y, target);
}

double loss_kink_distance(const Loss& loss, const Row& y, const TargetRow& target) {
  const std::string_view name = name_of(loss);
  double nearest = 1e9;
  const auto keep_off = [&](double distance) { nearest = std::min(nearest, std::abs(distance)); };
  const std::optional<Margins> m = margins_of(loss);
  for (std::size_t j = 0; j < y.size(); ++j) {
    const double t = target.unit[j].value;
    if (y[j] == 0.0) continue;  // the flat side of Relu: nothing moves
    if (name == "L1") keep_off(y[j] - t);
    if (name == "L2Hinge") keep_off(y[j] - std::abs(t));
    if (name == "Hinge" && t != 0.0) keep_off(1.0 - t * y[j]);
    if (name == "CrossEntropy" || m) {
      keep_off(y[j]);
      keep_off(1.0 - y[j]);
    }
    if (m && t != 0.0 && m->one_target < 1.0) keep_off(y[j] - m->one_target);
    if (m && t == 0.0 && m->zero_target > 0.0) keep_off(y[j] - m->zero_target);
  }
  return nearest;
}

}  // namespace norn::reference
