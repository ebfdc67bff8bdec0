// SPDX-License-Identifier: Apache-2.0
// The process that reads files which nobody vouches for.

#include "serve_netcdf.h"

#include "../reader_messages.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

namespace norn {

namespace {

/// What a request may take of a processor, in seconds: these, and one for each MiB of the file.
constexpr rlim_t kLeastSeconds = 5;
constexpr rlim_t kMostSeconds = 60;

rlim_t seconds_for(const std::string& file) {
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(file, none);
  return none ? kMostSeconds : std::min<rlim_t>(kLeastSeconds + (bytes >> 20), kMostSeconds);
}

void lower(__rlimit_resource what, rlim_t most) {
  rlimit limit{};
  if (::getrlimit(what, &limit) != 0) return;
  limit.rlim_cur = std::min({limit.rlim_cur, limit.rlim_max, most});
  ::setrlimit(what, &limit);
}

class Server {
 public:
  explicit Server(int socket) : socket_(socket) {
    lower(RLIMIT_CORE, 0);
#ifndef __SANITIZE_ADDRESS__  // which wants addresses without end for itself
    lower(RLIMIT_AS, rlim_t(kReaderGibibytes) << 30);
#endif
    ::getrlimit(RLIMIT_CPU, &computing_);
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
      problem = fmt::format("asks for more than {} GiB of memory", kReaderGibibytes);
    } catch (const std::length_error&) {
      problem = fmt::format("asks for more than {} GiB of memory", kReaderGibibytes);
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
      case Request::open: {
        const std::string path = message.take_text();
        seconds_ = seconds_for(path);
        limit_computing();
        file_ = open_netcdf_here(path);
        return;
      }
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
      case Request::close:
        file_.reset();
    }
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
  std::unique_ptr<OpenedNetcdf> file_;
  std::vector<char> elements_;
};

}  // namespace

void serve_netcdf(int socket) {
  Server(socket).serve();
}

}  // namespace norn
