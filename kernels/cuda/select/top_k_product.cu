// SPDX-License-Identifier: Apache-2.0
// The best units of a wide last layer without its scores: products of 64 units by 256 examples stay
// in registers, where they are compared with the K-th best score of each example so far. The few
// that beat it go to a list of candidates. Units are gone through in chunks, each a few times as
// long as all before it, and the candidates are merged after each.
#include "kernels/cuda/hopper/hopper.cuh"
#include "kernels/cuda/hopper/hopper_wide.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/select/row_scores.h"
#include "kernels/cuda/select/select_merge.h"
#include "kernels/cuda/select/top_k_product.h"
#include "kernels/recommend.h"

namespace norn::cuda {
namespace {

constexpr int kExamples = 256;  ///< of a block
constexpr int kUnits = 64;      ///< of a tile
constexpr int kDepth = 64;      ///< values of k in a box
constexpr int kBoxBytes = 64 * kDepth * int(sizeof(Bfloat16));
constexpr int kMaxBoxes = 4;  ///< along k
constexpr int kMaxStages = 8;
constexpr int kConsumerThreads = 128;
constexpr int kBlockThreads =
    3 * kConsumerThreads;        // two warpgroups that multiply, one that copies
constexpr int kTurnBarrier = 1;  // named barriers 1 and 2: whose turn it is
constexpr int kSharedBytes = 227 * 1024;
constexpr int kSwizzleAlignment = 1024;
constexpr Index kGrowth = 4;  ///< a chunk is (kGrowth - 1) times as long as all before it

/// What becomes of the scores: candidates that beat a limit, candidates all of them, or they are
/// written as they are.
enum class Scores { compared, listed, written };

/// One chunk's work.
struct ChunkWork {
  CUtensorMap x;
  CUtensorMap w;
  const float* bias;  ///< of the chunk's first unit, or null
  BestView best;
  Key* candidates;  ///< [examples x capacity]
  int* counts;      ///< [examples]
  std::int64_t* gave_up;
  Index examples;
  Index first;       ///< the chunk's first unit: row of w
  Index first_name;  ///< and its number in the lists
  Index units;
  float* z;  ///< [examples x units] of what is written
  Index z_stride;
  int capacity;
  int boxes;   ///< along k
  int stages;  ///< tiles of w in shared memory
  int groups;  ///< of kExamples examples
};

/// What stands in shared memory before the operands.
struct Shared {
  float limit[kExamples];  ///< what a candidate must beat
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];
  std::uint64_t x_full;
};
static_assert(sizeof(Shared) + kSwizzleAlignment + kMaxBoxes * (4 + 3) * kBoxBytes <= kSharedBytes);

/// The tiles of a block: of every 2 * blocks tiles of its group one for each consumer.
struct TileShare {
  Index tiles;
  int blocks;  ///< of the group
  int block;

  __device__ explicit TileShare(const ChunkWork& work)
      : tiles((work.units + kUnits - 1) / kUnits),
        blocks(int(gridDim.x) / work.groups),
        block(int(blockIdx.x) / work.groups) {}
  __device__ Index tile(Index turn, int consumer) const {
    return (turn * blocks + block) * 2 + consumer;
  }
  /// Turns of a consumer.
  __device__ Index turns(int consumer) const {
    const Index left = tiles - tile(0, consumer);
    return left <= 0 ? 0 : (left + 2 * blocks - 1) / (2 * blocks);
  }
};

/// Where the operands are: x, then the stages.
struct Operands {
  std::uint32_t x;
  std::uint32_t stages;
  std::uint32_t stage_bytes;

  __device__ Operands(const ChunkWork& work, const void* after)
      : x((hopper::shared_address(after) + kSwizzleAlignment - 1) / kSwizzleAlignment *
          kSwizzleAlignment),
        stages(x + work.boxes * 4 * kBoxBytes),
        stage_bytes(work.boxes * kBoxBytes) {}
};

/// Copies the block's examples, then tile after tile; one thread.
__device__ void produce(const ChunkWork& work, Shared& shared, const Operands& at) {
  const TileShare share(work);
  const int group = int(blockIdx.x) % work.groups;
  const std::uint32_t x_full = hopper::shared_address(&shared.x_full);
  hopper::barrier_arrive_expecting(x_full, work.boxes * 4 * kBoxBytes);
  for (int k = 0; k < work.boxes; ++k)
    for (int part = 0; part < 4; ++part)
      hopper::load_box(work.x, at.x + (4 * k + part) * kBoxBytes, x_full, k * kDepth,
                       group * kExamples + part * 64);
  int stage = 0;
  std::uint32_t parity = 1;  // every stage is empty at first
  for (Index turn = 0; turn < share.turns(0); ++turn)
    for (int consumer = 0; consumer < 2; ++consumer) {
      const Index tile = share.tile(turn, consumer);
      if (tile >= share.tiles) return;
      const std::uint32_t full = hopper::shared_address(&shared.full[stage]);
      hopper::barrier_wait(hopper::shared_address(&shared.empty[stage]), parity);
      hopper::barrier_arrive_expecting(full, at.stage_bytes);
      for (int k = 0; k < work.boxes; ++k)
        hopper::load_box(work.w, at.stages + stage * at.stage_bytes + k * kBoxBytes, full,
                         k * kDepth, int(work.first + tile * kUnits));
      if (++stage == work.stages) stage = 0, parity ^= 1;
    }
}

/// One consumer thread's part of a tile of scores.
struct ScorePart {
  Index unit;   ///< within the chunk; the other one is 8 more
  int example;  ///< within the block, of column 0; the others are 1 and multiples of 8 more

  __device__ explicit ScorePart(Index tile)
      : unit(tile * kUnits + int(threadIdx.x) % kConsumerThreads / 32 * 16 +
             int(threadIdx.x) % 32 / 4),
        example(int(threadIdx.x) % 4 * 2) {}
};

/// The bias of a unit; -inf beyond the chunk, so that nothing there beats a limit.
__device__ float bias_of(const ChunkWork& work, Index unit) {
  if (unit >= work.units) return -std::numeric_limits<float>::infinity();
  return work.bias == nullptr ? 0.0f : work.bias[unit];
}

/// A score that waits to be listed: 2 * example + (0 or 1 for the second unit).
struct Waiting {
  float score;
  int place;
};

__device__ void list_candidates(const ChunkWork& work, const ScorePart& part, Index first_example,
                                const Waiting* waiting, int count) {
  for (int i = 0; i < count; ++i) {
    const Index example = first_example + waiting[i].place / 2;
    const Index unit = part.unit + waiting[i].place % 2 * 8;
    const int place = atomicAdd(&work.counts[example], 1);
    if (place < work.capacity)
      work.candidates[example * work.capacity + place] =
          key_of(waiting[i].score, work.first_name + unit);
    else
      *work.gave_up = 1;
  }
}

/// Lists the scores that beat their example's limit.
__device__ void compare(const ChunkWork& work, const Shared& shared, const ScorePart& part,
                        Index first_example, const float (&score)[128]) {
  const float2* limit = reinterpret_cast<const float2*>(shared.limit + part.example);
  bool has_any = false;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const float2 least = limit[4 * j];
    has_any |= (score[4 * j] > least.x) | (score[4 * j + 1] > least.y) |
               (score[4 * j + 2] > least.x) | (score[4 * j + 3] > least.y);
  }
  if (!has_any) return;
  Waiting waiting[128];  // in local memory: few are used, but any may be
  int count = 0;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const float2 least = limit[4 * j];
    const int example = part.example + 8 * j;
    if (score[4 * j] > least.x) waiting[count++] = {score[4 * j], 2 * example};
    if (score[4 * j + 1] > least.y) waiting[count++] = {score[4 * j + 1], 2 * example + 2};
    if (score[4 * j + 2] > least.x) waiting[count++] = {score[4 * j + 2], 2 * example + 1};
    if (score[4 * j + 3] > least.y) waiting[count++] = {score[4 * j + 3], 2 * example + 3};
  }
  list_candidates(work, part, first_example, waiting, count);
}

/// Lists every score, in the place of its unit.
__device__ void list_all(const ChunkWork& work, const ScorePart& part, Index first_example,
                         const float (&score)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const Index example = first_example + part.example + i / 4 * 8 + i % 2;
    const Index unit = part.unit + i % 4 / 2 * 8;
    if (example < work.examples && unit < work.units)
      work.candidates[example * work.capacity + unit] =
          score[i] != score[i] ? kNoKey : key_of(score[i], work.first_name + unit);
  }
}

/// Writes every score. Eight lanes write 32 bytes of a row.
__device__ void write_all(const ChunkWork& work, const ScorePart& part, Index first_example,
                          const float (&score)[128]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const Index example = first_example + part.example + i / 4 * 8 + i % 2;
    const Index unit = part.unit + i % 4 / 2 * 8;
    if (example < work.examples && unit < work.units)
      work.z[example * work.z_stride + unit] = score[i];
  }
}

/// One tile's products, by the warpgroup whose turn it is; they are under way on return. Unrolled:
/// a product waits for the one before it when the compiler cannot see all of them at once.
template <int kBoxes>
__device__ void multiply(const Operands& at, int stage, float (&score)[128]) {
  using hopper::Major;
  const std::uint64_t w = hopper::operand<Major::k>(at.stages + stage * at.stage_bytes);
  const std::uint64_t x = hopper::operand<Major::k>(at.x);
  constexpr std::uint64_t kNextBox = kBoxBytes / 16;
  hopper::product_fence();
#pragma unroll
  for (int k = 0; k < 4 * kBoxes; ++k)
    hopper::multiply_64x256x16(score, w + k / 4 * kNextBox + k % 4 * hopper::kNextK<Major::k>,
                               x + k / 4 * 4 * kNextBox + k % 4 * hopper::kNextK<Major::k>, k > 0);
  hopper::product_commit();
}

template <int kBoxes, Scores kScores>
__device__ void consume(const ChunkWork& work, Shared& shared, const Operands& at, int consumer) {
  const TileShare share(work);
  const Index first_example = Index(blockIdx.x % work.groups) * kExamples;
  const Index turns = share.turns(consumer);
  const Index turns_of_other = share.turns(1 - consumer);
  if (consumer == 1 && turns_of_other > 0) hopper::named_arrive(kTurnBarrier, 2 * kConsumerThreads);
  hopper::barrier_wait(hopper::shared_address(&shared.x_full), 0);
  float score[128];
  int stage = consumer % work.stages;
  std::uint32_t parity = 0;
  for (Index turn = 0; turn < turns; ++turn) {
    const ScorePart part(share.tile(turn, consumer));
    const float bias[2] = {bias_of(work, part.unit), bias_of(work, part.unit + 8)};
    hopper::named_sync(kTurnBarrier + consumer, 2 * kConsumerThreads);
    hopper::barrier_wait(hopper::shared_address(&shared.full[stage]), parity);
    multiply<kBoxes>(at, stage, score);
    if (turn + consumer < turns_of_other)
      hopper::named_arrive(kTurnBarrier + 1 - consumer, 2 * kConsumerThreads);
    hopper::product_wait<0>();
    hopper::pin(score);
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(hopper::shared_address(&shared.empty[stage]));
    stage += 2;
    if (stage >= work.stages) stage -= work.stages, parity ^= 1;
#pragma unroll
    for (int i = 0; i < 128; ++i) score[i] += bias[i % 4 / 2];
    if constexpr (kScores == Scores::listed)
      list_all(work, part, first_example, score);
    else if constexpr (kScores == Scores::written)
      write_all(work, part, first_example, score);
    else
      compare(work, shared, part, first_example, score);
  }
}

/// The score that a candidate of an example must beat: that of the last one in its list.
__device__ float limit_of(const ChunkWork& work, Index example) {
  const Index k = work.best.score.cols;
  if (example >= work.examples) return std::numeric_limits<float>::infinity();
  if (work.best.count[example] == k) return work.best.score(example, k - 1);
  *work.gave_up = 1;
  return std::numeric_limits<float>::infinity();
}

template <int kBoxes, Scores kScores>
__global__ void __launch_bounds__(kBlockThreads, 1)
    score_chunk(const __grid_constant__ ChunkWork work) {
  extern __shared__ char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const Operands at(work, memory + sizeof(Shared));
  if (threadIdx.x == 0) {
    for (int s = 0; s < work.stages; ++s) {
      hopper::barrier_init(hopper::shared_address(&shared.full[s]), 1);
      hopper::barrier_init(hopper::shared_address(&shared.empty[s]), kConsumerThreads / 32);
    }
    hopper::barrier_init(hopper::shared_address(&shared.x_full), 1);
    hopper::barrier_init_done();
  }
  if constexpr (kScores == Scores::compared)
    if (threadIdx.x < kExamples)
      shared.limit[threadIdx.x] =
          limit_of(work, Index(blockIdx.x % work.groups) * kExamples + threadIdx.x);
  __syncthreads();
  const int warpgroup = __shfl_sync(kWholeWarp, int(threadIdx.x) / kConsumerThreads, 0);
  if (warpgroup == 2) {
    hopper::give_registers<40>();
    if (threadIdx.x == 2 * kConsumerThreads) produce(work, shared, at);
  } else {
    hopper::take_registers<232>();
    consume<kBoxes, kScores>(work, shared, at, warpgroup);
  }
}

/// Candidates as a source of merge_small.
struct ListOfKeys {
  const Key* keys;    ///< [examples x capacity]
  const int* counts;  ///< [examples], or null: `all` of each
  int all;
  int capacity;
  Candidates candidates;

  __device__ Index size(Index r) const {
    return counts == nullptr ? all : min(counts[r], capacity);
  }
  __device__ void load_four(Index r, Index at, float (&x)[4]) const {
    const Index left = size(r) - at;
    for (int j = 0; j < 4; ++j) {
      const Key key = j < left ? keys[r * capacity + at + j] : kNoKey;
      x[j] = key == kNoKey ? std::numeric_limits<float>::quiet_NaN() : score_of(key);
    }
  }
  __device__ Key key(Index r, Index i, float) const {
    const Key key = keys[r * capacity + i];
    return is_forbidden(candidates, r, unit_of(key)) ? kNoKey : key;
  }
};

/// Candidates that a row has room for: the first chunk, and several times what one expects of the
/// others, (kGrowth - 1) * k.
static_assert(SearchSize::kLongest == kCandidateCapacity - kGroupWidth && sizeof(Key) == 8);

/// Units of the chunk that begins at `first`.
Index chunk_after(Index first, Index units, int capacity) {
  return std::min(first == 0 ? Index(capacity) : (kGrowth - 1) * first, units - first);
}

Index chunks_of(Index units, int capacity) {
  Index count = 0;
  for (Index first = 0; first < units; first += chunk_after(first, units, capacity)) ++count;
  return count;
}

template <Scores kScores>
auto kernel_for(int boxes) {
  return boxes == kMaxBoxes ? score_chunk<kMaxBoxes, kScores> : score_chunk<kMaxBoxes / 2, kScores>;
}

/// What all chunks have in common.
ChunkWork work_on(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w) {
  ChunkWork work{.x = map_boxes(x),
                 .w = map_boxes(w),
                 .examples = x.rows,
                 .boxes = x.cols <= kMaxBoxes / 2 * kDepth ? kMaxBoxes / 2 : kMaxBoxes,
                 .groups = int((x.rows + kExamples - 1) / kExamples)};
  const int free_bytes = kSharedBytes - int(sizeof(Shared)) - kSwizzleAlignment;
  work.stages = std::min(kMaxStages, free_bytes / (work.boxes * kBoxBytes) - 4);
  return work;
}

template <Scores kScores>
void launch(const Stream& stream, const ChunkWork& work) {
  const auto kernel = kernel_for<kScores>(work.boxes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "cudaFuncSetAttribute");
  const unsigned blocks = unsigned(work.groups * std::max(1, stream.multiprocessors / work.groups));
  kernel<<<blocks, kBlockThreads, kSharedBytes, stream.stream>>>(work);
  check_launch("score_chunk");
}

}  // namespace

bool fits_row_scores(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w) {
  return device_has_wgmma() && can_map(x) && (w.empty() || (can_map(w) && x.cols == w.cols)) &&
         x.cols <= kMaxBoxes * kDepth;
}

void write_row_scores(const Stream& stream, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> w, VectorView<const float> bias,
                      MatrixView<float> z) {
  if (z.empty()) return;
  ChunkWork work = work_on(x, w);
  work.units = w.rows;
  work.bias = bias.data;
  work.z = z.data;
  work.z_stride = z.stride;
  launch<Scores::written>(stream, work);
}

bool TopKProduct::fits(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w, Index k) {
  return fits_row_scores(x, w) && k <= SearchSize::kLongest;
}

void TopKProduct::find(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w,
                       VectorView<const float> bias, Index first_unit, const Candidates& candidates,
                       TopK& best, std::int64_t* gave_up) {
  const int capacity = int(SearchSize::capacity(best.k));
  ChunkWork work = work_on(x, w);
  work.best = {best.score.view(), best.unit.view(), best.count.data()};
  work.candidates = candidates_.reserve(x.rows * capacity);
  work.gave_up = gave_up;
  work.capacity = capacity;
  const Index counts = x.rows * chunks_of(w.rows, capacity);
  work.counts = counts_.reserve(counts);
  check(cudaMemsetAsync(work.counts, 0, std::size_t(counts) * sizeof(int), stream_.stream),
        "cudaMemsetAsync");
  for (Index first = 0; first < w.rows; first += work.units, work.counts += x.rows) {
    work.first = first;
    work.first_name = first_unit + first;
    work.units = chunk_after(first, w.rows, capacity);
    work.bias = bias.empty() ? nullptr : bias.data + first;
    if (first == 0)
      launch<Scores::listed>(stream_, work);
    else
      launch<Scores::compared>(stream_, work);
    const ListOfKeys keys{work.candidates, first == 0 ? nullptr : work.counts, int(work.units),
                          capacity, candidates};
    merge_small<<<unsigned(x.rows), kMergeThreads, 0, stream_.stream>>>(keys, work.best);
    check_launch("merge_small");
  }
}

}  // namespace norn::cuda
