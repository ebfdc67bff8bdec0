// SPDX-License-Identifier: Apache-2.0
// How long the collectives of a step take on several GPUs: mpirun -n 4 collectives_bench.
// --nccl measures NCCL alone.
#include "norn/parallel/mpi_session.h"
#include "src/engine/network/context.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace norn::bench {
namespace {

constexpr int kInGraph = 20;

struct Options {
  Index batch = 1024;
  Index units = 1536;
  int runs = 15;
  bool nccl = false;
};

class CollectivesBench {
 public:
  CollectivesBench(const Options& options, Communicator& world, const Context& context)
      : options_(options), world_(world), context_(context) {
    const Index each = (options.units + world.size() - 1) / world.size();
    for (int r = 0; r < world.size(); ++r)
      shares_.push_back(
          {std::min(options.units, r * each), std::min(options.units, (r + 1) * each)});
  }

  void run() {
    const Index rows = options_.batch;
    const Index elements = rows * options_.units;
    Memory& memory = context_.compute.memory;
    Collectives& collectives = *context_.collectives;
    if (world_.rank() == 0)
      std::printf("%s, %d ranks, %lld examples of %lld units; GB/s: what a rank receives\n",
                  collectives.describe().c_str(), world_.size(), (long long)rows,
                  (long long)options_.units);
    const double others = double(elements) * double(world_.size() - 1) / double(world_.size());

    auto bf16 = Buffer<Bfloat16>::zeros(elements, memory);
    measure("gather, bf16", 2 * others, [&] {
      collectives.all_gather_columns(
          MatrixView<Bfloat16>{bf16.data(), rows, options_.units, options_.units}, shares_);
    });
    auto partial_sums = Buffer<float>::zeros(elements, memory);
    const MatrixView<float> whole{partial_sums.data(), rows, options_.units, options_.units};
    measure("gather, float", 4 * others, [&] { collectives.all_gather_columns(whole, shares_); });
    if (collectives.exchanges()) {
      const std::array<MatrixView<const float>, 1> mine{whole};
      const std::vector<Index> counts(std::size_t(world_.size()), 1);
      measure("exchange of a term", 4 * others,
              [&] { collectives.exchange_columns(mine, rows, counts, shares_); });
    }
    auto accumulators = Buffer<std::int64_t>::zeros(elements, memory);
    const std::array all{
        MatrixView<std::int64_t>{accumulators.data(), rows, options_.units, options_.units}};
    measure("reduce-scatter of words", 8 * others,
            [&] { collectives.reduce_scatter_columns(all, shares_); });
    const auto small = std::size_t(3 * rows);
    measure("sum of 3 words a row", 0, [&] {
      collectives.all_reduce_sum({accumulators.data(), small});
    });
    measure("sum of 4 words", 0, [&] { collectives.all_reduce_sum({accumulators.data(), 4}); });
    measure("maximum of one", 0, [&] { collectives.all_reduce_max({partial_sums.data(), 1}); });
  }

 private:
  void measure(const char* name, double bytes, const std::function<void()>& collective) {
    WorkQueue& queue = *context_.compute.kernels.queue;
    std::vector<double> times;
    for (int i = 0; i < options_.runs + 2; ++i) {
      world_.barrier();
      const auto start = std::chrono::steady_clock::now();
      queue.run([&] {
        for (int k = 0; k < kInGraph; ++k) collective();
      });
      context_.collectives->wait_for_all(queue);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      if (i >= 2) times.push_back(time.count() / kInGraph);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    if (world_.rank() == 0)
      std::printf("  %-26s %8.1f us %s\n", name, 1e6 * median,
                  bytes > 0 ? fmt::format("{:6.0f} GB/s", 1e-9 * bytes / median).c_str() : "");
  }

  const Options& options_;
  Communicator& world_;
  const Context& context_;
  std::vector<Range> shares_;
};

void run(const Options& options, Communicator& world) {
  DeviceChoice choice;
  choice.kind = DeviceChoice::Kind::cuda;
  choice.gpu_options.peer_memory = !options.nccl;
  const std::unique_ptr<Runtime> runtime = make_runtime(choice, world);
  const Context context = runtime->context(world);
  CollectivesBench(options, world, context).run();
}

}  // namespace
}  // namespace norn::bench

int main(int argc, char** argv) {
  norn::MpiSession session(&argc, &argv);
  norn::bench::Options options;
  CLI::App app("Times the collectives of a step on several GPUs.");
  app.add_option("--batch", options.batch, "rows of a matrix")->capture_default_str();
  app.add_option("--units", options.units, "columns of a matrix")->capture_default_str();
  app.add_option("--runs", options.runs, "graphs of 20 collectives")->capture_default_str();
  app.add_flag("--nccl", options.nccl, "leave all to NCCL");
  CLI11_PARSE(app, argc, argv);
  try {
    norn::bench::run(options, *session.world(60));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collectives_bench: %s\n", error.what());
    session.abort(1);
  }
  return 0;
}
