// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// How fast GPUs launch, copy and read their memory, measured. A build without CUDA finds none.
namespace norn {

struct CudaVersions {
  bool built = false;  ///< whether this build has CUDA
  int driver = 0;      ///< newest CUDA that the driver runs: 13000; 0: there is no driver
  int runtime = 0;     ///< CUDA that this build is linked with
  std::string error;   ///< of counting the GPUs; empty: none
};
CudaVersions cuda_versions();

/// A GPU as the CUDA runtime counts it.
struct GpuShape {
  int device = 0;
  std::string name;
  std::string pci;     ///< "0000:17:00.0"
  int capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  double core_mhz = 0.0;    ///< most
  double memory_mhz = 0.0;  ///< most
  int memory_bits = 0;      ///< width of the path to memory
};
std::vector<GpuShape> cuda_gpus();

struct GpuRates {
  double launch_microseconds = 0.0;      ///< of one of many empty kernels, one by one
  double graph_microseconds = 0.0;       ///< of one of many empty kernels in a graph
  double round_trip_microseconds = 0.0;  ///< launch a kernel, and know that it is done
  // Gigabytes a second.
  double to_device = 0.0;  ///< from page-locked memory
  double to_host = 0.0;
  double pageable_to_device = 0.0;
  double pageable_to_host = 0.0;
  double memory = 0.0;  ///< of a copy inside the GPU's memory, read and written
};
/// Takes about half a second. `while_copying` is called while page-locked copies run: an idle link
/// is slower. Throws DeviceError.
GpuRates measure_gpu(int device, const std::function<void()>& while_copying);

struct PeerRate {
  int from = 0;
  int to = 0;
  bool direct = false;     ///< whether they can reach each other's memory
  double gigabytes = 0.0;  ///< a second
};
/// Every ordered pair of the GPUs. Throws DeviceError.
std::vector<PeerRate> measure_peers();

}  // namespace norn
