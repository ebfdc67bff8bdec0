// SPDX-License-Identifier: Apache-2.0
// The launcher's environment; waiting for rank 0.
#include "src/run/ranks.h"

#include "src/base/text.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <string_view>

namespace norn::run {

int ranks_on_this_host() {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view all = text;  // Slurm's may be "4(x2),3": four on each of two hosts
    const auto ranks = parse_integer(all.substr(0, all.find_first_not_of("0123456789")));
    if (ranks) return int(std::max(1LL, *ranks));
  }
  return 1;
}

std::string text_of_rank_0(Communicator& communicator, const std::string& mine) {
  const std::vector<std::byte> first =
      communicator.gather_to_all(std::as_bytes(std::span(mine))).front();
  return {reinterpret_cast<const char*>(first.data()), first.size()};
}

void rank_0_alone(Communicator& communicator, const std::function<void()>& work) {
  if (communicator.size() == 1) return work();
  constexpr auto kTurn = std::chrono::milliseconds(200);
  std::exception_ptr failure;
  std::future<void> result;
  if (communicator.rank() == 0)
    result = std::async(std::launch::async, [&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    });
  while (communicator.any(result.valid() && result.wait_for(kTurn) != std::future_status::ready)) {
  }
  if (!communicator.any(failure != nullptr)) return;
  if (failure) std::rethrow_exception(failure);
  communicator.barrier();
}

void refuse_together(Communicator& communicator, const std::function<Fault()>& work) {
  Fault fault;
  rank_0_alone(communicator, [&] { fault = work(); });
  const std::string words = text_of_rank_0(communicator, fault ? fault->what() : "");
  if (!words.empty()) throw UsageError(words);
}

}  // namespace norn::run
