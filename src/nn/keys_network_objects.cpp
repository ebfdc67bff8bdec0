// SPDX-License-Identifier: Apache-2.0
// The table of keys: the objects of the network level.
#include "src/nn/key_builders.h"

#include <fmt/format.h>

namespace norn::keys {
namespace {

// A value of the marginal losses: read when the loss is known, written when it is not the default.
template <typename Pending, typename Member>
Key margin_key(std::string name, Pending pending, Member member, Limits limits, float standard,
               std::string help) {
  Key key = number_key(std::move(name), pending, limits, std::move(help));
  key.default_text = fmt::format("{}", standard);
  key.get = [member, standard](const Draft& d) {
    return std::visit(
        [&](const auto& loss) {
          if constexpr (requires { loss.one_target; }) {
            return member(loss) == standard ? Json::Value() : json_of(member(loss));
          } else {
            return Json::Value();
          }
        },
        d.network.loss);
  };
  return key;
}

Key margin_object() {
  const ScaledMarginalCrossEntropy standard;
  std::vector<Key> members;
  members.push_back(margin_key(
      "oneTarget", [](auto& d) -> auto& { return d.margin.one_target; },
      [](const auto& loss) { return loss.one_target; }, from_to(0, 1), standard.one_target,
      "Ones count while their output is below it."));
  members.push_back(margin_key(
      "zeroTarget", [](auto& d) -> auto& { return d.margin.zero_target; },
      [](const auto& loss) { return loss.zero_target; }, from_to(0, 1), standard.zero_target,
      "Zeros count while their output is above it."));
  members.push_back(margin_key(
      "oneScale", [](auto& d) -> auto& { return d.margin.one_scale; },
      [](const auto& loss) { return loss.one_scale; }, at_least(0), standard.one_scale,
      "Factor of the cost of ones."));
  members.push_back(margin_key(
      "zeroScale", [](auto& d) -> auto& { return d.margin.zero_scale; },
      [](const auto& loss) { return loss.zero_scale; }, at_least(0), standard.zero_scale,
      "Factor of the cost of zeros."));
  return with_aliases(
      object_key(
          "ScaledMarginalCrossEntropy", std::move(members),
          "Margins of the loss ScaledMarginalCrossEntropy or DataScaledMarginalCrossEntropy, "
          "whichever ErrorFunction names."),
      {{"DataScaledMarginalCrossEntropy", {}}});
}

Key lrn_object() {
  std::vector<Key> members;
  members.push_back(number_key(
      "k", [](auto& d) -> auto& { return d.network.lrn.k; }, at_least(0), "Constant term."));
  members.push_back(integer_key(
      "n", [](auto& d) -> auto& { return d.network.lrn.n; }, from_to(1, 65535),
      "Number of neighbouring channels."));
  members.push_back(number_key(
      "alpha", [](auto& d) -> auto& { return d.network.lrn.alpha; }, at_least(0),
      "Factor of the sum of squares."));
  members.push_back(number_key(
      "beta", [](auto& d) -> auto& { return d.network.lrn.beta; }, at_least(0), "Exponent."));
  return with_aliases(object_key("LocalResponseNormalization", std::move(members),
                                 "Parameters of Pooling layers with Function LRN."),
                      {{"LRN", {}}});
}

}  // namespace

std::vector<Key> network_objects() {
  std::vector<Key> keys;
  keys.push_back(
      object_key("SparsenessPenalty",
                 {number_key(
                      "p", [](auto& d) -> auto& { return d.network.sparseness.p; }, from_to(0, 1),
                      "Mean activation that is aimed at."),
                  number_key(
                      "beta", [](auto& d) -> auto& { return d.network.sparseness.beta; },
                      at_least(0), "Weight of the penalty; 0 turns it off.")},
                 "Penalty on the mean activation of Hidden layers that say \"Sparse\": true."));
  keys.push_back(object_key(
      "Denoising",
      {number_key(
          "p", [](auto& d) -> auto& { return d.network.denoising; }, from_to_below(0, 1),
          "Probability that a stored input entry is dropped in training.")},
      "Denoising of Input layers that say \"Sparse\": true; kept entries are scaled by 1 / (1 - "
      "p)."));
  keys.push_back(object_key(
      "DeltaBoost",
      {number_key(
           "one", [](auto& d) -> auto& { return d.network.boost_one; }, at_least(0),
           "Factor of the deltas of stored targets."),
       number_key(
           "zero", [](auto& d) -> auto& { return d.network.boost_zero; }, at_least(0),
           "Factor of the deltas of absent targets.")},
      "Factors of output deltas, for sparse targets; the reported cost is without them."));
  keys.push_back(margin_object());
  keys.push_back(lrn_object());
  Key maxout = object_key("Maxout",
                          {integer_key(
                              "k", [](auto& d) -> auto& { return d.network.maxout_k; },
                              from_to(1, 65535), "Kept with the model.")},
                          "Accepted for DSSTNE's sake, without effect.");
  maxout.has_effect = false;
  keys.push_back(std::move(maxout));
  return keys;
}

}  // namespace norn::keys
