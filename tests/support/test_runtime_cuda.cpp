// SPDX-License-Identifier: Apache-2.0
// Tests of the engine on a GPU. NORN_TEST_PRECISION: fp32 (the default), tf32 or bf16.
// NORN_CUDA_POOL=off: plain memory, for compute-sanitizer.
#include "tests/support/test_runtime.h"

#include <cstdlib>
#include <string>

namespace norn::test {
namespace {

std::string word_of(const char* name, const char* otherwise) {
  const char* word = std::getenv(name);
  return word == nullptr ? otherwise : word;
}

Precision test_precision() {
  return precision_named(word_of("NORN_TEST_PRECISION", "fp32")).value();
}

}  // namespace

std::unique_ptr<Runtime> make_test_runtime(int, int max_steps_in_flight) {
  GpuOptions options;
  options.precision = test_precision();
  options.max_steps_in_flight = max_steps_in_flight;
  options.memory_pool = word_of("NORN_CUDA_POOL", "on") != "off";
  options.graphs = word_of("NORN_CUDA_GRAPHS", "on") != "off";
  return std::make_unique<CudaRuntime>(options);
}

double tolerance_factor() {
  switch (test_precision().multiply) {
    case NumberFormat::float32:
      return 1.0;
    case NumberFormat::tf32:
      return 1e3;
    case NumberFormat::bfloat16:
      return 1e4;
  }
  return 1.0;
}

}  // namespace norn::test
