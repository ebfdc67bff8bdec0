// SPDX-License-Identifier: Apache-2.0
// Recommendations a second by Predictor itself, with the forward pass, the upload of requests and
// filters and the lists' way back, beside predict_bench's kernel alone. Random weights.
#include "kernels/named_variant.h"
#include "kernels/precisions.h"
#include "src/base/text.h"
#include "src/engine/network/context.h"
#include "src/engine/predict/predictor.h"
#include "tests/bench/training_shape.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include <CLI/CLI.hpp>

namespace norn::bench {
namespace {

struct Options {
  Index inputs = 100'000;
  Index units = 10'000'000;
  Index width = 256;
  Index k = 100;
  Index batch = 1024;
  Index seen = 100;
  bool softmax = false;
  std::string device = "auto";
  std::string precision = "bf16";
};

int run(const Options& options) {
  DeviceChoice choice;
  choice.kind = options.device == "cpu"    ? DeviceChoice::Kind::cpu
                : options.device == "cuda" ? DeviceChoice::Kind::cuda
                                           : DeviceChoice::Kind::automatic;
  choice.gpu_options.precision = precision_named(options.precision).value();
  const auto one = make_single_process();
  const std::unique_ptr<Runtime> runtime = make_runtime(choice, *one);
  TrainingShape shape{"predictor", options.inputs, {options.width}, Tanh{}, options.softmax};
  shape.batch = options.batch;
  NetworkDescriptor descriptor = descriptor_of(shape);
  descriptor.layers.back().extent[0] = options.units;
  descriptor.layers.back().dataset = "targets";
  const std::vector<DatasetShape> shapes = {{"data", 1, {options.inputs, 1, 1}, true},
                                            {"targets", 1, {options.units, 1, 1}, true}};
  Network network(make_graph(descriptor, shapes, "predictor_bench"), shapes, runtime->context(*one),
                  options.batch, Pass::prediction);
  network.initialise(1);

  std::vector<Index> examples(static_cast<std::size_t>(options.batch));
  std::iota(examples.begin(), examples.end(), Index(0));
  HostBatch requests, seen;
  power_law_dataset("data", options.batch, options.inputs, 100, 1)->gather(examples, requests);
  power_law_dataset("seen", options.batch, options.units, options.seen, 2)->gather(examples, seen);
  BoundBatch bound;
  bound.of_layer.assign(descriptor.layers.size(), nullptr);
  bound.of_layer.front() = &requests;
  bound.ignore_absent.assign(descriptor.layers.size(), false);
  bound.examples = options.batch;
  ScoreFilter filter;
  filter.excluded = seen.csr();

  Predictor predictor(network, int(descriptor.layers.size()) - 1, options.k);
  std::vector<double> times;
  for (int i = 0; i < 13; ++i) {
    const auto start = std::chrono::steady_clock::now();
    predictor.predict(bound, filter);
    if (i >= 2)
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  std::printf("%s: %lld units x %lld, K %lld, batch %lld%s: %.3f ms, %s users/s, scores %s\n",
              runtime->description().c_str(), (long long)options.units, (long long)options.width,
              (long long)options.k, (long long)options.batch, options.softmax ? ", SoftMax" : "",
              1e3 * times[5], with_thousands((long long)(double(options.batch) / times[5])).c_str(),
              predictor.wrote_scores() ? "written" : "compared in the product");
  return 0;
}

}  // namespace
}  // namespace norn::bench

int main(int argc, char** argv) {
  norn::bench::Options options;
  CLI::App app("Times recommendations by Predictor on random weights.");
  app.add_option("--inputs", options.inputs);
  app.add_option("--units", options.units, "of the output layer");
  app.add_option("--width", options.width, "of the hidden layer");
  app.add_option("--k", options.k);
  app.add_option("--batch", options.batch);
  app.add_option("--seen", options.seen, "units a user that are left out");
  app.add_flag("--softmax", options.softmax);
  app.add_option("--device", options.device)->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--precision", options.precision)->check(CLI::IsMember(norn::precision_names()));
  CLI11_PARSE(app, argc, argv);
  try {
    return norn::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "predictor_bench: %s\n", error.what());
    return 1;
  }
}
