// SPDX-License-Identifier: Apache-2.0
// Requests from data sets.
#include "src/run/requests.h"

#include "norn/base/error.h"

namespace norn::run {
namespace {

DataSources sources_of(const DatasetRequestSettings& settings) {
  return {settings.files, settings.files, settings.memory_bytes, {},
          settings.units, settings.log,   settings.sets};
}

}  // namespace

DatasetRequests::DatasetRequests(const DatasetRequestSettings& settings)
    : settings_(settings),
      data_(*settings.network, sources_of(settings), DataBinding::Layers::inputs_only),
      labels_(data_.example_labels()) {}

void DatasetRequests::begin(const Network& network) {
  loader_.emplace(settings_.whole ? data_.sources() : data_.sources_for(network),
                  BatchOrder(data_.examples(), network.batch(), false, 0), 0, 0, 1);
}

bool DatasetRequests::next(RequestBatch& batch) {
  batch.labels.clear();
  batch.seen.clear();
  require(loader_.has_value(), "DatasetRequests::next: begin() comes first");
  const LoadedBatch* loaded = loader_->next();
  if (!loaded) return false;
  batch.bound = data_.bind(*loaded);
  for (Index example : loaded->example)
    batch.labels.push_back(labels_.empty() ? std::to_string(example)
                                           : labels_[std::size_t(example)]);
  if (settings_.tell_seen) gather_seen(batch);
  return true;
}

// Labels tell units of the same catalogue from others that happen to be as many.
bool DatasetRequests::may_hold_seen(std::size_t layer) const {
  const std::vector<LabelTable>& labels = settings_.units->labels;
  const LabelTable& of_output = labels[std::size_t(settings_.output_layer)];
  const bool known = of_output.known() && labels[layer].known();
  return !known || labels[layer].same_as(of_output);
}

void DatasetRequests::gather_seen(RequestBatch& batch) const {
  const Index output_units = settings_.network->layers[std::size_t(settings_.output_layer)].units();
  for (Index r = 0; r < batch.bound.examples; ++r) {
    for (std::size_t layer = 0; layer < batch.bound.of_layer.size(); ++layer) {
      const HostBatch* const input = batch.bound.of_layer[layer];
      if (!input || !input->is_sparse || input->width != output_units) continue;
      if (!may_hold_seen(layer)) continue;
      const CsrView rows = input->csr();
      for (RowOffset i = rows.row_begin[r]; i < rows.row_begin[r + 1]; ++i)
        batch.seen.add(rows.column[i]);
    }
    batch.seen.end_row();
  }
}

Index for_requests(RequestSource& requests, Communicator& communicator,
                   const std::function<void(const RequestBatch&)>& answer) {
  RequestBatch batch;
  Index done = 0;
  for (std::int64_t number = 1;; ++number) {
    communicator.set_place({"predicting", 0, number});
    if (!requests.next(batch)) return done;
    answer(batch);
    done += batch.examples();
  }
}

}  // namespace norn::run
