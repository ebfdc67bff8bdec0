// SPDX-License-Identifier: Apache-2.0
// MPI, begun and ended with Python.
#include "python/src/session.h"

#include "norn/base/error.h"
#include "norn/parallel/mpi_session.h"
#include "python/src/parts.h"
#include "src/parallel/communicator.h"

#include <unistd.h>

namespace nb = nanobind;

namespace norn::python {
namespace {

// MPI is begun once in a process.
struct Session {
  std::unique_ptr<MpiSession> mpi;
  std::shared_ptr<Communicator> world;
  ::pid_t process = 0;
};

Session& session() {
  // Not destroyed with the process: ending MPI is for end_session() alone.
  static Session* const only = new Session;
  return *only;
}

}  // namespace

std::shared_ptr<Communicator> world() {
  Session& here = session();
  if (here.mpi && here.process != ::getpid()) return nullptr;  // a forked child is no rank
  if (!here.mpi) {
    here.process = ::getpid();
    here.mpi = std::make_unique<MpiSession>(nullptr, nullptr);
    if (here.mpi->size() > 1) here.world = here.mpi->world();
  }
  return here.world;
}

namespace {

// Ends MPI with Python: of a rank that an exception has ended, all of them.
void end_session() {
  Session& here = session();
  if (!here.mpi || here.process != ::getpid()) return;
  const bool failed = nb::hasattr(nb::module_::import_("sys"), "last_value");
  const nb::gil_scoped_release release;
  if (failed && here.mpi->size() > 1) here.mpi->abort(int(ExitCode::unforeseen));
  try {
    here.mpi->finish();
  } catch (const RunEnded&) {  // another rank says why
    return;
  }
  here.world.reset();
  here.mpi.reset();
}

}  // namespace

void add_session(nb::module_& m) {
  m.def(
      "rank", [] { return session().mpi ? session().mpi->rank() : 0; }, "Of this process.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_session));
}

}  // namespace norn::python
