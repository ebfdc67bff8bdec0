// SPDX-License-Identifier: Apache-2.0
// Speed of the GPU's sparse kernels on batches whose units are as unequally popular as a shop's:
// unit number k is drawn about as often as 1 / (k + 10), and lies anywhere in the table.
// Results are compared with float64 sums on some rows and columns first. Times are medians of 24
// runs of 4 batches in turn. Bytes:
//   multiply     gathered: a row of w for every entry, z read and written
//                memory:   the same with each row of w once, what must come from memory
//   update_rows  a row of delta for every entry, touched rows of w and its state read and written
// Shares are of 4.3 TB/s, what a copy reaches on an H200.

#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace norn::cuda {
namespace {

constexpr int kBatches = 4, kRuns = 24;
constexpr double kPeak = 4.3e12;

/// Numbers that the host and the GPU can both make: within [-scale / 2, scale / 2).
NORN_HD float number_at(Index row, Index column, std::uint32_t salt, float scale) {
  std::uint32_t word =
      std::uint32_t(row) * 2654435761u ^ std::uint32_t(column) * 2246822519u ^ salt;
  word = (word ^ word >> 15) * 2246822519u;
  word = (word ^ word >> 13) * 3266489917u;
  return (float((word ^ word >> 16) >> 8) * 0x1p-24f - 0.5f) * scale;
}

__global__ void fill(MatrixView<float> m, std::uint32_t salt, float scale) {
  for (Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x; i < m.size();
       i += gridDim.x * Index(blockDim.x))
    m.data[i] = number_at(i / m.cols, i % m.cols, salt, scale);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

struct Device {
  Device() {
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "attribute");
    memory = std::make_unique<DeviceMemory>(stream, false);
    kernels = make_sparse({stream, *memory, Precision::fp32, multiprocessors});
  }
  /// Median seconds of one call.
  double time(int runs, const std::function<void(int)>& call) const {
    std::vector<double> seconds;
    for (int run = 0; run < runs; ++run) {
      check(cudaEventRecord(begin, stream), "cudaEventRecord");
      for (int b = 0; b < kBatches; ++b) call(b);
      check(cudaEventRecord(end, stream), "cudaEventRecord");
      check(cudaEventSynchronize(end), "cudaEventSynchronize");
      float ms = 0.0f;
      check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      seconds.push_back(double(ms) * 1e-3 / kBatches);
    }
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    return seconds[std::size_t(runs / 2)];
  }
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  int multiprocessors = 0;
  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<SparseKernels> kernels;
};

/// A batch on the host and on the GPU.
struct Batch {
  Batch(Device& device, Index examples, Index units, Index entries_a_row, std::uint64_t seed)
      : rows(examples), cols(units) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform;
    const double span = std::log((double(cols) + 10.0) / 10.0);
    for (Index r = 0; r < rows; ++r) {
      std::vector<Column> row;
      for (Index i = 0; i < entries_a_row; ++i) {
        const auto item = Index(10.0 * std::exp(uniform(random) * span) - 10.0);
        row.push_back(Column(std::clamp<Index>(item, 0, cols - 1) * 2654435761 % cols));
      }
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
      column.insert(column.end(), row.begin(), row.end());
      row_begin.push_back(RowOffset(column.size()));
    }
    device_begin = Buffer<RowOffset>(rows + 1, *device.memory);
    device_begin.write(row_begin.data(), rows + 1);
    device_column = Buffer<Column>(entries(), *device.memory);
    device_column.write(column.data(), entries());
    device.kernels->transpose(view(), transposed);
    std::vector<Column> unique = column;
    std::sort(unique.begin(), unique.end());
    touched = std::unique(unique.begin(), unique.end()) - unique.begin();
  }
  Index entries() const { return Index(column.size()); }
  CsrView view() const {
    return {device_begin.data(), device_column.data(), nullptr, rows, cols, entries() + 100};
  }
  Index rows, cols, touched = 0;
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;
  Buffer<RowOffset> device_begin;
  Buffer<Column> device_column;
  TransposedBatch transposed;
};

struct Setting {
  Setting(Device& on, Index units_, Index width_, Index batch_, Index entries_a_row)
      : device(on),
        units(units_),
        width(width_),
        batch(batch_),
        w(units, width, *on.memory),
        z(batch, width, *on.memory),
        slots{Matrix<float>::zeros(units, width, *on.memory),
              Matrix<float>::zeros(units, width, *on.memory)},
        done(Buffer<std::int64_t>::zeros(units, *on.memory)) {
    for (std::uint64_t seed = 0; seed < kBatches; ++seed)
      batches.emplace_back(on, batch, units, entries_a_row, seed);
    reset();
  }
  void reset() {
    fill<<<2048, 256, 0, device.stream>>>(w.view(), 1, 0.2f);
    fill<<<2048, 256, 0, device.stream>>>(z.view(), 2, 1.0f);
    check_launch("fill");
    done.fill_zero();
  }
  RowState rows() { return {w.view(), {slots[0].view(), slots[1].view()}, done.view()}; }
  double mean(const std::function<Index(const Batch&)>& count) const {
    double sum = 0.0;
    for (const Batch& b : batches) sum += double(count(b));
    return sum / kBatches;
  }
  Device& device;
  Index units, width, batch;
  Matrix<float> w, z, slots[2];
  Buffer<std::int64_t> done;
  std::vector<Batch> batches;
};

/// Compares row `row` of a matrix in the GPU's memory with what `expected` says of some columns.
void expect_row(Setting& s, MatrixView<float> m, Index row, double tolerance,
                const std::function<double(Index)>& expected, const char* what) {
  std::vector<float> actual(std::size_t(m.cols));
  s.device.memory->read(m.row(row), actual.data(), actual.size() * sizeof(float));
  for (Index c = 0; c < m.cols; c += 37)
    require(std::abs(double(actual[std::size_t(c)]) - expected(c)) <= tolerance, what);
}

void verify_multiply(Setting& s) {
  const Batch& x = s.batches[0];
  s.device.kernels->multiply(x.view(), s.w.view(), s.z.view());
  for (Index r = 0; r < s.batch; r += s.batch / 16)
    expect_row(
        s, s.z.view(), r, 1e-4,
        [&](Index c) {
          double sum = double(number_at(r, c, 2, 1.0f));
          for (RowOffset i = x.row_begin[std::size_t(r)]; i < x.row_begin[std::size_t(r) + 1]; ++i)
            sum += double(number_at(Index(x.column[std::size_t(i)]), c, 1, 0.2f));
          return sum;
        },
        "multiply is wrong");
}

void verify_update(Setting& s) {
  s.reset();
  const Batch& x = s.batches[0];
  const UpdateSchedule schedule;
  const float scale = 1.0f / float(s.batch);
  s.device.kernels->update_rows(Sgd{}, schedule, 0, x.transposed, s.z.view(), scale, s.rows());
  std::vector<Column> some{0};  // the most popular unit
  for (std::size_t i = 0; i < x.column.size(); i += x.column.size() / 16)
    some.push_back(x.column[i]);
  for (const Column unit : some)
    expect_row(
        s, s.w.view(), Index(unit), 1e-6,
        [&](Index c) {
          double sum = 0.0;
          for (Index r = 0; r < s.batch; ++r)
            if (std::binary_search(x.column.begin() + x.row_begin[std::size_t(r)],
                                   x.column.begin() + x.row_begin[std::size_t(r) + 1], unit))
              sum += double(number_at(r, c, 2, 1.0f));
          return double(number_at(Index(unit), c, 1, 0.2f)) -
                 double(schedule.rate) * double(scale) * sum;
        },
        "update_rows is wrong");
}

void report(const char* what, double seconds, double bytes) {
  std::printf("  %-28s %9.1f us  %6.0f GB/s  %5.1f %%\n", what, seconds * 1e6,
              bytes / seconds * 1e-9, 100.0 * bytes / seconds / kPeak);
}

void measure_update(Setting& s, const char* name, const UpdateRule& rule) {
  const double row = 4.0 * double(s.width);
  const double entries = s.mean([](const Batch& b) { return b.entries(); });
  const double touched = s.mean([](const Batch& b) { return b.touched; });
  const double seconds = s.device.time(kRuns, [&](int b) {
    s.device.kernels->update_rows(rule, UpdateSchedule{}, 0, s.batches[std::size_t(b)].transposed,
                                  s.z.view(), 1e-6f, s.rows());
  });
  report(name, seconds, row * (entries + touched * 2.0 * (1 + slots_of(rule))));
}

void measure(Device& device, Index units, Index width, Index batch, Index entries_a_row) {
  Setting s(device, units, width, batch, entries_a_row);
  const double row = 4.0 * double(width);
  const double entries = s.mean([](const Batch& b) { return b.entries(); });
  const double touched = s.mean([](const Batch& b) { return b.touched; });
  std::printf("N %lld  M %lld  B %lld: %.0f entries, %.0f units occur\n",
              static_cast<long long>(units), static_cast<long long>(width),
              static_cast<long long>(batch), entries, touched);
  verify_multiply(s);
  verify_update(s);

  const double multiply = device.time(kRuns, [&](int b) {
    device.kernels->multiply(s.batches[std::size_t(b)].view(), s.w.view(), s.z.view());
  });
  const double result = 2.0 * row * double(batch);
  report("multiply, gathered", multiply, row * entries + result);
  report("multiply, memory", multiply, row * touched + result);
  s.reset();
  const double transpose = device.time(kRuns, [&](int b) {
    Batch& x = s.batches[std::size_t(b)];
    device.kernels->transpose(x.view(), x.transposed);
  });
  std::printf("  %-28s %9.1f us  %6.0f M entries/s\n", "transpose", transpose * 1e6,
              entries / transpose * 1e-6);
  measure_update(s, "update_rows, SGD", Sgd{});
  measure_update(s, "update_rows, Momentum", Momentum{});
  measure_update(s, "update_rows, Adam", Adam{});
  const double lag = device.time(5, [&](int b) {
    s.done.fill_zero();
    device.kernels->catch_up(Adam{}, UpdateSchedule{}, 1000, s.batches[std::size_t(b)].transposed,
                             s.rows());
  });
  std::printf("  %-28s %9.1f us\n", "catch_up, Adam, 1000 steps", lag * 1e6);
  std::fflush(stdout);
}

}  // namespace
}  // namespace norn::cuda

int main() {
  norn::cuda::Device device;
  for (const norn::Index batch : {1024, 8192}) {
    norn::cuda::measure(device, 500'000, 1024, batch, 100);
    norn::cuda::measure(device, 10'000'000, 256, batch, 100);
    norn::cuda::measure(device, 27'278, 1536, batch, 144);
  }
}
