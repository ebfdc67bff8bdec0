// SPDX-License-Identifier: Apache-2.0
// Options of every program that computes; it is these that all layers and their libraries are
// needed for.
#include "tools/common/run_options.h"

#include "kernels/precisions.h"
#include "norn/base/error.h"
#include "tools/common/version.h"

#include <cstdlib>
#include <string_view>

namespace norn::tools {

void RunOptions::add_to(CommandLine& line) {
  line.uses(library_versions);
  line.section("Running", true);
  const auto noted = [](Option& option, bool& given) {
    option.set = [set = option.set, &given](const std::string& value) {
      given = true;
      set(value);
    };
  };
  Option& kind =
      line.choice("--device", "", {"auto", "cpu", "cuda"}, device,
                  "what to compute on; auto: GPUs when there is one where each rank runs");
  noted(kind, device_given);
  kind.for_trials = true;
  line.option("--gpu", "", "N", gpu,
              "which GPU, from 0, of all ranks; without it the ranks of a machine take turns");
  Option& products =
      line.choice("--precision", "", precision_names(), precision,
                  "operands of dense products on a GPU; weights and sums are float32 in each");
  noted(products, precision_given);
  products.for_trials = true;
  line.option("--threads", "", "N", threads, "threads to compute with on the CPU; 0: one a core");
  line.option("--collective-timeout", "", "SECONDS", collective_timeout,
              "end the run when another rank has not come to where this one waits for it so long")
      .for_trials = true;
  line.toggle("--quiet", "-q", quiet, "warnings and errors only, no progress");
  line.toggle("--verbose", "-v", verbose, "say more");
  line.choice("--log-level", "", {"debug", "info", "warning"}, log_level,
              "what to say on stderr, from this level on");
}

LogLevel RunOptions::level() const {
  if (quiet) return LogLevel::warning;
  if (verbose || log_level == "debug") return LogLevel::debug;
  return log_level == "warning" ? LogLevel::warning : LogLevel::info;
}

void RunOptions::check(OptionFaults& faults) const {
  faults.require_at_least<int>(0, "--threads", threads);
  faults.require_at_least<int>(0, "--gpu", gpu);
  faults.require_range(collective_timeout > 0.0, "--collective-timeout", collective_timeout,
                       "above 0");
}

DeviceChoice RunOptions::device_choice() const {
  const auto off = [](const char* name) {
    const char* word = std::getenv(name);
    return word != nullptr && std::string_view(word) == "off";
  };
  DeviceChoice choice;
  choice.kind = device == "cpu"    ? DeviceChoice::Kind::cpu
                : device == "cuda" ? DeviceChoice::Kind::cuda
                                   : DeviceChoice::Kind::automatic;
  choice.threads = threads;
  choice.gpu = gpu;
  choice.gpu_options.precision = precision_named(precision).value();
  choice.gpu_options.memory_pool = !off("NORN_CUDA_POOL");
  choice.gpu_options.graphs = !off("NORN_CUDA_GRAPHS");
  choice.gpu_options.peer_memory = !off("NORN_PEER_MEMORY");
  return choice;
}

void add_trust_index(CommandLine& line, bool& trust_index) {
  line.toggle("--trust-index", "", trust_index,
              "take unit u of the data for unit u of the model, whatever labels say; without it "
              "features are matched by label, and data that cannot be matched are refused")
      .for_trials = true;
}

}  // namespace norn::tools
