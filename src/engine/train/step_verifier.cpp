// SPDX-License-Identifier: Apache-2.0
// Steps made twice.
#include "src/engine/train/step_verifier.h"

#include "norn/base/error.h"
#include "src/base/host.h"
#include "src/base/text.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr std::int64_t kEqual = std::numeric_limits<std::int64_t>::max();

// Where two runs of a step part on one rank: the number of the first collective to which it brought
// something else, or the number of collectives when only what it keeps differs.
std::int64_t parting(const std::vector<std::uint64_t>& first,
                     const std::vector<std::uint64_t>& second, bool keeps_the_same) {
  const auto differ = std::ranges::mismatch(first, second);
  if (differ.in1 != first.end() || differ.in2 != second.end()) return differ.in1 - first.begin();
  return keeps_the_same ? kEqual : std::int64_t(first.size());
}

bool equal(const FixedSum& a, const FixedSum& b) {
  return a.high() == b.high() && a.low() == b.low() && a.magnitude() == b.magnitude();
}

}  // namespace

StepVerifier::StepVerifier(Network& network, std::string device)
    : network_(network),
      device_(std::move(device)),
      before_(network, network.context().compute.memory),
      sum_(1, network.context().compute.memory) {}

FixedSum StepVerifier::train_step(const BoundBatch& batch, const StepPosition& position) {
  before_.take();
  const Result first = compute(batch, position);
  before_.put_back();
  const Result second = compute(batch, position);
  require_equal(first, second, position);
  if (second.divergence) std::rethrow_exception(second.divergence);
  return second.cost;
}

StepVerifier::Result StepVerifier::compute(const BoundBatch& batch, const StepPosition& position) {
  Result result;
  const Compute& compute = network_.context().compute;
  Communicator& ranks = network_.context().communicator;
  // What a rank brings to a collective is read when it is made, so a GPU makes no graph of it.
  const bool graphs = compute.kernels.queue->make_graphs(ranks.size() == 1);
  ranks.set_trace(&result.brought);
  try {
    result.cost = network_.train_step(batch, position);
  } catch (const DivergenceError&) {  // on all ranks; a wrong number may be one that is not finite
    result.divergence = std::current_exception();
  } catch (...) {
    ranks.set_trace(nullptr);
    throw;
  }
  ranks.set_trace(nullptr);
  compute.kernels.queue->make_graphs(graphs);
  for (const StateCopy::Region& region : before_.regions()) {
    sum_.fill_zero();
    compute.kernels.pointwise->checksum({region.data, region.bytes}, sum_.data());
    std::uint64_t sum = 0;
    sum_.read(&sum, 1);
    // Regions that change places would give the same plain sum.
    result.state = (result.state ^ sum) * 0xd1342543de82ef95ULL + 1;
  }
  return result;
}

void StepVerifier::require_equal(const Result& first, const Result& second,
                                 const StepPosition& position) {
  Communicator& ranks = network_.context().communicator;
  const bool same_end = !first.divergence == !second.divergence;
  const bool same_cost = !same_end || first.divergence || equal(first.cost, second.cost);
  const std::int64_t mine =
      parting(first.brought, second.brought, first.state == second.state && same_end && same_cost);
  // The rank that parted first did so from the same input: what the others saw differs after it.
  const std::string name =
      fmt::format("rank {} of {} on {} ({})", ranks.rank(), ranks.size(), host_name(), device_);
  std::vector<std::byte> record(sizeof(mine) + name.size());
  std::memcpy(record.data(), &mine, sizeof(mine));
  std::memcpy(record.data() + sizeof(mine), name.data(), name.size());
  std::int64_t earliest = kEqual;
  std::vector<std::string> names;
  for (const std::vector<std::byte>& other : ranks.gather_to_all(record)) {
    std::int64_t theirs = kEqual;
    std::memcpy(&theirs, other.data(), sizeof(theirs));
    if (theirs > earliest || theirs == kEqual) continue;
    if (theirs < earliest) names.clear();
    earliest = theirs;
    names.emplace_back(reinterpret_cast<const char*>(other.data()) + sizeof(theirs),
                       other.size() - sizeof(theirs));
  }
  if (names.empty()) return;
  throw DeviceError(fmt::format(
      "{}: step {} ({}) was computed twice from the same state with different results: this is a "
      "fault of the hardware; no checkpoint holds the result; leave this machine out and resume "
      "from the last checkpoint, if there is one",
      join(names), position.step + 1, ranks.place().text()));
}

}  // namespace norn
