// SPDX-License-Identifier: Apache-2.0
// The common checks under mpirun, and what a late or failing rank does to the others.
// Arguments: beginning | collectives RANKS | time-limit | late-end | failing-rank | dead-rank |
// ended-run | ended-early. Prints "passed" as its last line.

#include "communicator_checks.h"
#include "mpi_c_api.h"
#include "mpi_communicator.h"
#include "norn/parallel/mpi_session.h"
#include "src/base/host.h"
#include "src/parallel/communicator.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <utility>

namespace {

/// What MPI_Init_thread answers in the test of it.
enum class Answer { as_it_is, refuses, single };
Answer init_answer = Answer::as_it_is;

}  // namespace

// In place of the library's, as MPI's profiling interface allows.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  if (init_answer == Answer::refuses) return MPI_ERR_OTHER;
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  if (init_answer == Answer::single) *provided = MPI_THREAD_SINGLE;
  return result;
}

namespace {

using namespace norn;

// Seconds that ranks wait for one that stays away: more than two of them need, on a busy machine,
// to come to where they meet.
constexpr double kSoon = 3;

/// The seed of rank 0, on all ranks.
std::uint64_t common_seed(Communicator& ranks) {
  std::uint64_t seed = std::random_device{}();
  ranks.broadcast(std::as_writable_bytes(std::span(&seed, 1)), 0);
  if (ranks.rank() == 0) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

void run_checks(Communicator& ranks) {
  const std::uint64_t seed = common_seed(ranks);
  for (const checks::Check& check : checks::kChecks) {
    check.run(ranks, seed);
    if (ranks.rank() == 0) std::printf("%s: %s\n", ranks.describe().c_str(), check.name);
  }
}

/// Messages that hold not even one element: each travels alone.
void check_smallest_messages(Communicator& ranks, std::uint64_t seed) {
  const std::int64_t size = ranks.size();
  std::vector<std::int64_t> sums = {1, -2, 3};
  ranks.all_reduce_sum(sums);
  checks::expect(sums == std::vector<std::int64_t>{size, -2 * size, 3 * size}, ranks, "wrong sum");
  std::vector<std::byte> sent(5, std::byte(ranks.rank() == 0 ? 9 : 0));
  ranks.broadcast(sent, 0);
  checks::expect(sent == std::vector<std::byte>(5, std::byte(9)), ranks, "wrong bytes");
  for (const auto& shares : checks::cuts(ranks.size(), 4, seed)) {
    const Range mine = shares[std::size_t(ranks.rank())];
    std::vector<float> gathered(8, -1);
    std::vector<std::int64_t> scattered = {1, 2, 3, 4, 5, 6, 7, 8};
    for (Index c = mine.begin; c < mine.end; ++c)
      gathered[std::size_t(c)] = gathered[std::size_t(4 + c)] = float(c);
    ranks.all_gather_columns(MatrixView<float>{gathered.data(), 2, 4, 4}, shares);
    checks::expect(gathered == std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3}, ranks, "wrong columns");
    ranks.reduce_scatter_columns(MatrixView<std::int64_t>{scattered.data(), 2, 4, 4}, shares);
    for (Index c = mine.begin; c < mine.end; ++c)
      checks::expect(scattered[std::size_t(4 + c)] == size * (5 + c), ranks, "wrong sum");
  }
}

void check_collectives(MpiSession& session, int expected_ranks) {
  const std::shared_ptr<Communicator> world = session.world(60);
  checks::expect(world->size() == expected_ranks && session.size() == expected_ranks, *world,
                 "expected " + std::to_string(expected_ranks) + " ranks");
  run_checks(*world);
  std::string message = "no error";
  try {
    const MpiSession another(nullptr, nullptr);
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  checks::expect(message == "MPI is begun already; make one MpiSession", *world, message);
  if (world->size() == 1) return;
  check_smallest_messages(*make_mpi_world(60, std::make_shared<WorldState>(), 1),
                          common_seed(*world));
  // Messages of a few bytes: every collective is cut into many.
  for (std::size_t bytes : {std::size_t(100), std::size_t(4096)}) {
    const auto cut = make_mpi_world(60, std::make_shared<WorldState>(), bytes);
    run_checks(*cut);
  }
}

/// An MPI that does not begin, and one that allows no threads.
void check_beginning() {
  for (const auto& [answer, expected] :
       {std::pair{Answer::refuses, "MPI_Init_thread failed; check the launcher and its host list"},
        std::pair{Answer::single,
                  "this MPI cannot be used by a program with threads; use another build"}}) {
    init_answer = answer;
    std::string message = "no error";
    try {
      const MpiSession session(nullptr, nullptr);
    } catch (const CommunicationError& error) {
      message = error.what();
    }
    if (message != expected) throw std::runtime_error(message);
  }
  std::printf("passed\n");
}

/// Rank 0 stays away from a barrier: the others must give up, naming themselves and the barrier.
void check_time_limit(MpiSession& session) {
  const std::shared_ptr<Communicator> world = session.world(kSoon);
  if (world->rank() == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(20));  // ended by rank 1
    return;
  }
  world->set_place({"training", 2, 17});
  std::string message = "no error";
  try {
    world->barrier();
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  checks::expect(message.find("rank 1 of 2 on " + host_name() +
                              " (training, epoch 2, batch 17): barrier did not complete in 3 s: "
                              "another rank is stuck") == 0,
                 *world, message);
  message = "no error";
  try {
    world->barrier();
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  checks::expect(message == "rank 1 of 2 on " + host_name() +
                                " (training, epoch 2, batch 17): barrier is not possible after a "
                                "collective that failed; end the program",
                 *world, message);
  std::printf("passed\n");
  std::fflush(stdout);
  session.abort(int(ExitCode::communication));
}

/// Rank 0 never comes to its end: rank 1 does not wait for it for ever.
void check_late_end(MpiSession& session) {
  session.world(kSoon)->barrier();
  if (session.rank() == 0)
    std::this_thread::sleep_for(std::chrono::seconds(20));  // ended by rank 1
  std::string message = "no error";
  try {
    session.finish();
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  std::printf("%s\n", message.c_str());
  std::fflush(stdout);
  session.abort(int(ExitCode::communication));
}

/// Rank 0 dies without a word: the others notice long before their time is up, and name it. Where
/// the launcher ends them first, it has named it.
void check_dead_rank(MpiSession& session) {
  const std::shared_ptr<Communicator> world = session.world(100);
  world->barrier();
  if (world->rank() == 0) std::raise(SIGKILL);
  std::signal(SIGTERM, SIG_IGN);
  std::string message = "no error";
  try {
    world->barrier();
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  checks::expect(message.find("barrier cannot complete: rank 0 on " + host_name() + " (process ") !=
                         std::string::npos &&
                     message.find("is gone") != std::string::npos,
                 *world, message);
  std::printf("noticed that rank 0 is gone\n");
  std::fflush(stdout);
  session.abort(int(ExitCode::communication));
}

/// Rank 1 ends the run: rank 0's collective ends at once with its exit code.
void check_ended_run(MpiSession& session) {
  const std::shared_ptr<Communicator> world = session.world(100);
  std::signal(SIGTERM, SIG_IGN);
  if (world->rank() == 1) session.abort(int(ExitCode::data));
  try {
    world->barrier();
  } catch (const RunEnded& error) {
    checks::expect(error.code() == ExitCode::data, *world, error.what());
    std::printf("told: %s\n", error.what());
    std::fflush(stdout);
  }
  std::this_thread::sleep_for(std::chrono::seconds(20));  // ended by the launcher
}

/// Rank 1 ends the run before it joins the world, which rank 0 waits for.
void check_ended_early(MpiSession& session) {
  std::signal(SIGTERM, SIG_IGN);
  if (session.rank() == 1) session.abort(int(ExitCode::usage));
  try {
    session.world(100);
  } catch (const RunEnded& error) {
    std::printf("told: %s\n", error.what());
    std::fflush(stdout);
    _exit(error.code() == ExitCode::usage ? 0 : 1);
  }
  std::printf("rank 0 was not told\n");
}

/// Rank 1 fails with an exception that ends its session; mpirun must end rank 0 as well.
void check_failing_rank(MpiSession& session) {
  const std::shared_ptr<Communicator> world = session.world(60);
  world->barrier();
  if (world->rank() == 1) throw DataError("trouble of rank 1");
  world->barrier();
  std::printf("rank 0 was not ended\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "beginning") {
      check_beginning();
      return 0;
    }
    std::shared_ptr<Communicator> outlives_the_session;
    MpiSession session(&argc, &argv);
    if (what == "collectives") outlives_the_session = session.world();
    if (what == "collectives") check_collectives(session, std::stoi(argv[2]));
    if (what == "time-limit") check_time_limit(session);
    if (what == "late-end") check_late_end(session);
    if (what == "dead-rank") check_dead_rank(session);
    if (what == "ended-run") check_ended_run(session);
    if (what == "ended-early") check_ended_early(session);
    if (what == "failing-rank") check_failing_rank(session);
    if (session.rank() == 0) std::printf("passed\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
