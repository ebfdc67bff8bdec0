// SPDX-License-Identifier: Apache-2.0
// A library that answers as NVIDIA's management library would on a machine with two GPUs. FAKE_NVML
// in the environment makes its beginning fail with that error number.
#include <cstdlib>
#include <cstring>

namespace {

struct PciInfo {
  char short_address[16];
  unsigned domain, bus, device, identity, subsystem;
  char address[32];
};
struct Sizes {
  unsigned long long first, second, third;
};
struct ProcessInfo {
  unsigned process;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct Gpu {
  const char* name;
  const char* address;
};
Gpu gpus[2] = {{"Fake GPU A", "00000000:17:00.0"}, {"Fake GPU B", "00000000:65:00.0"}};

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* error = std::getenv("FAKE_NVML");
  return error ? std::atoi(error) : kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(int) {
  return "Fake error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.10.01", size);
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** gpu) {
  *gpu = &gpus[index];
  return kSuccess;
}
int nvmlDeviceGetName(void* gpu, char* text, unsigned size) {
  std::strncpy(text, static_cast<Gpu*>(gpu)->name, size);
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* gpu, PciInfo* info) {
  std::strcpy(info->address, static_cast<Gpu*>(gpu)->address);
  return kSuccess;
}
int nvmlDeviceGetPersistenceMode(void* gpu, unsigned* mode) {
  *mode = gpu == &gpus[0];
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* value) {
  *value = 4;
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* value) {
  *value = 8;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) {
  *value = 4;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) {
  *value = 16;
  return kSuccess;
}
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void*, unsigned* value) {
  *value = 5;
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* value) {
  *value = type == 1 ? 345 : 2619;
  return kSuccess;
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned type, unsigned* value) {
  *value = type == 1 ? 1980 : 3201;
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x1 | 0x4;  // idle, and the power limit
  return kSuccess;
}
int nvmlDeviceGetTemperature(void*, unsigned, unsigned* value) {
  *value = 41;
  return kSuccess;
}
int nvmlDeviceGetTemperatureThreshold(void*, unsigned, unsigned* value) {
  *value = 87;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* value) {
  *value = 75500;
  return kSuccess;
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* value) {
  *value = 500000;
  return kSuccess;
}
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* value) {
  *value = 700000;
  return kSuccess;
}
int nvmlDeviceGetComputeMode(void*, unsigned* value) {
  *value = 3;
  return kSuccess;
}
int nvmlDeviceGetBAR1MemoryInfo(void*, Sizes* sizes) {
  *sizes = {1ULL << 28, 0, 0};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, Sizes* sizes) {
  *sizes = {1ULL << 34, 0, 0};
  return kSuccess;
}
int nvmlDeviceGetEccMode(void* gpu, unsigned* now, unsigned* later) {
  *now = *later = gpu == &gpus[0];
  return kSuccess;
}
int nvmlDeviceGetTotalEccErrors(void*, unsigned kind, unsigned, unsigned long long* count) {
  *count = kind == 1 ? 2 : 30;
  return kSuccess;
}
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetRemappedRows(void* gpu, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  if (gpu != &gpus[0]) return kNotSupported;
  *corrected = 5;
  *uncorrected = 3;
  *pending = 1;
  *failed = 0;
  return kSuccess;
}
int nvmlDeviceGetRetiredPages(void* gpu, unsigned, unsigned* count, unsigned long long*) {
  if (gpu == &gpus[0]) return kNotSupported;
  *count = 12;
  return kInsufficientSize;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* infos) {
  infos[0] = {4711, 1ULL << 30, 0, 0};
  infos[1] = {4712, 2ULL << 30, 0, 0};
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* gpu, unsigned link, unsigned* active) {
  if (gpu != &gpus[0] || link > 1) return kNotSupported;
  *active = link == 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  *version = 4;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, PciInfo* info) {
  std::strcpy(info->address, gpus[1].address);
  return kSuccess;
}

}  // extern "C"
