// SPDX-License-Identifier: Apache-2.0
// The table of keys: the objects of the network level.
#include "src/nn/key_builders.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::keys {
namespace {

// The losses that have a parameter of this object.
std::vector<std::string> losses_with(std::string_view object) {
  std::vector<std::string> names;
  for (const SharedParameter& parameter : parameters_of<Loss>())
    if (parameter.key->object == object)
      for (const auto& [name, standard] : parameter.defaults)
        if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  return names;
}

// The object of a loss's parameters may be called as any loss that has them.
Key loss_object(const std::string& name) {
  std::vector<Key> members;
  for (const SharedParameter& parameter : parameters_of<Loss>())
    if (parameter.key->object == name)
      members.push_back(by_default(parameter_key(
                                       *parameter.key, [](Draft & d) -> auto& { return d.loss; },
                                       [](const Draft& d, const std::string& key) {
                                         return changed_parameter(d.network.loss, key);
                                       }),
                                   parameter.default_text()));
  std::vector<Spelling> aliases;
  std::string losses;
  for (const std::string& loss : losses_with(name)) {
    losses += (losses.empty() ? "" : " or ") + loss;
    if (loss != name) aliases.push_back({loss, {}});
  }
  return with_aliases(
      object_key(name, std::move(members),
                 fmt::format("Parameters of the loss {}, whichever ErrorFunction names.", losses)),
      std::move(aliases));
}

std::vector<Key> loss_objects() {
  std::vector<Key> objects;
  for (const SharedParameter& parameter : parameters_of<Loss>()) {
    const std::string name(parameter.key->object);
    if (!find_key(objects, name)) objects.push_back(loss_object(name));
  }
  return objects;
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
  for (Key& key : loss_objects()) keys.push_back(std::move(key));
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
