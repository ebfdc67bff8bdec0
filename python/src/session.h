// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace norn {
class Communicator;
}

namespace norn::python {

/// The ranks that mpirun or srun started, or null where this process is alone. MPI is begun when it
/// is first asked for, and ended when Python ends.
std::shared_ptr<Communicator> world();

}  // namespace norn::python
