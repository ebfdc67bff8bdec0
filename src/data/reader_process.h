// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

/// The process in which the NetCDF library reads a file that may be damaged.
namespace norn {

class ReaderProcess {
 public:
  /// Throws DeviceError when none can be started.
  ReaderProcess();
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  /// Sends a request and gives the reply without its first byte. Throws NetcdfProblem when the
  /// reply says no, and ends() with it when there is none.
  std::string ask(const std::string& request);
  /// The elements that follow a reply.
  void receive(void* elements, std::size_t bytes);
  /// Whether it ended, or said no, since it was started: it is not to read another file.
  bool is_doubtful() const { return doubtful_; }
  /// Whether it is gone.
  bool has_ended() const { return process_ <= 0; }

 private:
  /// Waits for its end, and throws NetcdfProblem saying how that was.
  [[noreturn]] void ends();
  /// The status that waitpid() gives, or -1 when somebody else has taken it.
  int wait();
  pid_t process_ = -1;
  int socket_ = -1;
  bool doubtful_ = false;
};

}  // namespace norn
