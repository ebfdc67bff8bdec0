// SPDX-License-Identifier: Apache-2.0
// The process that reads files which nobody vouches for.

#include "serve_netcdf.h"

#include "../path_of_descriptor.h"
#include "../reader_messages.h"
#include "confinement.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include <fmt/format.h>
#include <hdf5.h>
#include <netcdf.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace norn {

namespace {

/// What a request may take of a processor, in seconds: these, and one for each MiB of the file.
constexpr rlim_t kLeastSeconds = 5;
constexpr rlim_t kMostSeconds = 60;
/// Of addresses, in MiB: these, and some for each MiB of the file.
constexpr rlim_t kLeastMebibytes = 1024;
constexpr rlim_t kMebibytesForOne = 16;
constexpr rlim_t kMostMebibytes = 8192;

void lower(__rlimit_resource what, rlim_t most) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0) return;
  limit.rlim_cur = std::min({limit.rlim_cur, limit.rlim_max, most});
  ::setrlimit(what, &limit);
}

class Server {
 public:
  explicit Server(int socket) : socket_(socket) {
    end_with_the_other_side(socket);
    lower(RLIMIT_CORE, 0);
    ::getrlimit(RLIMIT_CPU, &computing_);
    // What the libraries look for at their start, while they may: settings of remote data, which we
    // have no use for, and filters to load.
    ::setenv("NCRCENV_IGNORE", "1", 1);
    nc_initialize();
    H5PLset_loading_state(0);
  }

  void serve() {
    std::string request;
    while (receive_message(socket_, request))
      if (!answer(request)) return;
  }

 private:
  /// A chain of the file's parts that leads back to itself is followed for ever.
  void limit_computing() const {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    rlimit limit = computing_;
    limit.rlim_cur = std::min(computing_.rlim_cur, rlim_t(used.tv_sec) + 1 + seconds_);
    ::setrlimit(RLIMIT_CPU, &limit);
  }

  bool answer(const std::string& request) {
    limit_computing();
    elements_.clear();
    MessageWriter reply;
    std::string problem;
    try {
      reply.put(true);
      MessageReader message(request);
      handle(message, reply);
      if (reply.text().size() > kLongestMessage) problem = "has no end";
    } catch (const NetcdfProblem& found) {
      problem = found.text;
    } catch (const std::bad_alloc&) {
      problem = fmt::format("asks for more than {} MiB of memory", mebibytes_);
    } catch (const std::length_error&) {
      problem = fmt::format("asks for more than {} MiB of memory", mebibytes_);
    }
    if (!problem.empty()) {
      MessageWriter refusal;
      refusal.put(false);
      refusal.put_text(problem);
      return send_message(socket_, refusal.text());
    }
    return send_message(socket_, reply.text()) &&
           send_bytes(socket_, elements_.data(), elements_.size());
  }

  void handle(MessageReader& message, MessageWriter& reply) {
    switch (message.take<Request>()) {
      case Request::open:
        return open(message.take_text());
      case Request::variables:
        return put_variables(reply, file_->variables());
      case Request::attribute: {
        const auto variable = message.take<int>();
        return put_attribute(reply, file_->attribute(variable, message.take_text()));
      }
      case Request::dimension: {
        const std::optional<Index> size = file_->dimension(message.take_text());
        return reply.put(size.value_or(-1));
      }
      case Request::read:
        return read(message);
      case Request::unlock:
        return lock(LOCK_UN);
      case Request::lock:
        return lock(LOCK_SH | LOCK_NB);
    }
  }

  /// The file, as HDF5 has it locked as long as it is open: nobody may write to it. While nobody
  /// has use for it here, others may.
  static void lock(int how) {
    constexpr int kMostDescriptors = 16;
    for (int descriptor = kReaderSocket + 1; descriptor < kMostDescriptors; ++descriptor)
      if (::flock(descriptor, how) != 0 && errno == EWOULDBLOCK)
        throw NetcdfProblem{"another program writes to it"};
  }

  /// The file of the descriptor that follows. A process does this once: afterwards it can no more.
  void open(const std::string& path) {
    const int descriptor = receive_descriptor(socket_);
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) throw NetcdfProblem{std::strerror(errno)};
    if (!S_ISREG(facts.st_mode)) throw NetcdfProblem{"is a pipe or a device"};
    const rlim_t size = rlim_t(facts.st_size) >> 20;
    seconds_ = std::min(kLeastSeconds + size, kMostSeconds);
    mebibytes_ = std::min(kLeastMebibytes + kMebibytesForOne * size, kMostMebibytes);
#ifndef __SANITIZE_ADDRESS__  // which wants addresses without end for itself
    lower(RLIMIT_AS, mebibytes_ << 20);
#endif
    limit_computing();
    open_nothing_but(descriptor);
    file_ = open_netcdf_here(path_of_descriptor(descriptor, path), false);
    open_nothing();
  }

  void read(MessageReader& message) {
    const auto variable = message.take<int>();
    const auto element = message.take<Element>();
    const auto start = message.take_list<std::size_t>();
    const auto count = message.take_list<std::size_t>();
    std::size_t size = bytes_of(element);
    for (const std::size_t along : count) size *= along;
    elements_.resize(size);
    try {
      file_->read(variable, start, count, element, elements_.data());
    } catch (...) {
      elements_.clear();
      throw;
    }
  }

  int socket_;
  rlimit computing_{};  // as it was set for this process
  rlim_t seconds_ = kMostSeconds;
  rlim_t mebibytes_ = kMostMebibytes;
  std::unique_ptr<OpenedNetcdf> file_;
  std::vector<char> elements_;
};

}  // namespace

void serve_netcdf(int socket) {
  Server(socket).serve();
}

}  // namespace norn
