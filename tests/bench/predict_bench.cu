// SPDX-License-Identifier: Apache-2.0
// Users per second of the best K of a wide catalogue: products in bfloat16 whose scores are never
// written, verified against float64 for a few users first.
//
//   predict_bench [--units N] [--width W] [--k K] [--batch B] [--seen S] [--check 0]
//                [--json FILE]
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/top_k_product.h"
#include "kernels/select.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace norn;

constexpr double kPeak = 790e12;       // dense bfloat16 products of an H200, FLOP/s
constexpr double kBandwidth = 4.3e12;  // bytes/s
constexpr int kBatches = 64;           // different users, taken in turn
constexpr int kRepetitions = 5;        // of which the median counts

struct Setup {
  Index units = 10'000'000;
  Index width = 256;
  Index k = 100;
  Index batch = 1024;
  Index seen = 100;
  Index check = 1;
  std::string json;

  Setup(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string name = argv[i];
      if (name == "--json") json = argv[i + 1];
      Index* number = name == "--units"   ? &units
                      : name == "--width" ? &width
                      : name == "--k"     ? &k
                      : name == "--batch" ? &batch
                      : name == "--seen"  ? &seen
                      : name == "--check" ? &check
                                          : nullptr;
      if (number != nullptr) *number = std::atoll(argv[i + 1]);
    }
  }
};

/// Element i of a random matrix, the same on the host and on the GPU: the sum of four uniform
/// bytes, nearly normal.
NORN_HD Bfloat16 element(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = (i + seed) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  const int sum = int(x & 255) + int(x >> 8 & 255) + int(x >> 16 & 255) + int(x >> 24 & 255);
  return Bfloat16::rounded(float(sum - 510) * (1.0f / 2048));
}

constexpr std::uint64_t kItemSeed = 0;
NORN_HD std::uint64_t user_seed(int batch) {
  return (std::uint64_t(1) << 40) * std::uint64_t(batch + 1);
}

__global__ void fill(Bfloat16* x, Index size, std::uint64_t seed) {
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    x[i] = element(seed, std::uint64_t(i));
}

Buffer<Bfloat16> random_matrix(Index size, std::uint64_t seed, Memory& memory) {
  Buffer<Bfloat16> matrix(size, memory);
  fill<<<2048, 256>>>(matrix.data(), size, seed);
  cuda::check_launch("fill");
  return matrix;
}

/// What users have seen: sorted, distinct.
struct Seen {
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;

  Seen(const Setup& setup, unsigned seed) {
    std::mt19937_64 random(seed);
    for (Index r = 0; r < setup.batch; ++r) {
      std::set<Column> columns;
      while (Index(columns.size()) < std::min(setup.seen, setup.units / 2))
        columns.insert(Column(random() % std::uint64_t(setup.units)));
      column.insert(column.end(), columns.begin(), columns.end());
      row_begin.push_back(RowOffset(column.size()));
    }
  }
  bool contains(Index r, Index unit) const {
    return std::binary_search(column.begin() + row_begin[std::size_t(r)],
                              column.begin() + row_begin[std::size_t(r) + 1], Column(unit));
  }
};

/// Scores of one user in float64, from the same bf16 operands.
std::vector<float> exact_scores(const Setup& setup, int batch, Index r) {
  std::vector<double> x(std::size_t(setup.width));
  for (Index i = 0; i < setup.width; ++i)
    x[std::size_t(i)] =
        double(element(user_seed(batch), std::uint64_t(r * setup.width + i)).value());
  std::vector<float> scores(std::size_t(setup.units));
  const int lanes = std::max(1, int(std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int lane = 0; lane < lanes; ++lane)
    threads.emplace_back([&, lane] {
      for (Index unit = setup.units * lane / lanes; unit < setup.units * (lane + 1) / lanes;
           ++unit) {
        double sum = 0;
        for (Index i = 0; i < setup.width; ++i)
          sum += x[std::size_t(i)] *
                 double(element(kItemSeed, std::uint64_t(unit * setup.width + i)).value());
        scores[std::size_t(unit)] = float(sum);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return scores;
}

/// Whether row r of a list holds the best units, but for scores closer than their rounding.
bool is_right(const Setup& setup, const Seen& seen, int batch, Index r,
              const std::vector<float>& score, const std::vector<Index>& unit) {
  constexpr float kTolerance = 2e-5f;
  const std::vector<float> exact = exact_scores(setup, batch, r);
  std::vector<Index> listed;
  for (Index i = 0; i < setup.k; ++i) {
    const std::size_t at = std::size_t(r * setup.k + i);
    if (seen.contains(r, unit[at])) return false;
    if (std::abs(score[at] - exact[std::size_t(unit[at])]) > kTolerance) return false;
    if (i > 0 && score[at] > score[at - 1]) return false;
    listed.push_back(unit[at]);
  }
  std::sort(listed.begin(), listed.end());
  if (std::adjacent_find(listed.begin(), listed.end()) != listed.end()) return false;
  const float last = score[std::size_t((r + 1) * setup.k - 1)] + kTolerance;
  for (Index u = 0; u < setup.units; ++u)
    if (exact[std::size_t(u)] > last && !seen.contains(r, u) &&
        !std::binary_search(listed.begin(), listed.end(), u))
      return false;
  return true;
}

/// The program's data on the GPU.
class Bench {
 public:
  explicit Bench(const Setup& setup)
      : setup_(setup),
        seen_(setup, 5),
        items_(random_matrix(setup.units * setup.width, kItemSeed, memory_)),
        row_begin_(Index(seen_.row_begin.size()), memory_),
        column_(Index(seen_.column.size()), memory_),
        gave_up_(Buffer<std::int64_t>::zeros(1, memory_)) {
    for (int b = 0; b < kBatches; ++b)
      users_.push_back(random_matrix(setup.batch * setup.width, user_seed(b), memory_));
    row_begin_.write(seen_.row_begin.data(), row_begin_.size());
    column_.write(seen_.column.data(), column_.size());
  }

  void run(int batch) {
    select_->begin(setup_.batch, setup_.k, best_);
    const CsrView excluded{row_begin_.data(), column_.data(), nullptr, setup_.batch, setup_.units};
    product_.find({users_[std::size_t(batch)].data(), setup_.batch, setup_.width, setup_.width},
                  {items_.data(), setup_.units, setup_.width, setup_.width}, {}, 0, {excluded, {}},
                  best_, gave_up_.data());
  }

  bool verify(int batch) {
    run(batch);
    std::vector<float> score(std::size_t(setup_.batch * setup_.k));
    std::vector<Index> unit(score.size());
    std::int64_t gave_up = 1;
    gave_up_.read(&gave_up, 1);
    if (gave_up != 0) return false;
    memory_.read(best_.score.view().data, score.data(), score.size() * sizeof(float));
    memory_.read(best_.unit.view().data, unit.data(), unit.size() * sizeof(Index));
    return is_right(setup_, seen_, batch, 0, score, unit) &&
           is_right(setup_, seen_, batch, setup_.batch - 1, score, unit);
  }

  /// Milliseconds of a batch, the median of `repeats`.
  double time(int repeats) {
    cudaEvent_t begin, end;
    cuda::check(cudaEventCreate(&begin), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end), "cudaEventCreate");
    std::vector<float> times;
    for (int i = 0; i < repeats; ++i) {
      cuda::check(cudaEventRecord(begin, nullptr), "cudaEventRecord");
      run(i % kBatches);
      cuda::check(cudaEventRecord(end, nullptr), "cudaEventRecord");
      cuda::check(cudaEventSynchronize(end), "cudaEventSynchronize");
      times.emplace_back();
      cuda::check(cudaEventElapsedTime(&times.back(), begin, end), "cudaEventElapsedTime");
    }
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return double(times[std::size_t(repeats / 2)]);
  }

 private:
  static int multiprocessors() {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "cudaDeviceGetAttribute");
    return count;
  }
  Setup setup_;
  Seen seen_;
  cuda::DeviceMemory memory_{nullptr, false};
  cuda::Stream stream_{nullptr, memory_, Precision::bf16, multiprocessors()};
  Buffer<Bfloat16> items_;
  std::vector<Buffer<Bfloat16>> users_;
  Buffer<RowOffset> row_begin_;
  Buffer<Column> column_;
  Buffer<std::int64_t> gave_up_;
  std::unique_ptr<SelectKernels> select_ = cuda::make_select(stream_);
  cuda::TopKProduct product_{stream_};
  TopK best_;
};

}  // namespace

int main(int argc, char** argv) {
  const Setup setup(argc, argv);
  Bench bench(setup);
  if (setup.check != 0 && !bench.verify(1)) {
    std::fprintf(stderr, "predict_bench: the lists are wrong\n");
    return 1;
  }
  bench.time(3);
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) times.push_back(bench.time(kBatches));
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  const double flop = 2.0 * double(setup.batch) * double(setup.width) * double(setup.units);
  const double bytes = 2.0 * double(setup.width) * double(setup.units);
  const double floor_ms = 1e3 * std::max(flop / kPeak, bytes / kBandwidth);
  const auto users = [&](double time) { return double(setup.batch) / time * 1e3; };
  std::printf(
      "%lld units x %lld, K %lld, batch %lld: %.3f ms, %.0f users/s (%.0f to %.0f), %.1f %% of the "
      "floor\n",
      (long long)setup.units, (long long)setup.width, (long long)setup.k, (long long)setup.batch,
      ms, users(ms), users(times.back()), users(times.front()), 100 * floor_ms / ms);
  if (!setup.json.empty())
    std::ofstream(setup.json, std::ios::app)
        << "{\"units\": " << setup.units << ", \"width\": " << setup.width << ", \"k\": " << setup.k
        << ", \"batch\": " << setup.batch << ", \"ms\": " << ms
        << ", \"samples_per_second\": " << users(ms) << ", \"slowest\": " << users(times.back())
        << ", \"fastest\": " << users(times.front()) << ", \"batches\": " << kBatches
        << ", \"share_of_floor\": " << floor_ms / ms << "}\n";
  return 0;
}
