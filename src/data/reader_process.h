// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

/// The process in which the NetCDF library reads a file that may be damaged.
namespace norn {

/// How long to wait for a process that says nothing. One that computes has limits of its own; one
/// that does not sleeps for want of something, and may never wake.
class Patience {
 public:
  /// `most`: how often in turn it may be found to have computed nothing.
  Patience(pid_t process, int most) : process_(process), most_(most) {}
  /// To be asked whenever some time has passed in vain.
  bool lasts();
  bool is_over() const { return idle_ >= most_; }

 private:
  pid_t process_;
  int most_;
  int idle_ = 0;
  std::int64_t computed_ = -1;  // nanoseconds
};

class ReaderProcess {
 public:
  /// Throws DeviceError when none can be started.
  ReaderProcess();
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  /// Sends a request and gives the reply without its first byte. Throws NetcdfProblem when the
  /// reply says no, and ends() with it when there is none.
  /// A `descriptor` goes with it.
  std::string ask(const std::string& request, int descriptor = -1);
  /// The elements that follow a reply.
  void receive(void* elements, std::size_t bytes);
  /// Whether it ended, or said no, since it was started: it is not to read another file.
  bool is_doubtful() const { return doubtful_; }
  /// Whether it is gone.
  bool has_ended() const { return process_ <= 0; }

 private:
  /// Waits for its end, and throws NetcdfProblem saying how that was.
  [[noreturn]] void ends(const Patience& patience);
  /// The status that waitpid() gives, or -1 when somebody else has taken it.
  int wait();
  pid_t process_ = -1;
  int socket_ = -1;
  bool doubtful_ = false;
};

}  // namespace norn
