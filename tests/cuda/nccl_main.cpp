// SPDX-License-Identifier: Apache-2.0
// The common checks of collectives on GPUs, under mpirun with a GPU for each rank, and how a rank
// that dies ends a wait. Arguments: collectives | dead-rank | dead-rank-verified | one-gpu. Prints
// "passed" as its last line.

#include "kernels/cuda.h"
#include "norn/parallel/mpi_session.h"
#include "src/engine/network/context.h"
#include "src/parallel/collectives.h"
#include "tests/parallel/collectives_checks.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace {

using namespace norn;

DeviceChoice gpus(bool peer_memory = true) {
  DeviceChoice choice;
  choice.gpu_options.peer_memory = peer_memory;
  choice.kind = DeviceChoice::Kind::cuda;
  return choice;
}

/// Through the GPUs' own memory where they reach each other's, then by NCCL alone.
void check_collectives(Communicator& world, bool peer_memory) {
  std::uint64_t seed = std::random_device{}();
  world.broadcast(std::as_writable_bytes(std::span(&seed, 1)), 0);
  const std::unique_ptr<Runtime> runtime = make_runtime(gpus(peer_memory), world);
  const Context context = runtime->context(world);
  if (world.rank() == 0)
    std::printf("%s, seed %llu\n", context.collectives->describe().c_str(),
                static_cast<unsigned long long>(seed));
  checks::expect(context.collectives->overlaps(), world, "collectives go beside other work");
  for (const bool overlaps : {false, true}) {
    checks::ThroughCollectives through(world, *context.collectives, context.compute.memory,
                                       overlaps);
    for (const checks::Check& check : checks::kChecks) {
      check.run(through, seed);
      if (world.rank() == 0) std::printf("%s%s\n", check.name, overlaps ? ", beside" : "");
    }
  }
}

/// Two ranks on one GPU, which NCCL refuses.
void check_one_gpu(MpiSession& session, Communicator& world) {
  CudaDevice device;
  const Kernels kernels = device.make_kernels();
  std::string message = "no error";
  try {
    make_gpu_collectives(world, 0, *kernels.queue, device.memory());
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  const std::size_t reason = message.find("failed: ") + 8;
  const std::size_t next = message.find("; NCCL_DEBUG");
  const std::string said =
      next > reason && next < message.size() ? message.substr(reason, next - reason) : "";
  checks::expect(message == fmt::format("rank {} of 2 (beginning): ncclCommInitRankConfig failed: "
                                        "{}; NCCL_DEBUG=INFO tells more",
                                        world.rank(), said),
                 world, message);
  world.barrier();
  if (world.rank() == 0) std::printf("%s\n", message.c_str());
  if (world.rank() == 0) std::printf("refused\n");
  std::fflush(stdout);
  world.barrier();
  session.abort(0);
}

/// Rank 0 dies: rank 1's device waits for what will not come, beside its own work and with it, and
/// is given up. In a verified step, the host waits before each collective.
void check_dead_rank(MpiSession& session, Communicator& world, bool verified) {
  const std::unique_ptr<Runtime> runtime = make_runtime(gpus(), world);
  const Context context = runtime->context(world);
  Buffer<std::int64_t> word = Buffer<std::int64_t>::zeros(1, context.compute.memory);
  Buffer<std::int64_t> own = Buffer<std::int64_t>::zeros(1, context.compute.memory);
  context.collectives->all_reduce_sum({word.data(), 1});
  context.collectives->wait_for_all(*context.compute.kernels.queue);
  world.barrier();
  if (world.rank() == 0) std::raise(SIGKILL);
  std::signal(SIGTERM, SIG_IGN);
  std::string message = "no error";
  WorkQueue& queue = *context.compute.kernels.queue;
  std::vector<std::uint64_t> brought;
  if (verified) {
    queue.make_graphs(false);
    world.set_trace(&brought);
  }
  try {
    queue.run([&] {
      context.collectives->overlap([&] { context.collectives->all_reduce_sum({word.data(), 1}); });
      own.fill_zero();
      context.collectives->wait_for_overlapped();
      context.collectives->all_reduce_sum({word.data(), 1});
    });
    context.collectives->wait_for_all(queue);
  } catch (const CommunicationError& error) {
    message = error.what();
  }
  checks::expect(message.find("is gone") != std::string::npos, world, message);
  queue.wait_for_all();  // the device is free again
  std::printf("noticed that rank 0 is gone\n");
  std::fflush(stdout);
  session.abort(int(ExitCode::communication));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  MpiSession session(&argc, &argv);
  try {
    const std::shared_ptr<Communicator> world = session.world(60);
    if (what == "one-gpu") check_one_gpu(session, *world);
    if (world->any(cuda_device_count() < world->size())) {
      if (session.rank() == 0) std::printf("skipped: fewer GPUs than ranks\n");
      return 0;
    }
    if (what == "collectives")
      for (const bool peer_memory : {true, false}) check_collectives(*world, peer_memory);
    if (what == "dead-rank" || what == "dead-rank-verified")
      check_dead_rank(session, *world, what == "dead-rank-verified");
    if (session.rank() == 0) std::printf("passed\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    session.abort(1);
  }
  return 0;
}
