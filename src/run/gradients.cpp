// SPDX-License-Identifier: Apache-2.0
// Gradients beside differences of the cost, for a network and data of a user.
#include "norn/base/error.h"
#include "norn/run/train.h"
#include "src/data/batch_loader.h"
#include "src/engine/data/feature_weights.h"
#include "src/engine/train/gradient_check.h"
#include "src/run/preparation.h"

namespace norn::run {

Index GradientCheck::wrong() const {
  Index sum = 0;
  for (const CheckedGroup& group : groups) sum += group.wrong;
  return sum;
}

GradientCheck check_gradients(const TrainOptions& given, Index most) {
  TrainOptions options = given;
  options.device.kind = DeviceChoice::Kind::cpu;
  options.check();
  const std::shared_ptr<Communicator> communicator = ranks_of(options);
  if (communicator->size() > 1)
    throw UsageError("gradients are checked by one process; start one, without mpirun");
  GradientCheck result;
  TrainingStart start = start_training(options, *communicator, options.log);
  result.left_out = prepare_gradient_check(start.network);
  const std::unique_ptr<DataBinding> data = bind_data(start, options, options.log);
  fit_batch(start, options, data->examples(), options.log);
  Graph graph = make_graph(start.network, data->shapes(), start.where);
  require_runnable(graph, Use::training, start.where);
  const std::unique_ptr<Runtime> runtime = make_runtime(options.device, *communicator);
  const TrainingDescriptor& training = start.network.training;
  Network network(std::move(graph), data->shapes(), runtime->context(*communicator, options.log),
                  training.batch, Pass::training);
  network.initialise(training.seed);
  weigh_features(network, *data);
  BatchLoader loader(data->sources(), BatchOrder(data->examples(), training.batch, false, 0), 0, 0,
                     1);
  const BoundBatch bound = data->bind(*loader.next());
  result.groups = norn::check_gradients(network, bound, most, training.seed);
  return result;
}

}  // namespace norn::run
