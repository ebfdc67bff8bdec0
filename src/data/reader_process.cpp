// SPDX-License-Identifier: Apache-2.0
// Starts the reading process, and tells how it ended.

#include "reader_process.h"

#include "norn/base/error.h"
#include "reader_messages.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

constexpr const char* kInstallAnew = "install Norn anew, as a whole (docs/user/building.md)";

/// Where it stands below the folder that a program or the library was installed to, or built in.
const fs::path kProgram = fs::path(NORN_LIBEXEC_FOLDER) / "norn_netcdf_reader";

/// The reader that belongs to the program, or to the library that an application has loaded.
fs::path find_reader() {
  std::vector<fs::path> beside;
  std::error_code none;
  beside.push_back(fs::read_symlink("/proc/self/exe", none));
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&find_reader), &library) != 0 && library.dli_fname)
    beside.push_back(fs::weakly_canonical(library.dli_fname, none));
  for (const fs::path& one : beside) {
    fs::path folder = one.parent_path();
    while (folder.has_relative_path()) {
      if (fs::exists(folder / kProgram, none)) return folder / kProgram;
      folder = folder.parent_path();
    }
    if (fs::exists(folder / kProgram, none)) return folder / kProgram;
  }
  throw DeviceError(
      fmt::format("{}: is in no folder above {}, but files without a seal are read "
                  "with it; {}",
                  kProgram.string(), beside.front().string(), kInstallAnew));
}

/// Signals that are for the program: it decides what becomes of the run, and reads on meanwhile.
constexpr std::array kLeftToProgram = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                       SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE};
/// What a damaged file leads to.
constexpr std::array kEnds = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGXCPU};

/// Of posix_spawn(), which copies no memory, tells MPI nothing and runs no handlers of ours: the
/// program may have hundreds of gigabytes, GPUs and other ranks.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, socket, kReaderSocket);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&files_, standard, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_addclosefrom_np(&files_, kReaderSocket + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t blocked, standard;
    sigemptyset(&blocked);
    sigemptyset(&standard);
    for (const int number : kLeftToProgram) sigaddset(&blocked, number);
    for (const int number : kEnds) sigaddset(&standard, number);
    posix_spawnattr_setsigmask(&attributes_, &blocked);
    posix_spawnattr_setsigdefault(&attributes_, &standard);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

[[noreturn]] void cannot_start(int error) {
  throw DeviceError(
      fmt::format("{} could not be started: {}; check its permissions, end other programs, or "
                  "raise the limits of processes and files (ulimit -u and -n, or the job's)",
                  kProgram.filename().string(), std::strerror(error)));
}

// A file server that is started anew takes minutes.
constexpr int kMostIdleSeconds = 300;

std::string words_of_end(int status) {
  if (status < 0 || WIFEXITED(status)) return "its reader ended early";
  switch (const int number = WTERMSIG(status)) {
    case SIGXCPU:
      return "reading it comes to no end, it computes for longer than a file of its size takes";
    case SIGKILL:
      return "its reader was killed, perhaps for want of memory";
    default:
      return fmt::format("the HDF5 library crashes on it ({})", strsignal(number));
  }
}

}  // namespace

bool Patience::lasts() {
  clockid_t clock{};
  timespec used{};
  const bool known =
      ::clock_getcpuclockid(process_, &clock) == 0 && ::clock_gettime(clock, &used) == 0;
  const std::int64_t computed = known ? used.tv_sec * 1'000'000'000L + used.tv_nsec : computed_;
  idle_ = std::exchange(computed_, computed) == computed ? idle_ + 1 : 0;
  return !is_over();
}

ReaderProcess::ReaderProcess() {
  const fs::path reader = find_reader();
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) cannot_start(errno);
  const SpawnSettings settings(ends[1]);
  std::string name = reader.string();
  char* const arguments[] = {name.data(), nullptr};
  const int error = ::posix_spawn(&process_, name.c_str(), settings.files(), settings.attributes(),
                                  arguments, environ);
  ::close(ends[1]);
  socket_ = ends[0];
  const timeval second{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
  if (error == 0) return;
  ::close(socket_);
  cannot_start(error);
}

ReaderProcess::~ReaderProcess() {
  if (socket_ >= 0) ::close(socket_);
  wait();
}

std::string ReaderProcess::ask(const std::string& request, int descriptor) {
  std::string reply;
  Patience patience(process_, kMostIdleSeconds);
  if (has_ended() || !send_message(socket_, request) ||
      (descriptor >= 0 && !send_descriptor(socket_, descriptor)) ||
      !receive_message(socket_, reply, [&] { return patience.lasts(); }))
    ends(patience);
  MessageReader message(reply);
  if (message.take<std::uint8_t>() == 0) {
    doubtful_ = true;
    throw NetcdfProblem{message.take_text()};
  }
  return reply.substr(1);
}

void ReaderProcess::receive(void* elements, std::size_t bytes) {
  Patience patience(process_, kMostIdleSeconds);
  if (!receive_bytes(socket_, elements, bytes, [&] { return patience.lasts(); })) ends(patience);
}

void ReaderProcess::ends(const Patience& patience) {
  doubtful_ = true;
  ::close(std::exchange(socket_, -1));
  if (patience.is_over() && process_ > 0) ::kill(process_, SIGKILL);
  const int status = wait();
  throw NetcdfProblem{
      patience.is_over()
          ? fmt::format("nothing came of it for {} seconds; is the disk or the file server there?",
                        kMostIdleSeconds)
          : words_of_end(status)};
}

int ReaderProcess::wait() {
  const pid_t process = std::exchange(process_, -1);
  if (process <= 0) return -1;
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

}  // namespace norn
