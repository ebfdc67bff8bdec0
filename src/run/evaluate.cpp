// SPDX-License-Identifier: Apache-2.0
// Evaluation: from data to metrics.
#include "norn/run/evaluate.h"

#include "norn/base/error.h"
#include "norn/data/label_index.h"
#include "src/base/text.h"
#include "src/engine/predict/evaluator.h"
#include "src/engine/predict/metrics.h"
#include "src/run/allowed_units.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

class EvaluationRun {
 public:
  EvaluationRun(Model& model, const EvaluateOptions& options)
      : model_(model),
        options_(options),
        info_(ModelAccess::info(model)),
        log_(ModelAccess::shared_log(model)) {}

  EvaluationReport run() {
    settings_.ks = options_.top;
    settings_.seen = options_.seen;
    require_training();
    settings_.output_layer = choose_layer(info_.network, options_.layer);
    // A copy: what a model without a file says of itself is read anew with its network.
    const LayerDescriptor layer = info_.network.layers[std::size_t(settings_.output_layer)];
    if (layer.kind != LayerKind::output)
      throw UsageError(
          fmt::format("`layer`: \"{}\" is no output layer; metrics need one", layer.name));
    const ModelUnits units = ModelAccess::units(model_);
    DataSources sources{
        options_.data, options_.data, options_.memory_bytes, ModelAccess::file(model_).string(),
        &units,        log_};
    sources.sets = options_.sets;
    const DataBinding data(info_.network, sources, DataBinding::Layers::inputs_and_outputs);
    UnitMatcher more(info_.network, &units);
    open_excluded(more, layer.units(), data);
    choose_candidates(layer, data);
    Network& network = ModelAccess::network(model_, data.shapes());
    std::unique_ptr<Dataset> training;
    if (has_training()) training = open_training(more, layer.dataset);
    more.report(log_);
    if (training) count_training(*training, data, layer);
    if (options_.confusion) count_confusion(data, layer);
    EvaluationReport report{evaluate_model(network, data), {}, std::move(confusion_)};
    if (!options_.popularity.empty()) {
      settings_.on_batch = {};
      settings_.on_ranked = {};
      watch("popularity");
      report.popularity = evaluate_popularity(network, data, *training, settings_);
    }
    warn_of_hidden(report.model);
    return report;
  }

 private:
  Evaluation evaluate_model(Network& network, const DataBinding& data) {
    Communicator& communicator = ModelAccess::ranks(model_);
    communicator.set_place({"evaluating", 0, 1});
    settings_.on_batch = [&](Index done) {
      if (options_.on_batch) options_.on_batch(done, data.examples());
      communicator.set_place({"evaluating", 0, communicator.place().batch + 1});
    };
    watch("model");
    return norn::evaluate(network, data, settings_);
  }

  void watch(std::string_view ranking) {
    if (!options_.on_example) return;
    settings_.on_example = [this, ranking](Index example, const MetricsAtK& values) {
      options_.on_example(ranking, example, values);
    };
  }

  // Which class each example is taken for: the unit that is ranked first.
  void count_confusion(const DataBinding& data, const LayerDescriptor& layer) {
    const DatasetInfo& target = data.set_of(settings_.output_layer).info();
    const Index classes = std::max(target.width(), settings_.units);
    if (classes > kMostConfused)
      throw UsageError(fmt::format(
          "`confusion`: layer \"{}\" has {} units, and a table has at most {}; leave it "
          "out, or name a layer of classes with `layer`",
          layer.name, classes, kMostConfused));
    confusion_ = {classes, std::vector<std::int64_t>(std::size_t(classes * classes)),
                  data.unit_labels()[std::size_t(settings_.output_layer)]};
    settings_.on_ranked = [this, where = place(target), example = Index(-1)](
                              std::span<const Index> ranked,
                              std::span<const Column> held_out) mutable {
      ++example;
      if (held_out.size() > 1)
        throw DataError(
            fmt::format("{}: example {} has {} units, and `confusion` is of one class "
                        "an example; leave it out",
                        where, example, held_out.size()));
      if (held_out.empty() || ranked.empty()) return;
      ++confusion_->counts[std::size_t(Index(held_out[0]) * confusion_->classes + ranked[0])];
    };
  }

  bool has_training() const { return !options_.popularity.empty() || options_.trained_on; }
  bool asks(const MetricInfo& metric) const {
    return std::ranges::find(options_.also, metric.name) != options_.also.end();
  }

  // That what is asked for can be computed.
  void require_training() {
    const std::vector<std::string> known = {std::string(metric::Auc::info.name),
                                            std::string(metric::Novelty::info.name),
                                            std::string(metric::Diversity::info.name)};
    for (const std::string& name : options_.also)
      if (std::ranges::find(known, name) == known.end())
        throw UsageError(fmt::format("`also`: there is no metric \"{}\" to ask for{} There are: {}",
                                     name, did_you_mean(name, known, "."), join(known)));
    settings_.with_auc = asks(metric::Auc::info);
    if (has_training()) return;
    if (options_.propensity)
      throw UsageError(
          "`propensity` counts units in the training data: give them with `popularity`");
    for (const MetricInfo& metric : {metric::Novelty::info, metric::Diversity::info})
      if (asks(metric))
        throw UsageError(
            fmt::format("`also`: {} counts units in the training data: give them with `popularity`",
                        metric.name));
  }

  void count_training(Dataset& training, const DataBinding& data, const LayerDescriptor& layer) {
    const bool informs = asks(metric::Novelty::info);
    if (!options_.propensity && !informs && !asks(metric::Diversity::info)) return;
    Index units = settings_.units;
    for (const Dataset* set : data.sets())
      if (units == 0 && set->info().name == layer.dataset) units = set->info().width();
    units = std::min(units, layer.units());  // more are refused where they are ranked
    const std::vector<Index> counts = count_units(training, units);
    const Index examples = training.info().examples;
    if (options_.propensity)
      settings_.gains = inverse_propensities(counts, examples, options_.propensity->first,
                                             options_.propensity->second);
    if (informs) settings_.information = self_information(counts, examples);
    if (asks(metric::Diversity::info))
      settings_.similarity = std::make_shared<const UnitSimilarity>(training, units);
  }

  // Which units are ranked: those that the index has, and of these the ones that are named.
  void choose_candidates(const LayerDescriptor& layer, const DataBinding& data) {
    std::optional<LabelIndex> index;
    if (!options_.features.empty()) {
      index = read_label_index(options_.features);
      if (!ModelAccess::trusts_index(model_))
        check_index_file(options_.features, *index, info_, settings_.output_layer);
      settings_.units = index->size();
    }
    allowed_.assign(options_.allowed.begin(), options_.allowed.end());
    if (!options_.allow.empty()) {
      const LabelTable& labels = info_.unit_labels[std::size_t(settings_.output_layer)];
      if (!index && !labels.has_words())
        throw UsageError(
            "`allow` names features: give the feature index of the output, `features`");
      if (!index) index = labels.index();
      allowed_ = read_allowed_units(options_.allow, *index, layer.units(), log_);
    }
    if (!allowed_.empty()) rank_allowed(layer, data);
  }

  // Those that are named are ranked, also where no example holds out units of such numbers.
  void rank_allowed(const LayerDescriptor& layer, const DataBinding& data) {
    if (Index(allowed_.size()) != layer.units())
      throw UsageError(fmt::format("`allowed`: has {} units, but layer \"{}\" has {}",
                                   allowed_.size(), layer.name, layer.units()));
    const Index most =
        settings_.units > 0 ? std::min(settings_.units, layer.units()) : layer.units();
    Index end = most;
    while (end > 0 && allowed_[std::size_t(end - 1)] == 0) --end;
    if (end == 0)
      throw UsageError(
          "`allowed`: names no unit, so nothing is ranked; name some, or leave it out");
    if (settings_.units == 0)
      settings_.units = std::max(data.set_of(settings_.output_layer).info().width(), end);
    settings_.allowed = allowed_;
  }

  // Every sparse set of the files that fits the layer.
  void open_excluded(UnitMatcher& matcher, Index units, const DataBinding& data) {
    const Index examples = data.examples();
    std::vector<const DatasetInfo*> paired;
    for (const Dataset* set : data.sets()) paired.push_back(&set->info());
    for (const fs::path& file : options_.exclude) {
      const std::size_t before = excluded_.size();
      for (const DatasetInfo& info : list_datasets(file))
        if (info.gives_sparse_batches() && info.examples == examples &&
            matcher.may_fit(info, settings_.output_layer))
          excluded_.push_back(
              matcher.open(info, Residency::memory, Role::input, settings_.output_layer));
      if (excluded_.size() == before)
        throw DataError(fmt::format(
            "{}: `exclude`: no sparse data set with {} examples and at most {} units in it",
            file.string(), examples, units));
    }
    for (const auto& set : excluded_) {
      settings_.also_seen.push_back(set.get());
      paired.push_back(&set->info());
    }
    require_same_examples(paired);
  }

  std::unique_ptr<Dataset> open_training(UnitMatcher& matcher, const std::string& name) const {
    if (options_.trained_on)
      return matcher.open(*options_.trained_on, Role::input, settings_.output_layer);
    std::vector<std::string> names;
    for (const DatasetInfo& info : list_datasets(options_.popularity)) {
      names.push_back(info.name);
      if (info.name == name)
        return matcher.open(info, Residency::memory, Role::input, settings_.output_layer);
    }
    throw DataError(fmt::format(
        "{}: `popularity`: there is no data set \"{}\" in it{} It holds: {}",
        options_.popularity.string(), name, did_you_mean(name, names, "."), join(names)));
  }

  void warn_of_hidden(const Evaluation& evaluation) {
    if (evaluation.hidden > 0)
      log_.warning(fmt::format(
          "{} held-out units are among the seen ones that are left out, so nothing can find them; "
          "use data whose held-out part is not in its input, or `keep_seen`",
          with_thousands(evaluation.hidden)));
  }

  Model& model_;
  const EvaluateOptions& options_;
  const ModelInfo& info_;
  Log log_;
  EvaluationSettings settings_;
  std::vector<std::uint8_t> allowed_;  // [units], or empty
  std::optional<ConfusionMatrix> confusion_;
  std::vector<std::unique_ptr<Dataset>> excluded_;
};

}  // namespace

EvaluationReport evaluate(Model& model, const EvaluateOptions& options) {
  return EvaluationRun(model, options).run();
}

}  // namespace norn::run
