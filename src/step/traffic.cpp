// SPDX-License-Identifier: Apache-2.0
// Counts of collectives that several ops share, of the rank with the most units.
#include "src/step/traffic.h"

#include "src/parallel/collectives.h"
#include "src/step/work.h"

#include <algorithm>
#include <numeric>

namespace norn::step {

// Every owner's share is copied for itself.
void TrafficList::pack(int layer, double element, double matrices) {
  const double owners = double(std::min<Index>(facts_.ranks(), facts_.partition(layer).blocks()));
  list_.back().packed = 2.0 * matrices * element * elements(layer);
  list_.back().packings = matrices * owners;
}

// Uneven shares: one rank's goes around as it stands, and so it does on CPUs, which need not fill
// up the small ones.
void TrafficList::gather(const char* stage, int layer, double bytes) {
  const double all = double(facts_.ranks()) * largest_share(layer);
  const bool one_owner = facts_.units(layer) == facts_.layer(layer).units();
  const bool passed_on = one_owner || (!facts_.on_gpu() && all > 1.0);
  add({stage, Kind::all_gather, bytes, passed_on ? bytes : bytes * all, passed_on});
}

void TrafficList::gather_columns(const char* stage, int layer, double element) {
  const double bytes = elements(layer) * element;
  gather(stage, layer, bytes);
  pack(layer, element, 1.0);
  const Index nccl = nccl_workspace(facts_.batch(), facts_.shares(layer), Index(element), 0);
  need_memory(nccl, Index(bytes));
}

void TrafficList::gather_rows(const char* stage, int layer, double element) {
  const double bytes = elements(layer) * element;
  const double all = double(facts_.ranks()) * largest_share_of_rows();
  const bool passed_on = !facts_.on_gpu() && all > 1.0;
  add({stage, Kind::all_gather, bytes, passed_on ? bytes : bytes * all, passed_on});
}

void TrafficList::terms(const char* stage, int layer, double bytes) {
  const std::vector<Index> runs = facts_.filled_runs(facts_.batch());
  const double all = double(std::accumulate(runs.begin(), runs.end(), Index(0)));
  const double own = largest_share(layer);
  const auto mine = double(runs[0]);
  const double busiest = bytes * std::max(mine * (1.0 - own), (all - mine) * own);
  const auto ranks = double(facts_.ranks());
  add({stage, Kind::exchange, bytes * all, busiest * ranks / (ranks - 1.0)});
}

// CPUs look first whether coarse accumulators were used; a GPU adds up both.
void TrafficList::accumulators(const char* stage, int layer) {
  const double bytes = elements(layer) * kWord * (facts_.on_gpu() ? 2.0 : 1.0);
  if (!facts_.on_gpu()) all_reduce(stage, 2.0 * kWord);
  const double share = facts_.by_example(layer) ? largest_share_of_rows() : largest_share(layer);
  add({stage, Kind::reduce_scatter, bytes, bytes * double(facts_.ranks()) * share});
  pack(layer, kWord, 2.0);
  const Index received = nccl_workspace(facts_.batch(), facts_.shares(layer), 0, 2);
  need_memory(received, received);
}

// Each rank sends its partial sums to the owners of their columns; rank 0 has the most of both.
void TrafficList::partial_sums(const char* stage, int layer) {
  const double own = largest_share(layer);
  const auto mine = double(facts_.partial_sums_of_rank(layer, 0));
  const auto all = double(facts_.delta_partial_sums(layer));
  const double term = elements(layer) * kFloat;
  const double busiest = term * std::max(mine * (1.0 - own), (all - mine) * own);
  const auto ranks = double(facts_.ranks());
  add({stage, Kind::exchange, term * all, busiest * ranks / (ranks - 1.0)});
  pack(layer, kFloat, mine);
  const Index received = nccl_exchange_workspace(facts_.batch(), facts_.partial_sums_by_rank(layer),
                                                 facts_.shares(layer));
  need_memory(received, received);
}

}  // namespace norn::step
