// SPDX-License-Identifier: Apache-2.0
// MPI's C interface without the C++ bindings that old versions of it pull in.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
