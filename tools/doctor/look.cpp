// SPDX-License-Identifier: Apache-2.0
// What the doctor reads and measures on this host.
#include "tools/doctor/look.h"

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/philox.h"
#include "src/engine/network/context.h"
#include "src/tensor/buffer.h"
#include "tools/doctor/files.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::optional<Space> space_of(const fs::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return std::nullopt;
  return Space{std::uint64_t(status.f_blocks) * status.f_frsize,
               std::uint64_t(status.f_bavail) * status.f_frsize};
}

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(__rlimit_resource(resource), &limit) != 0) return std::uint64_t(RLIM_INFINITY);
  return std::uint64_t(limit.rlim_cur);
}

/// An open file.
class Written {
 public:
  explicit Written(fs::path path)
      : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
    if (file_ < 0) fail();
  }
  ~Written() { ::close(file_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  void write(const std::vector<char>& data) const {
    for (std::size_t at = 0; at < data.size();) {
      const ssize_t count = ::write(file_, data.data() + at, data.size() - at);
      if (count <= 0) fail();
      at += std::size_t(count);
    }
  }
  void sync() const {
    if (::fsync(file_) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw DataError(fmt::format("nothing can be written in {}: {}", path_.parent_path().string(),
                                std::strerror(errno)));
  }

  fs::path path_;
  int file_;
};

DiskRate measure_disk(const fs::path& model) {
  constexpr std::size_t kPiece = std::size_t(4) << 20;
  constexpr int kPieces = 16;
  constexpr double kSeconds = 0.7;
  DiskRate rate;
  try {
    const AtomicFile place(fs::absolute(model).parent_path() / "norn-doctor");
    const Written file(place.temporary());
    std::vector<char> piece(kPiece);
    const Philox random = Philox::stream(1, RandomPurpose::test);  // some disks compress
    for (std::size_t i = 0; i < kPiece; ++i) piece[i] = char(random.uniform(i, 0) * 255.0f);
    Clock::time_point start = Clock::now();
    double bytes = 0.0;
    for (int i = 0; i < kPieces && seconds_since(start) < kSeconds; ++i) {
      file.write(piece);
      file.sync();
      bytes += double(kPiece);
    }
    rate.megabytes = 1e-6 * bytes / seconds_since(start);
    piece.resize(4096);
    start = Clock::now();
    int syncs = 0;
    for (; syncs < 5 && seconds_since(start) < kSeconds; ++syncs) {
      file.write(piece);
      file.sync();
    }
    rate.sync_milliseconds = 1e3 * seconds_since(start) / syncs;
  } catch (const std::exception& error) {
    rate.error = error.what();
  }
  return rate;
}

void fill(UpdateKernels& update, MatrixView<float> matrix) {
  WeightPlace place;
  place.sources = matrix.cols;
  place.destinations = matrix.rows;
  update.initialise(UniformInit{}, Philox::stream(1, RandomPurpose::test), place, matrix);
}

// GFLOP/s of one core.
double measure_core() {
  constexpr Index kSide = 1024;
  Executor executor(1);
  Kernels kernels = make_cpu_kernels(executor);
  Matrix<float> x(kSide, kSide);
  Matrix<float> z(kSide, kSide);
  fill(*kernels.update, x.view());
  double least = 1e30;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 20 && seconds_since(start) < 0.25; ++i) {
    const Clock::time_point one = Clock::now();
    kernels.dense->multiply_transposed(x.view(), x.view(), z.view(), Existing::overwrite);
    if (i > 0 || seconds_since(one) > 0.1) least = std::min(least, seconds_since(one));
  }
  return 2e-9 * std::pow(double(kSide), 3) / least;
}

// TFLOP/s of large products; `while_working` is called in between.
double measure_products(int device, Precision precision,
                        const std::function<void()>& while_working) {
  GpuOptions options;
  options.device = device;
  options.precision = precision;
  options.graphs = false;
  CudaDevice gpu(options);
  const Kernels kernels = gpu.make_kernels();
  const Index side = gpu.free_bytes() > (std::int64_t(4) << 30) ? 8192 : 2048;
  Matrix<float> x(side, side, gpu.memory());
  Matrix<float> z(side, side, gpu.memory());
  Matrix<Bfloat16> bf16;
  fill(*kernels.update, x.view());
  DenseOperand operand(x.view());
  if (kernels.precision.casts_operands()) {
    bf16 = Matrix<Bfloat16>(side, side, gpu.memory());
    kernels.pointwise->cast_to_bf16(x.view(), bf16.view());
    operand.bf16 = bf16.view();
  }
  const auto work = [&](int count) {
    for (int i = 0; i < count; ++i)
      kernels.dense->multiply_transposed(operand, operand, z.view(), Existing::overwrite);
  };
  work(20);  // clocks rise, too
  kernels.queue->wait_for_all();
  const Clock::time_point start = Clock::now();
  work(20);
  kernels.queue->wait_for_all();
  const double rate = 20.0 * 2e-12 * std::pow(double(side), 3) / seconds_since(start);
  work(40);
  while_working();
  kernels.queue->wait_for_all();
  return rate;
}

ExaminedGpu examine(const GpuShape& shape, const GpuDriver& driver, const DriverFacts& facts,
                    Clock::time_point deadline) {
  ExaminedGpu gpu;
  gpu.shape = shape;
  for (const GpuFacts& one : facts.gpus)
    if (one.pci == shape.pci) gpu.facts = one;
  if (Clock::now() > deadline) {
    gpu.error = "the time was up; CUDA_VISIBLE_DEVICES chooses one GPU";
    return gpu;
  }
  try {
    gpu.rates = measure_gpu(shape.device, [&] { gpu.copying = driver.moment(shape.pci); });
    gpu.bf16 = measure_products(shape.device, Precision::bf16, [] {});
    gpu.tf32 = measure_products(shape.device, Precision::tf32,
                                [&] { gpu.multiplying = driver.moment(shape.pci); });
  } catch (const std::exception& error) {
    gpu.error = error.what();
  }
  return gpu;
}

void look_at_gpus(Examination& machine, Clock::time_point deadline) {
  const std::unique_ptr<GpuDriver> driver = open_gpu_driver();
  machine.driver = driver->facts();
  machine.cuda = cuda_versions();
  for (const GpuShape& shape : cuda_gpus())
    machine.gpus.push_back(examine(shape, *driver, machine.driver, deadline));
  if (machine.gpus.empty()) return;
  if (Clock::now() > deadline) {
    machine.peers_error = "the time was up";
    machine.nccl.reset();
    return;
  }
  try {
    machine.peers = measure_peers();
  } catch (const std::exception& error) {
    machine.peers_error = error.what();
  }
  machine.nccl = try_nccl(machine.gpus[0].shape.device);
}

}  // namespace

std::vector<int> own_cores() {
  const std::string status = read_text("/proc/self/status").value_or("");
  return parse_cores(value_after(status, "Cpus_allowed_list").value_or(""));
}

Examination look_at_this_host(const LookSettings& settings) {
  Examination machine;
  machine.variable = [](const char* name) -> std::optional<std::string> {
    const char* text = std::getenv(name);
    if (text == nullptr) return std::nullopt;
    return text;
  };
  machine.space = space_of;
  machine.limit = limit_of;
  machine.cores = own_cores();
  machine.threads = settings.threads;
  machine.ranks_here = settings.ranks_here;
  machine.uses_gpu = settings.uses_gpu;
  machine.blas = describe_cpu_kernels();
  machine.available_memory = available_memory_bytes(1);
  machine.core_gigaflops = measure_core();
  machine.confinement = confinement_of_kernel();
  machine.model = settings.model;
  if (!settings.model.empty()) machine.disk = measure_disk(settings.model);
  look_at_gpus(machine, settings.deadline);
  return machine;
}

}  // namespace norn::tools
