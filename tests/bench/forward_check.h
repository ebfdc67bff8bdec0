// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/bench/bench_network.h"
#include "tests/support/engine_parameters.h"

#include <string>

/// Outputs of a network of images beside those of the same parameters in float64.
namespace norn::bench {

/// ln y less its mean over a row: pre-activations of SoftMax but for what they have in common.
inline reference::Row centred_logarithms(reference::Row y) {
  double sum = 0.0;
  for (double& v : y) sum += v = std::log(v);
  for (double& v : y) v -= sum / double(y.size());
  return y;
}

/// How far pre-activations may be, of their root mean square: a layer rounds its operands by
/// 2^-9, 2^-11 and 2^-24, and roundings add up over layers.
inline double forward_tolerance(Precision precision) {
  switch (precision.multiply) {
    case NumberFormat::bfloat16:
      return 0.1;
    case NumberFormat::tf32:
      return 0.02;
    case NumberFormat::float32:
      return 1e-4;
  }
  return 0.0;
}

/// Nothing, or how the outputs of `examples` images differ. For networks with one output layer, of
/// SoftMax, in one process.
inline std::string check_forward(const NetworkDescriptor& network, const Context& context,
                                 Precision precision, Index examples) {
  BenchNetwork bench(network, context, make_data(network, examples, 1), 1, examples);
  const BoundBatch batch = bench.bound(0);
  const auto output = Index(network.layers.size()) - 1;
  const MatrixView<const float> y = bench.network().outputs(batch, int(output));
  const reference::Network reference(network, examples, Pass::prediction);
  const reference::Activity activity =
      reference.forward(test::read_parameters(bench.network()), batch);
  double squares = 0.0;
  double differences = 0.0;
  for (Index e = 0; e < examples; ++e) {
    const float* row = y.data + e * y.cols;
    const reference::Row own = centred_logarithms(reference::Row(row, row + y.cols));
    const reference::Row right =
        centred_logarithms(activity.output[std::size_t(output)][std::size_t(e)]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      squares += right[i] * right[i];
      differences += (own[i] - right[i]) * (own[i] - right[i]);
    }
  }
  const double apart = std::sqrt(differences / squares);
  if (apart <= forward_tolerance(precision)) return {};
  return fmt::format("pre-activations of the outputs of {} images are {:.2g} of their size off",
                     examples, apart);
}

}  // namespace norn::bench
