// SPDX-License-Identifier: Apache-2.0
// The frame of the programs.
#include "tools/common/program.h"

#include "norn/base/atomic_file.h"
#include "norn/base/error.h"
#include "norn/base/host.h"
#include "tools/common/stop_signals.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include <fmt/format.h>

namespace norn::tools {
namespace {

struct Failure {
  std::string message;
  int exit_code = int(ExitCode::unforeseen);
  int signal = 0;        // not 0: ends as this signal would
  bool is_told = false;  // by another rank
};

// Only to be called while an exception is handled.
Failure describe_exception() {
  try {
    throw;
  } catch (const Interrupted& stop) {
    return {"stopped by a signal; what was not complete has been removed", 128 + stop.signal(),
            stop.signal()};
  } catch (const RunEnded& error) {
    return {error.what(), error.exit_code(), 0, true};
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

// One of several ranks ends all of them, and says why, unless another one does.
[[noreturn]] void end_all(const Failure& failure, const std::string& program, MpiSession& session) {
  std::signal(SIGTERM, SIG_IGN);  // the launcher ends those that are left when a rank has died
  const int rank = session.rank();
  // Ranks take turns; an error of the command line or of a file strikes all alike, and then rank 0
  // speaks for them. A collective that fails is often the consequence of another rank's error.
  double patience = rank == 0 ? 0.0 : 0.4 + 0.1 * std::min(rank, 10);
  if (failure.exit_code == int(ExitCode::communication)) patience = 0.1 + 0.1 * std::min(rank, 10);
  const std::optional<int> told =
      failure.is_told ? failure.exit_code : session.ended_by_another(patience);
  if (told) {
    std::signal(SIGTERM, SIG_DFL);
    std::this_thread::sleep_for(std::chrono::seconds(3));  // until the launcher ends this rank
    std::_Exit(*told);
  }
  std::string message = failure.message;
  const Place place = session.place();
  const bool is_named = failure.exit_code == int(ExitCode::communication);
  if (!is_named && place.text() != Place().text())
    message +=
        fmt::format(" [rank {} of {} on {}: {}]", rank, session.size(), host_name(), place.text());
  print_error(program, rank, message);
  session.abort(failure.exit_code);
}

int end_with(const Failure& failure, const std::string& program, MpiSession* session) {
  if (session && session->size() > 1) end_all(failure, program, *session);
  print_error(program, 0, failure.message);
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
              "what to compute on; auto: GPUs when there is one where each rank runs");
  line.option("--gpu", "", "N", gpu,
              "which GPU, from 0, of all ranks; without it the ranks of a machine take turns");
  line.choice("--precision", "", {"fp32", "tf32", "bf16"}, precision,
              "operands of dense products on a GPU; weights and sums are float32 in each");
  line.option("--threads", "", "N", threads, "threads to compute with on the CPU; 0: one a core");
  line.option("--collective-timeout", "", "SECONDS", collective_timeout,
              "end the run when another rank has not come to where this one waits for it so long");
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
  if (gpu && *gpu < 0)
    throw UsageError(fmt::format("--gpu {} is out of range: it must be at least 0", *gpu));
  if (!(collective_timeout > 0.0))
    throw UsageError(fmt::format("--collective-timeout {:g} is out of range: it must be above 0",
                                 collective_timeout));
}

std::unique_ptr<Runtime> RunOptions::make_runtime(Communicator& communicator) const {
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
  choice.cuda.precision = precision_named(precision).value();
  choice.cuda.memory_pool = !off("NORN_CUDA_POOL");
  choice.cuda.graphs = !off("NORN_CUDA_GRAPHS");
  return norn::make_runtime(choice, communicator);
}

OutputGuard::OutputGuard(std::filesystem::path output) : output_(std::move(output)) {}

OutputGuard::~OutputGuard() {
  if (std::uncaught_exceptions() > 0) remove_abandoned(output_);
}

int run_program(int argc, char** argv, const std::string& program,
                const std::function<int(MpiSession&)>& body) {
  try {
    MpiSession session(&argc, &argv);
    try {
      const int code = body(session);
      session.finish();
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
