// SPDX-License-Identifier: Apache-2.0
// The predictor: requests in, batch by batch, predictions out.
#include "tools/prediction/prediction_run.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/engine/predict/explainer.h"
#include "src/engine/predict/predictor.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"
#include "src/run/requests.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"
#include "tools/prediction/prediction_lines.h"
#include "tools/prediction/prediction_writer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

class PredictionRun {
 public:
  PredictionRun(const PredictorOptions& options, MpiSession& session)
      : options_(options),
        session_(session),
        console_("predictor", session.rank(), options.run.level()) {}

  int run() {
    communicator_ = session_.world(options_.run.collective_timeout);
    if (session_.rank() == 0) remove_abandoned(options_.output);
    const OutputGuard guard(options_.output);
    run::Model model(options_.model, {options_.run.device_choice(), communicator_, console_.log(),
                                      options_.batch, options_.trust_index});
    info_ = run::ModelAccess::info(model);
    layer_ = run::choose_layer(info_.network, options_.layer);
    if (options_.explanations && !ranks_units())
      throw UsageError(fmt::format(
          "--explanations: layer \"{}\" is no output layer: it has no scores", layer().name));
    read_indexes();
    open_requests();
    if (options_.explanations) require_entries(info_.network, shapes_);
    Network& network = run::ModelAccess::network(model, shapes_);
    requests_->begin(network);
    if (!network.unit_layer(layer_))
      throw UsageError(fmt::format("--layer: \"{}\" leads to no output layer: it is not computed",
                                   layer().name));
    const StopSignals signals;  // before there is a file that a signal could leave behind
    if (session_.rank() == 0) open_writer();
    if (ranks_units())
      recommend(network, signals);
    else
      embed(network, signals);
    return 0;
  }

 private:
  const LayerDescriptor& layer() const { return info_.network.layers[std::size_t(layer_)]; }
  bool ranks_units() const { return layer().kind == LayerKind::output; }

  using SharedIndex = std::shared_ptr<const LabelIndex>;

  // An index file that was named must say what the model says.
  SharedIndex read_index(const fs::path& file, int layer) const {
    auto index = std::make_shared<const LabelIndex>(read_label_index(file));
    if (!options_.trust_index) run::check_index_file(file, *index, info_, layer);
    return index;
  }

  SharedIndex index_of_model(int layer) {
    const LabelTable& labels = info_.unit_labels[std::size_t(layer)];
    if (!labels.has_words()) return nullptr;
    if (!labels.same_as(last_labels_)) {
      last_index_ = std::make_shared<const LabelIndex>(labels.index());
      last_labels_ = labels;
    }
    return last_index_;
  }

  // As data sets that were imported from such text are matched.
  TextNumbers numbers_of(int layer) const {
    const LabelTable& labels = info_.unit_labels[std::size_t(layer)];
    const bool units = !labels.known() || labels.are_numbers() || options_.trust_index;
    return units ? TextNumbers::units : TextNumbers::labels;
  }

  void read_indexes() {
    units_ = layer().units();
    model_units_ = run::units_of(info_, options_.trust_index);
    const bool text = !options_.requests.empty();
    if (text)
      input_features_ = options_.input_features.empty()
                            ? index_of_model(input_layer())
                            : read_index(options_.input_features, input_layer());
    else if (!options_.input_features.empty())
      model_units_.index_files.assign(info_.network.layers.size(),
                                      LabelTable::of(read_label_index(options_.input_features)));
    if (!options_.output_features.empty())
      output_features_ = read_index(options_.output_features, layer_);
    else if (ranks_units() && writes_labels())
      output_features_ = index_of_model(layer_);
    const bool names_units = !options_.filter.empty() || !options_.allow.empty();
    if (names_units && !output_features_)
      throw UsageError(options_.filter.empty()
                           ? "--allow names features: give the feature index --output-features (-o)"
                           : "--filter (-f) names features: give the feature index "
                             "--output-features (-o)");
    limit_units();
  }

  // Numbers are written without an index.
  bool writes_labels() const {
    const bool looks_up = !options_.filter.empty() || !options_.allow.empty() ||
                          (options_.exclude_seen && !options_.requests.empty());
    return looks_up || !info_.unit_labels[std::size_t(layer_)].are_numbers();
  }

  void limit_units() {
    const LabelTable& labels = info_.unit_labels[std::size_t(layer_)];
    if (ranks_units() && labels.known()) units_ = std::min(units_, labels.size());
    if (!output_features_ || !ranks_units()) return;
    if (output_features_->size() > units_)
      console_.warning(fmt::format(
          "{}: has {} features, but layer \"{}\" only {} units; the others are never recommended",
          options_.output_features.string(), with_thousands(output_features_->size()), layer().name,
          with_thousands(units_)));
    units_ = std::min(units_, output_features_->size());
    if (units_ == 0)
      throw DataError(
          fmt::format("{}: the feature index is empty; give the one that the importer "
                      "wrote",
                      options_.output_features.string()));
  }

  // The input layer that text requests feed.
  int input_layer() const {
    std::vector<std::string> sets;
    std::vector<int> inputs;
    for (std::size_t i = 0; i < info_.network.layers.size(); ++i) {
      const LayerDescriptor& candidate = info_.network.layers[i];
      if (candidate.kind != LayerKind::input) continue;
      sets.push_back(candidate.dataset);
      inputs.push_back(int(i));
    }
    if (inputs.size() > 1)
      throw UsageError(fmt::format(
          "--requests: the model has {} input layers ({}), but text feeds one; import the requests "
          "and give them with --data",
          inputs.size(), join(sets)));
    if (options_.dataset.empty()) return inputs.front();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (sets[i] == options_.dataset + "_input" || sets[i] == options_.dataset) return inputs[i];
    throw UsageError(
        fmt::format("--dataset (-d) {}: no input layer reads \"{}_input\"; the model's reads: {}",
                    options_.dataset, options_.dataset, join(sets)));
  }

  TextOptions text_options(const std::string& format, HeaderLine header) const {
    TextOptions text;
    text.format = TextFormat::named(format);
    text.header = header;
    text.skip_malformed = options_.skip_malformed;
    text.any_bytes = true;
    return text;
  }

  void open_requests() {
    const bool tell_seen = options_.exclude_seen && ranks_units();
    if (!options_.data.empty()) {
      run::DatasetRequestSettings settings;
      settings.network = &info_.network;
      settings.files = options_.data;
      settings.memory_bytes = options_.memory_bytes;
      settings.tell_seen = tell_seen;
      settings.output_layer = layer_;
      settings.whole = options_.explanations.has_value();
      settings.units = &model_units_;
      settings.log = run::shared_log(console_.log(), *communicator_);
      auto requests = std::make_unique<run::DatasetRequests>(settings);
      shapes_ = requests->shapes();
      total_ = requests->examples();
      requests_ = std::move(requests);
      return;
    }
    TextRequestSettings settings;
    settings.file = options_.requests;
    settings.text = text_options(options_.request_format, options_.request_header);
    settings.values = options_.values;
    settings.features = input_features_ ? &*input_features_ : nullptr;
    settings.layers = info_.network.layers.size();
    settings.input_layer = input_layer();
    settings.numbers = numbers_of(settings.input_layer);
    const LayerDescriptor& input = info_.network.layers[std::size_t(settings.input_layer)];
    settings.input_units = input.units();
    if (tell_seen) {
      settings.seen_units = output_features_ ? &*output_features_ : settings.features;
      if (!settings.seen_units) settings.seen_units = &no_features_;
      settings.seen_numbers = numbers_of(layer_);
    }
    shapes_ = {{input.dataset,
                input.dimensions,
                {input.extent[0], input.extent[1], input.extent[2]},
                true}};
    requests_ = make_text_requests(settings);
  }

  void open_writer() {
    const LabelIndex* units = output_features_ ? &*output_features_ : nullptr;
    const TextForm form = text_form(options_.format);
    const char* fallback = ranks_units() && form == TextForm::dsstne ? "4.3f" : ".9g";
    if (options_.format == "netcdf")
      writer_ = make_netcdf_writer(
          options_.output, ranks_units() ? "recommendations" : "activations", layer().units(),
          ranks_units() ? info_.unit_labels[std::size_t(layer_)] : LabelTable());
    else
      writer_ = make_text_writer(
          options_.output,
          ScoreFormat(options_.score_format.empty() ? fallback : options_.score_format), units,
          form, options_.explanations ? inputs() : std::vector<InputUnits>());
    if (units && ranks_units() && form == TextForm::dsstne && options_.format == "text")
      require_plain_labels(*units, units_);
  }

  // What entries are called.
  std::vector<InputUnits> inputs() {
    SharedIndex of_file;
    if (!options_.data.empty() && !options_.input_features.empty())
      of_file = std::make_shared<const LabelIndex>(read_label_index(options_.input_features));
    std::vector<InputUnits> all;
    for (std::size_t i = 0; i < info_.network.layers.size(); ++i) {
      if (info_.network.layers[i].kind != LayerKind::input) continue;
      SharedIndex labels = options_.requests.empty() ? index_of_model(int(i)) : input_features_;
      all.push_back({info_.network.layers[i].name, labels ? labels : of_file});
    }
    return all;
  }

  // Calls predict(batch) for all requests, then puts the output into its place.
  template <typename Predict>
  void for_batches(Network& network, const StopSignals& signals, const Predict& predict) {
    Progress progress(console_, total_, "examples");
    Communicator& communicator = network.context().communicator;
    Index answered = 0;
    const Index done = run::for_requests(*requests_, communicator, [&](const RequestBatch& batch) {
      signals.throw_if_requested();
      predict(batch);
      answered += batch.examples();
      progress.update(answered);
    });
    if (done == 0)
      throw DataError(fmt::format(
          "{}: holds no requests; name a file with examples",
          (options_.data.empty() ? options_.requests : options_.data.front()).string()));
    // Much output takes long to bring into its form and onto the disk.
    communicator.set_place({"writing the output"});
    run::rank_0_alone(communicator, [&] { writer_->commit(); });
    console_.set_status("");
    if (session_.rank() == 0) requests_->report(console_.log());
    console_.info(fmt::format("{} examples in {}, {} a second; {}", with_thousands(done),
                              human_seconds(progress.seconds()),
                              with_thousands((long long)(double(done) / progress.seconds())),
                              options_.output.string()));
  }

  void recommend(Network& network, const StopSignals& signals) {
    ScoreFilters filters(options_.filter_mode, units_);
    if (!options_.filter.empty())
      filters.set_table(std::make_unique<FilterTable>(
          options_.filter, *output_features_, options_.filter_mode,
          text_options(options_.filter_format, options_.filter_header), numbers_of(layer_)));
    if (!options_.allow.empty()) filters.allow(options_.allow, *output_features_, console_);
    if (session_.rank() == 0) filters.report(console_);
    Predictor predictor(network, layer_, options_.k, units_);
    std::optional<Explainer> explainer;
    if (options_.explanations) explainer.emplace(network, layer_, *options_.explanations);
    Index batches = 0;
    Index written = 0;
    for_batches(network, signals, [&](const RequestBatch& batch) {
      const TopK& best = predictor.predict(batch.bound, filters.of(batch));
      ++batches;
      written += predictor.wrote_scores();
      std::vector<Explanation> why;
      if (explainer) why = explainer->explain(batch.bound, listed_units(best, batch.examples()));
      if (writer_) writer_->write_ranked(batch.labels, best, why);
    });
    console_.log().debug(fmt::format("{} of {} batches were ranked without writing their scores",
                                     batches - written, batches));
  }

  // [examples x K]; -1 where a list has ended.
  static std::vector<Index> listed_units(const TopK& best, Index examples) {
    std::vector<Index> units(std::size_t(examples * best.k), -1);
    for (Index e = 0; e < examples; ++e)
      std::copy_n(best.unit.view().row(e), best.count.data()[e], units.begin() + e * best.k);
    return units;
  }

  void embed(Network& network, const StopSignals& signals) {
    for_batches(network, signals, [&](const RequestBatch& batch) {
      const MatrixView<const float> values = network.activations(batch.bound, layer_);
      if (writer_) writer_->write_values(batch.labels, values);
    });
  }

  const PredictorOptions& options_;
  MpiSession& session_;
  Console console_;
  std::shared_ptr<Communicator> communicator_;
  ModelInfo info_;
  int layer_ = 0;
  Index units_ = 0;  // candidates
  Index total_ = 0;  // requests, when it is known
  LabelIndex no_features_;
  ModelUnits model_units_;
  SharedIndex input_features_;
  SharedIndex output_features_;
  LabelTable last_labels_;  // of the model, and the index made of them
  SharedIndex last_index_;
  std::vector<DatasetShape> shapes_;
  std::unique_ptr<RequestSource> requests_;
  std::unique_ptr<PredictionWriter> writer_;
};

}  // namespace

int run_prediction(const PredictorOptions& options, MpiSession& session) {
  std::vector<std::filesystem::path> read = options.data;
  read.insert(read.end(), {options.model, options.requests, options.filter, options.allow,
                           options.input_features, options.output_features, options.cdl});
  require_apart(read, options.output);
  return PredictionRun(options, session).run();
}

}  // namespace norn::tools
