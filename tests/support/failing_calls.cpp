// SPDX-License-Identifier: Apache-2.0
// A library that stands before a program's own (LD_PRELOAD) and makes one call to the system fail,
// or wait. Environment:
//
// FAILING_CALL=CALL:PART:N:WHAT: the Nth CALL on a path that has PART in it; N+: all from it on.
// WHAT is the number of an error, or "wait": until the file FAILING_CALL_GATE is gone, and while it
// waits FAILING_CALL_GATE.PROCESS stands.
//
// FAILING_CALL_COUNTS=FILE: at its end a process appends a line "CALL count" for each kind of call,
// of those on paths that have PART in them.
//
// A relative path counts as its absolute one. mmap and thread know no path: any PART fits. Threads
// are those of C++ alone, not those that libraries begin for themselves.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum class Call {
  open,
  read,
  write,
  stream,
  fsync,
  rename,
  unlink,
  truncate,
  readdir,
  mmap,
  thread
};
constexpr std::array<const char*, 11> kNames = {"open",    "read",   "write",  "stream",
                                                "fsync",   "rename", "unlink", "truncate",
                                                "readdir", "mmap",   "thread"};

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Plan {
  Plan() {
    const std::string text = from_environment("FAILING_CALL");
    const std::size_t a = text.find(':'), b = text.find(':', a + 1), c = text.find(':', b + 1);
    if (c == std::string::npos) return;
    call = text.substr(0, a);
    part = text.substr(a + 1, b - a - 1);
    at = std::atol(text.c_str() + b + 1);
    all_after = text[c - 1] == '+';
    waits = text.substr(c + 1) == "wait";
    error = std::atoi(text.c_str() + c + 1);
  }
  std::string call, part;
  long at = 0;
  bool all_after = false, waits = false;
  int error = 0;
  std::array<std::atomic<long>, kNames.size()> counts{};
};

Plan& plan() {
  static Plan* const the = new Plan;  // until after the last call
  return *the;
}

__attribute__((destructor)) void tell_counts() {
  const std::string file = from_environment("FAILING_CALL_COUNTS");
  if (file.empty()) return;
  std::string lines;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    lines += std::string(kNames[i]) + " " + std::to_string(plan().counts[i]) + "\n";
  if (std::FILE* out = std::fopen(file.c_str(), "a")) {
    std::fputs(lines.c_str(), out);
    std::fclose(out);
  }
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void wait_at_the_gate() {
  const std::string gate = from_environment("FAILING_CALL_GATE");
  const std::string here = gate + "." + std::to_string(::getpid());
  const int mark = next<int(const char*, int, ...)>("open")(here.c_str(), O_CREAT | O_WRONLY, 0666);
  ::close(mark);
  while (::access(gate.c_str(), F_OK) == 0) ::usleep(500);
  next<int(const char*)>("unlink")(here.c_str());
}

/// Whether the call is to fail, with errno set.
bool strikes(Call call, std::string_view path) {
  const int before = errno;
  Plan& p = plan();
  bool fails = false;
  if (path.find(p.part) != std::string_view::npos || path.empty()) {
    const long number = ++p.counts[std::size_t(call)];
    const bool is_it =
        p.call == kNames[std::size_t(call)] && (number == p.at || (p.all_after && number > p.at));
    if (is_it && p.waits) wait_at_the_gate();
    fails = is_it && !p.waits;
  }
  errno = fails ? p.error : before;
  return fails;
}

bool strikes_path(Call call, const char* path) {
  if (path == nullptr || *path == '\0') return false;
  if (*path == '/') return strikes(call, path);
  char folder[4096];
  if (::getcwd(folder, sizeof(folder)) == nullptr) return false;
  return strikes(call, std::string(folder) + "/" + path);
}

bool strikes_file(Call call, int file) {
  const int before = errno;
  char path[4096];
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof(path));
  errno = before;
  return size > 0 && strikes(call, std::string_view(path, std::size_t(size)));
}

/// The C library writes streams by calls that cannot be stood before: from here on they go to a
/// disk that is full.
void strike_stream(std::FILE* stream) {
  if (!strikes_file(Call::stream, ::fileno(stream))) return;
  const int full = next<int(const char*, int, ...)>("open")("/dev/full", O_WRONLY);
  ::dup2(full, ::fileno(stream));
  ::close(full);
}

bool is_of_cpp(void* caller) {
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libstdc++") != nullptr;
}

mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode_t(va_arg(more, int)) : 0;
}

}  // namespace

extern "C" {

#define OPENS(name)                                                       \
  int name(const char* path, int flags, ...) {                            \
    static auto* const real = next<int(const char*, int, ...)>(#name);    \
    va_list more;                                                         \
    va_start(more, flags);                                                \
    const mode_t mode = mode_of(flags, more);                             \
    va_end(more);                                                         \
    return strikes_path(Call::open, path) ? -1 : real(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

std::FILE* fopen(const char* path, const char* mode) {
  static auto* const real = next<std::FILE*(const char*, const char*)>("fopen");
  return strikes_path(Call::open, path) ? nullptr : real(path, mode);
}

std::FILE* fopen64(const char* path, const char* mode) {
  static auto* const real = next<std::FILE*(const char*, const char*)>("fopen64");
  return strikes_path(Call::open, path) ? nullptr : real(path, mode);
}

ssize_t read(int file, void* data, size_t size) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  return strikes_file(Call::read, file) ? -1 : real(file, data, size);
}

ssize_t pread(int file, void* data, size_t size, off_t at) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  return strikes_file(Call::read, file) ? -1 : real(file, data, size, at);
}

ssize_t pread64(int file, void* data, size_t size, off64_t at) {
  static auto* const real = next<ssize_t(int, void*, size_t, off64_t)>("pread64");
  return strikes_file(Call::read, file) ? -1 : real(file, data, size, at);
}

ssize_t write(int file, const void* data, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  return strikes_file(Call::write, file) ? -1 : real(file, data, size);
}

ssize_t writev(int file, const struct iovec* data, int count) {
  static auto* const real = next<ssize_t(int, const struct iovec*, int)>("writev");
  return strikes_file(Call::write, file) ? -1 : real(file, data, count);
}

ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return strikes_file(Call::write, file) ? -1 : real(file, data, size, at);
}

ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return strikes_file(Call::write, file) ? -1 : real(file, data, size, at);
}

size_t fwrite(const void* data, size_t size, size_t count, std::FILE* stream) {
  static auto* const real = next<size_t(const void*, size_t, size_t, std::FILE*)>("fwrite");
  strike_stream(stream);
  return real(data, size, count, stream);
}

int fclose(std::FILE* stream) {
  static auto* const real = next<int(std::FILE*)>("fclose");
  strike_stream(stream);
  return real(stream);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return strikes_file(Call::fsync, file) ? -1 : real(file);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return strikes_path(Call::rename, from) ? -1 : real(from, to);
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  return strikes_path(Call::unlink, path) ? -1 : real(path);
}

int ftruncate(int file, off_t size) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return strikes_file(Call::truncate, file) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size) noexcept {
  static auto* const real = next<int(int, off64_t)>("ftruncate64");
  return strikes_file(Call::truncate, file) ? -1 : real(file, size);
}

struct dirent* readdir(DIR* folder) {
  static auto* const real = next<struct dirent*(DIR*)>("readdir");
  return strikes_file(Call::readdir, ::dirfd(folder)) ? nullptr : real(folder);
}

struct dirent64* readdir64(DIR* folder) {
  static auto* const real = next<struct dirent64*(DIR*)>("readdir64");
  return strikes_file(Call::readdir, ::dirfd(folder)) ? nullptr : real(folder);
}

void* mmap(void* where, size_t size, int protection, int flags, int file, off_t at) noexcept {
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return strikes(Call::mmap, "") ? MAP_FAILED : real(where, size, protection, flags, file, at);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*begin)(void*),
                   void* argument) noexcept {
  static auto* const real =
      next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  const bool fails = is_of_cpp(__builtin_return_address(0)) && strikes(Call::thread, "");
  return fails ? errno : real(thread, attributes, begin, argument);
}

}  // extern "C"
