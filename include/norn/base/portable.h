// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions marked NORN_HD run on the host and in CUDA kernels alike.
#ifdef __CUDACC__
#define NORN_HD __host__ __device__
#else
#define NORN_HD
#endif
