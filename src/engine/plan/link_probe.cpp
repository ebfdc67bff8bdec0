// SPDX-License-Identifier: Apache-2.0
// How fast the ranks of this run exchange data, from a few collectives.
#include "src/engine/plan/step_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

namespace norn {
namespace {

constexpr int kTries = 3;
constexpr Index kRows = 64;
constexpr Index kLittle = 16;     // columns of a rank
constexpr Index kMuch = 1 << 14;  // columns of all ranks, for a start: 4 and 8 MiB
constexpr Index kMost = 1 << 18;
constexpr double kClearlyLonger = 8.0;

// Seconds of the fastest of a few tries.
template <typename Work>
double least_seconds(const Context& context, const Work& work) {
  using Clock = std::chrono::steady_clock;
  WorkQueue& queue = *context.compute.kernels.queue;
  double least = std::numeric_limits<double>::infinity();
  work();
  for (int i = 0; i < kTries; ++i) {
    context.collectives->wait_for_all(queue);
    context.communicator.barrier();
    const Clock::time_point start = Clock::now();
    work();
    context.collectives->wait_for_all(queue);
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

struct Exchange {
  double seconds = 0.0;  // of an all-gather and a reduce-scatter
  double bytes = 0.0;    // that leave a rank
};

Exchange exchange(const Context& context, Index columns) {
  const int ranks = context.communicator.size();
  std::vector<Range> shares;
  for (Index r = 0; r < ranks; ++r) shares.push_back({r * columns, (r + 1) * columns});
  Matrix<float> values = Matrix<float>::zeros(kRows, ranks * columns, context.compute.memory);
  Matrix<std::int64_t> accumulators =
      Matrix<std::int64_t>::zeros(kRows, ranks * columns, context.compute.memory);
  Exchange result;
  const std::array wholes{accumulators.view()};
  result.seconds =
      least_seconds(context,
                    [&] { context.collectives->all_gather_columns(values.view(), shares); }) +
      least_seconds(context, [&] { context.collectives->reduce_scatter_columns(wholes, shares); });
  result.bytes = double(values.bytes() + accumulators.bytes()) * double(ranks - 1) / double(ranks);
  return result;
}

}  // namespace

LinkWay measure_link(const Context& context) {
  const int ranks = context.communicator.size();
  if (ranks == 1) return {0.0, 0.0, std::numeric_limits<double>::max()};
  const Exchange little = exchange(context, kLittle);
  // So much that what a collective costs in any case does not count.
  Exchange much;
  for (Index columns = kMuch; columns <= kMost; columns *= 4) {
    much = exchange(context, std::max<Index>(columns / ranks, 2 * kLittle));
    if (context.communicator.any(much.seconds > kClearlyLonger * little.seconds)) break;
  }
  LinkWay way;
  way.start_microseconds = 1e6 * little.seconds / 2.0;
  way.gigabytes =
      1e-9 * (much.bytes - little.bytes) / std::max(much.seconds - little.seconds, 1e-9);
  return way;
}

}  // namespace norn
