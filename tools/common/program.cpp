// SPDX-License-Identifier: Apache-2.0
// The frame of the programs.
#include "tools/common/program.h"

#include "norn/base/error.h"
#include "tools/common/stop_signals.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include <fmt/format.h>

namespace norn::tools {
namespace {

struct Failure {
  std::string message;
  int exit_code = int(ExitCode::unforeseen);
  int signal = 0;  // not 0: ends as this signal would
};

// Only to be called while an exception is handled.
Failure describe_exception() {
  try {
    throw;
  } catch (const Interrupted& stop) {
    return {"stopped by a signal; what was not complete has been removed", 128 + stop.signal(),
            stop.signal()};
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const std::bad_alloc&) {
    return {"there is not enough memory; use a smaller --batch, fewer threads or a larger machine",
            int(ExitCode::device)};
  } catch (const std::exception& error) {
    return {fmt::format("unforeseen: {}", error.what())};
  } catch (...) {
    return {"unforeseen: an exception of unknown type"};
  }
}

// A message may hold several errors, a line each.
void print_error(const std::string& program, int rank, const std::string& message) {
  const std::string mark = rank == 0 ? std::string() : fmt::format("[rank {}] ", rank);
  std::string text;
  std::size_t at = 0;
  while (at <= message.size()) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    if (end > at || at == 0)
      text += fmt::format("{}: error: {}{}\n", program, mark, message.substr(at, end - at));
    at = end + 1;
  }
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
}

int end_with(const Failure& failure, const std::string& program, MpiSession* session) {
  const int rank = session ? session->rank() : 0;
  // An error of the command line or of a file strikes all ranks alike: rank 0 speaks for them.
  if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  print_error(program, rank, failure.message);
  if (session && session->size() > 1) session->abort(failure.exit_code);
  if (failure.signal != 0) {
    std::signal(failure.signal, SIG_DFL);
    std::raise(failure.signal);
  }
  return failure.exit_code;
}

}  // namespace

void RunOptions::add_to(CommandLine& line) {
  line.section("Running");
  line.choice("--device", "", {"auto", "cpu", "cuda"}, device,
              "what to compute on; auto: a GPU when there is one and the run has one rank");
  line.option("--gpu", "", "N", gpu, "which GPU, from 0");
  line.choice("--precision", "", {"fp32", "tf32", "bf16"}, precision,
              "operands of dense products on a GPU; weights and sums are float32 in each");
  line.option("--threads", "", "N", threads, "threads to compute with on the CPU; 0: one a core");
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

void RunOptions::check() const {
  if (threads < 0)
    throw UsageError(fmt::format("--threads {} is out of range: it must be at least 0", threads));
  if (gpu < 0)
    throw UsageError(fmt::format("--gpu {} is out of range: it must be at least 0", gpu));
}

std::unique_ptr<Runtime> RunOptions::make_runtime(int ranks) const {
  const auto off = [](const char* name) {
    const char* word = std::getenv(name);
    return word != nullptr && std::string_view(word) == "off";
  };
  DeviceChoice choice;
  choice.kind = device == "cpu"    ? DeviceChoice::Kind::cpu
                : device == "cuda" ? DeviceChoice::Kind::cuda
                                   : DeviceChoice::Kind::automatic;
  choice.threads = threads;
  choice.cuda.device = gpu;
  choice.cuda.precision = precision_named(precision).value();
  choice.cuda.memory_pool = !off("NORN_CUDA_POOL");
  choice.cuda.graphs = !off("NORN_CUDA_GRAPHS");
  return norn::make_runtime(choice, ranks);
}

int run_program(int argc, char** argv, const std::string& program,
                const std::function<int(MpiSession&)>& body) {
  try {
    MpiSession session(&argc, &argv);
    try {
      const int code = body(session);
      if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw DataError("standard output: could not be written; is the disk full?");
      return code;
    } catch (...) {
      return end_with(describe_exception(), program, &session);
    }
  } catch (...) {
    return end_with(describe_exception(), program, nullptr);
  }
}

}  // namespace norn::tools
