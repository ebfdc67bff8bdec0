// SPDX-License-Identifier: Apache-2.0
// The frame of the programs.
#include "tools/common/program.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/host.h"
#include "tools/common/error_report.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace norn::tools {
namespace {

// Who is told of a failure, and how.
struct Listeners {
  ErrorFormat format = ErrorFormat::text;
  const FailureSink& failed;
};

void tell(const Failure& failure, const Speaker& speaker, const Listeners& listeners) {
  if (listeners.failed) listeners.failed(failure_message(failure, speaker), failure.exit_code);
  const std::string text = listeners.format == ErrorFormat::json ? failure_json(failure, speaker)
                                                                 : failure_text(failure, speaker);
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
}

// One of several ranks ends all of them, and says why, unless another one does.
[[noreturn]] void end_all(const Failure& failure, Speaker speaker, const Listeners& listeners,
                          MpiSession& session) {
  std::signal(SIGTERM, SIG_IGN);  // the launcher ends those that are left when a rank has died
  const int rank = session.rank();
  // An error of the command line or of a file strikes all alike, and then rank 0 speaks for them.
  const std::optional<int> told =
      failure.is_told ? failure.exit_code : session.ended_by_another(failure.exit_code);
  if (told) {
    std::signal(SIGTERM, SIG_DFL);
    session.wait_to_be_ended();
    std::_Exit(*told);
  }
  const Place place = session.place();
  speaker.rank = rank;
  speaker.ranks = session.size();
  const bool is_named = failure.exit_code == int(ExitCode::communication);
  if (!is_named && place.text() != Place().text()) {
    speaker.host = host_name();
    speaker.place = place.text();
  }
  tell(failure, speaker, listeners);
  session.abort(failure.exit_code);
}

int end_with(const Failure& failure, const std::string& program, const Listeners& listeners,
             MpiSession* session) {
  if (session && session->size() > 1) end_all(failure, {program}, listeners, *session);
  tell(failure, {program}, listeners);
  if (failure.signal != 0) {
    std::signal(failure.signal, SIG_DFL);
    std::raise(failure.signal);
  }
  return failure.exit_code;
}

// A stop after a checkpoint is no error: the console has said so in words, and programs are told in
// their way.
void tell_of_stop(const std::string& program, const MpiSession& session) {
  if (session.rank() != 0) return;
  const Problem problem{
      {}, 0, 0, {}, "stopped by a signal after a checkpoint; run the same command with --resume"};
  Speaker speaker{program};
  speaker.ranks = session.size();
  std::fputs(failure_json({{problem}, int(ExitCode::stopped)}, speaker).c_str(), stderr);
}

// Of a pipe that standard output is: the trainer, which ignores SIGPIPE, has done its work all the
// same.
bool reader_has_gone() {
  struct stat output {};
  if (::fstat(STDOUT_FILENO, &output) != 0) return false;
  if (!S_ISFIFO(output.st_mode) && !S_ISSOCK(output.st_mode)) return false;
  pollfd reader{STDOUT_FILENO, 0, 0};
  return ::poll(&reader, 1, 0) == 1 && (reader.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

OutputGuard::OutputGuard(std::filesystem::path output) : output_(std::move(output)) {}

OutputGuard::~OutputGuard() {
  if (std::uncaught_exceptions() > 0) remove_abandoned(output_);
}

int run_program(int argc, char** argv, const std::string& program,
                const std::function<int(MpiSession&)>& body, const FailureSink& failed) {
  const Listeners listeners{error_format(argc, argv), failed};
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that may not grow fails as on a full disk, with a message
  std::signal(SIGPIPE, SIG_DFL);  // a reader that goes is no failure, whoever started the program
  try {
    MpiSession session(&argc, &argv);
    try {
      const int code = body(session);
      session.finish();
      // A terminal that was closed takes no lines, and a run that it stopped has its checkpoint.
      const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
      if (lost && code != int(ExitCode::stopped) && !reader_has_gone())
        throw DataError("standard output: could not be written; is the disk full?");
      if (code == int(ExitCode::stopped) && listeners.format == ErrorFormat::json)
        tell_of_stop(program, session);
      return code;
    } catch (...) {
      return end_with(describe_exception(), program, listeners, &session);
    }
  } catch (...) {
    return end_with(describe_exception(), program, listeners, nullptr);
  }
}

}  // namespace norn::tools
