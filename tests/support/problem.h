// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/context.h"
#include "src/engine/network/network.h"
#include "tests/support/reference_network.h"
#include "tests/support/test_runtime.h"

#include <memory>
#include <string>
#include <vector>

/// Small networks with random data and parameters, and the engine beside the reference.
namespace norn::test {

/// Blocks of a few units, so that small layers have several, and edges by source between small
/// layers.
inline constexpr BlockRule kSmallBlocks = {.delta_elements = 1 << 19,
                                           .minimum_width = 3,
                                           .maximum_width = 4096,
                                           .multiple = 1,
                                           .wanted_blocks = 4,
                                           .gathered_elements = 1};

/// How a set of random examples looks.
struct DataKind {
  const char* name = "sparse boolean";
  bool sparse = true;
  bool valued = false;
  bool halves = false;  ///< dense values of 0, 1/2 and 1 only
  bool labels = false;  ///< exactly one entry an example, as dense class labels give
  bool weighted = false;
  bool ignore_absent = false;
  float low = -1.0f;  ///< of the values
  float high = 1.0f;
};

LayerDescriptor input_layer(const std::string& name, Index units);
LayerDescriptor hidden_layer(const std::string& name, Index units, std::vector<std::string> sources,
                             LayerActivation activation = Activation(Tanh{}));
LayerDescriptor output_layer(const std::string& name, Index units, std::vector<std::string> sources,
                             LayerActivation activation = Activation(Sigmoid{}));
LayerDescriptor pooling_layer(const std::string& name, PoolingFunction function,
                              std::vector<std::string> sources);

/// Rows without values: row r has columns [begin[r], begin[r + 1]) of `column`.
CsrBuffer csr_of(const std::vector<RowOffset>& begin, const std::vector<Column>& column,
                 Index cols);

/// A batch of random examples. Sparse rows are never empty.
HostBatch random_batch(const DataKind& kind, Index examples, Index width, std::uint64_t seed);

/// A network with one batch. Every input and output layer has the data set of its own name.
struct Problem {
  NetworkDescriptor network;
  Index planned_batch = 7;
  StepPosition position = {3, 1, 77};
  std::vector<std::shared_ptr<const HostBatch>> data;  ///< by layer; null for hidden layers
  std::vector<bool> ignore_absent;
  std::vector<std::vector<float>> feature_weight;  ///< by layer, for those with InputWeighting

  /// Gives a layer its data, of the layer's width unless told otherwise.
  void set_data(const std::string& layer, const DataKind& kind, Index examples, std::uint64_t seed,
                Index width = 0);
  /// Gives an input layer an InputWeighting and random weights of its features.
  void weigh_features(const std::string& layer, std::uint64_t seed);
  BoundBatch bound() const;
  std::vector<DatasetShape> shapes() const;
};

/// What the engine says that it learns and keeps: a matrix of an edge, or a vector of a layer's
/// units.
struct ParameterShape {
  int edge = -1;
  int layer = -1;
  Tensor tensor;    ///< of one rank: of all units
  Index count = 0;  ///< elements
};
std::vector<ParameterShape> parameter_shapes(const NetworkDescriptor& network);

/// Normally distributed parameters, but for those that begin with 1, which are positive; each a
/// float.
reference::Parameters random_parameters(const reference::Network& network, std::uint64_t seed,
                                        double deviation = 0.5);

/// The engine with one rank. It has the reference's parameters after set().
class Engine {
 public:
  Engine(const Problem& problem, Pass purpose, int threads = 2,
         const BlockRule& rule = kSmallBlocks);
  norn::Network& network() { return *network_; }
  void set(const reference::Parameters& parameters);
  reference::Parameters get();

 private:
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<norn::Network> network_;
};

}  // namespace norn::test
