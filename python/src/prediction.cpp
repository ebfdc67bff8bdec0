// SPDX-License-Identifier: Apache-2.0
// Recommendations and embeddings.
#include "norn/base/error.h"
#include "norn/run/recommend.h"
#include "python/src/arrays.h"
#include "python/src/data.h"
#include "python/src/model.h"
#include "python/src/parts.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

// Of units' numbers, or of -1: int32, as recommenders in Python have them, where they fit.
nb::object units_array(std::vector<Index> units, const std::vector<std::size_t>& shape) {
  for (const Index unit : units)
    if (unit > std::numeric_limits<std::int32_t>::max()) return array_of(std::move(units), shape);
  return array_of(std::vector<std::int32_t>(units.begin(), units.end()), shape);
}

nb::tuple recommend(HeldModel& model, const nb::list& sets, Index k, const std::string& layer,
                    bool exclude_seen, const MemorySet* excluded, const MemorySet* factors,
                    const std::optional<Vector<std::uint8_t>>& allowed) {
  run::RecommendOptions options;
  options.sets = sets_of(sets);
  options.k = k;
  options.layer = layer;
  options.exclude_seen = exclude_seen;
  if (excluded) options.excluded = *excluded;
  if (factors) options.factors = *factors;
  if (allowed) options.allowed = {allowed->data(), allowed->size()};
  SignalCheck check;
  options.on_batch = [&](Index, Index) { check(); };
  run::Recommendations best = model.with([&](run::Model& m) { return run::recommend(m, options); });
  const std::vector<std::size_t> shape = {std::size_t(best.examples), std::size_t(best.k)};
  return nb::make_tuple(units_array(std::move(best.units), shape),
                        array_of(std::move(best.scores), shape));
}

nb::object embed(HeldModel& model, const nb::list& sets, const std::string& layer) {
  run::RecommendOptions options;
  options.sets = sets_of(sets);
  options.layer = layer;
  SignalCheck check;
  options.on_batch = [&](Index, Index) { check(); };
  run::Embeddings all = model.with([&](run::Model& m) { return run::embed(m, options); });
  return array_of(std::move(all.values), {std::size_t(all.examples), std::size_t(all.units)});
}

// By explanation the entries, [units, n], with their effects and inputs, and [units] scores.
nb::tuple explain(HeldModel& model, const nb::list& sets, const Vector<std::int64_t>& units,
                  Index n, const std::string& layer) {
  run::ExplainOptions options;
  options.sets = sets_of(sets);
  options.layer = layer;
  const std::vector<Index> asked(units.data(), units.data() + units.size());
  options.units = asked;
  options.n = n;
  SignalCheck check;
  options.on_batch = [&](Index, Index) { check(); };
  const std::vector<Explanation> all =
      model.with([&](run::Model& m) { return run::explain(m, options); });
  const std::size_t length = all.size() * std::size_t(n);
  std::vector<Index> ids(length, -1);
  std::vector<float> effects(length, std::nanf(""));
  std::vector<std::int32_t> inputs(length, -1);
  std::vector<float> scores;
  for (std::size_t i = 0; i < all.size(); ++i) {
    scores.push_back(all[i].score);
    std::size_t at = i * std::size_t(n);
    for (const EntryEffect& entry : all[i].effects) {
      ids[at] = Index(entry.unit);
      effects[at] = entry.effect;
      inputs[at++] = entry.input;
    }
  }
  const std::vector<std::size_t> shape = {all.size(), std::size_t(n)};
  return nb::make_tuple(units_array(std::move(ids), shape), array_of(std::move(effects), shape),
                        array_of(std::move(inputs), shape),
                        array_of(std::move(scores), {all.size()}));
}

}  // namespace

void add_prediction(nb::module_& m) {
  m.def("recommend", &recommend, "model"_a, "sets"_a, "k"_a, "layer"_a = "",
        "exclude_seen"_a = false, "excluded"_a.none() = nb::none(), "factors"_a.none() = nb::none(),
        "allowed"_a.noconvert().none() = nb::none(),
        "The best units, [examples, k], and their scores; -1 and NaN where there are fewer.");
  m.def("explain", &explain, "model"_a, "sets"_a, "units"_a.noconvert(), "n"_a, "layer"_a = "",
        "Of the examples' units the entries whose absence changes their scores most.");
  m.def("embed", &embed, "model"_a, "sets"_a, "layer"_a,
        "Activations of a hidden layer, [examples, units].");
}

}  // namespace norn::python
