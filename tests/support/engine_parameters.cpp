// SPDX-License-Identifier: Apache-2.0
// Every parameter by its place in model files, whatever the engine stores.
#include "tests/support/engine_parameters.h"

#include "src/nn/stored_weights.h"

namespace norn::test {
namespace {

// Calls edit(values) with a matrix in main memory, as stored, and puts it back.
template <typename Edit>
void edit_values(Memory& memory, const WeightView& values, const Edit& edit) {
  Matrix<float> copy(values.rows(), values.cols());
  read_weights(memory, values, copy.view());
  edit(copy.view());
  write_weights(memory, copy.view(), values);
}

// Calls move(double& of the reference, float& of the engine) for every parameter.
template <typename Move>
void for_each_parameter(reference::Parameters& p, norn::Network& network, const Move& move) {
  const Compute& compute = network.context().compute;
  for (const NetworkParameter& parameter : network.parameters()) {
    if (HeldBuffer<float>* vector = parameter.vector) {
      std::vector<reference::Row>& rows = p.of(vector->tensor().item);
      rows.resize(network.descriptor().layers.size());
      reference::Row& row = rows[std::size_t(parameter.layer)];
      row.resize(std::size_t(vector->size()));
      std::vector<float> values(row.size());
      vector->read(values.data(), vector->size());
      for (std::size_t i = 0; i < row.size(); ++i) move(row[i], values[i]);
      vector->write(values.data(), vector->size());
      continue;
    }
    Weights& weights = *parameter.matrix;
    const WeightShape& shape = weights.shape();
    reference::Row& row = p.weight[std::size_t(parameter.edge)];
    row.resize(std::size_t(shape.sources * shape.destinations));
    const bool filters = matrix_of(network.graph(), parameter.edge).rows_are_outputs;
    edit_values(compute.memory, weights.values(), [&](MatrixView<float> w) {
      for (Index i = 0; i < shape.sources; ++i)
        for (Index j = 0; j < shape.destinations; ++j)
          move(row[std::size_t(filters ? j * shape.sources + i : i * shape.destinations + j)],
               shape.by_destination ? w(j, i) : w(i, j));
    });
    weights.cast_to_bf16(compute);
  }
}

}  // namespace

reference::Parameters read_parameters(norn::Network& network) {
  reference::Parameters p;
  p.weight.resize(network.graph().edges.size());
  for_each_parameter(p, network, [](double& to, float& from) { to = double(from); });
  return p;
}

void write_parameters(const reference::Parameters& parameters, norn::Network& network) {
  reference::Parameters copy = parameters;
  for_each_parameter(copy, network, [](double& from, float& to) { to = float(from); });
}

}  // namespace norn::test
