// SPDX-License-Identifier: Apache-2.0
// Kernels that write into the memory of other GPUs and wait for what those write into theirs.
#include "src/parallel/gpu/peer_kernels.h"

namespace norn {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 4;  // words of a thread that are on their way together

__device__ void store_release(std::uint64_t* place, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(place), "l"(value) : "memory");
}
__device__ std::uint64_t load_acquire(const std::uint64_t* place) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(place) : "memory");
  return value;
}

/// Blocks of one number on all ranks: none goes on before all are here and what they wrote can be
/// read.
__device__ void barrier(const PeerBoard& board) {
  __syncthreads();
  const int peer = int(threadIdx.x);
  if (peer < board.ranks && peer != board.rank) {
    const int row = int(blockIdx.x) * kMostPeers;
    __threadfence_system();
    store_release(board.flags[peer] + row + board.rank, board.sequence);
    const std::uint64_t* theirs = board.flags[board.rank] + row + peer;
    const volatile int* given_up = board.given_up;
    for (int i = 1; load_acquire(theirs) < board.sequence; ++i)
      if (i % 256 == 0 && *given_up != 0) break;
  }
  __syncthreads();
}

/// visit(first word, end, step) for the words of this thread, several of which it may read before
/// it writes.
template <typename Word, typename Read, typename Write>
__device__ void move_words(std::uint32_t words, const Read& read, const Write& write) {
  const std::uint32_t step = gridDim.x * kThreads;
  std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  Word kept[kAtOnce];
  for (; i + (kAtOnce - 1) * step < words; i += kAtOnce * step) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) kept[k] = read(i + std::uint32_t(k) * step);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) write(i + std::uint32_t(k) * step, kept[k]);
  }
  for (; i < words; i += step) write(i, read(i));
}

template <typename Word>
__device__ void send_to_all(const PeerBoard& board, const PeerSend& send) {
  for (int away = 1; away < board.ranks; ++away) {
    const int peer = (board.rank + away) % board.ranks;  // no two ranks send to one at a time
    const auto in_row = std::uint32_t(send.columns.bytes[peer] / std::int64_t(sizeof(Word)));
    const std::uint32_t words = in_row * std::uint32_t(send.columns.rows);
    for (int m = 0; m < send.matrices; ++m) {
      const std::byte* const from = send.from[m] + send.columns.begin[peer];
      const std::int64_t stride = send.stride[m];
      Word* const to = reinterpret_cast<Word*>(send.to[peer]) + std::int64_t(words) * m;
      move_words<Word>(
          words,
          [&](std::uint32_t i) {
            const std::uint32_t row = i / in_row;
            return reinterpret_cast<const Word*>(from + row * stride)[i - row * in_row];
          },
          [&](std::uint32_t i, const Word& word) { to[i] = word; });
    }
  }
  barrier(board);
}

template <typename Word>
__global__ void __launch_bounds__(kThreads) send_words(PeerBoard board, PeerSend send) {
  send_to_all<Word>(board, send);
}

/// A block adds what blocks of its number sent.
__global__ void __launch_bounds__(kThreads) reduce_words(PeerBoard board, PeerReduce reduce) {
  using Word = std::int64_t;
  const PeerSend& sent = reduce.sent;
  send_to_all<Word>(board, sent);
  const auto in_row = std::uint32_t(sent.columns.bytes[board.rank] / std::int64_t(sizeof(Word)));
  const std::uint32_t words = in_row * std::uint32_t(sent.columns.rows);
  for (int m = 0; m < sent.matrices; ++m) {
    std::byte* const own = const_cast<std::byte*>(sent.from[m]) + sent.columns.begin[board.rank];
    const std::int64_t at = std::int64_t(words) * m;
    const auto place = [&](std::uint32_t i) {
      const std::uint32_t row = i / in_row;
      return reinterpret_cast<Word*>(own + row * sent.stride[m]) + (i - row * in_row);
    };
    move_words<Word>(
        words,
        [&](std::uint32_t i) {
          Word sum = *place(i);
          for (int away = 1; away < board.ranks; ++away)
            sum += __ldcg(
                reinterpret_cast<const Word*>(reduce.from[(board.rank + away) % board.ranks]) + at +
                i);
          return sum;
        },
        [&](std::uint32_t i, Word sum) { *place(i) = sum; });
  }
}

template <typename Word>
__global__ void __launch_bounds__(kThreads) gather_words(PeerBoard board, PeerGather gather) {
  const PeerColumns& columns = gather.columns;
  const auto words_in_row = [&](int r) {
    return std::uint32_t(columns.bytes[r] / std::int64_t(sizeof(Word)));
  };
  const auto place = [&](int r, std::uint32_t i) {
    const std::uint32_t row = i / words_in_row(r);
    return reinterpret_cast<Word*>(gather.whole + columns.begin[r] + row * gather.stride) +
           (i - row * words_in_row(r));
  };
  const auto rows = std::uint32_t(columns.rows);
  move_words<Word>(
      rows * words_in_row(board.rank), [&](std::uint32_t i) { return *place(board.rank, i); },
      [&](std::uint32_t i, const Word& word) {
        for (int away = 1; away < board.ranks; ++away)
          reinterpret_cast<Word*>(gather.to[(board.rank + away) % board.ranks])[i] = word;
      });
  barrier(board);
  for (int away = 1; away < board.ranks; ++away) {
    const int peer = (board.rank + away) % board.ranks;
    const Word* const from = reinterpret_cast<const Word*>(gather.from[peer]);
    move_words<Word>(
        rows * words_in_row(peer), [&](std::uint32_t i) { return __ldcg(from + i); },
        [&](std::uint32_t i, const Word& word) { *place(peer, i) = word; });
  }
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

struct Workspaces {
  std::byte* of[kMostPeers];
};

template <typename T, typename Combine>
__global__ void __launch_bounds__(kThreads)
    all_reduce_values(PeerBoard board, T* values, std::int64_t count, Workspaces workspaces) {
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  const std::int64_t first = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = first; i < count; i += step)
    for (int away = 1; away < board.ranks; ++away)
      reinterpret_cast<T*>(
          workspaces.of[(board.rank + away) % board.ranks])[board.rank * count + i] = values[i];
  barrier(board);
  const T* const brought = reinterpret_cast<const T*>(workspaces.of[board.rank]);
  for (std::int64_t i = first; i < count; i += step) {
    T combined = values[i];
    for (int away = 1; away < board.ranks; ++away)
      combined =
          Combine()(combined, __ldcg(brought + (board.rank + away) % board.ranks * count + i));
    values[i] = combined;
  }
}

template <typename T, typename Combine>
cudaError_t launch_all_reduce(const PeerBoard& board, T* values, std::int64_t count,
                              const PeerWorkspaces& workspace, int blocks, cudaStream_t stream) {
  Workspaces workspaces{};
  for (int r = 0; r < board.ranks; ++r) workspaces.of[r] = workspace[std::size_t(r)];
  all_reduce_values<T, Combine>
      <<<unsigned(blocks), kThreads, 0, stream>>>(board, values, count, workspaces);
  return cudaGetLastError();
}

}  // namespace

cudaError_t peer_send(const PeerBoard& board, const PeerSend& send, cudaStream_t stream) {
  std::int64_t bits = 0;
  for (int m = 0; m < send.matrices; ++m)
    bits |= reinterpret_cast<std::intptr_t>(send.from[m]) | send.stride[m];
  for (int r = 0; r < board.ranks; ++r)
    if (r != board.rank)
      bits |= reinterpret_cast<std::intptr_t>(send.to[r]) | send.columns.begin[r] |
              send.columns.bytes[r];
  if (bits % 16 == 0)
    send_words<uint4><<<unsigned(send.blocks), kThreads, 0, stream>>>(board, send);
  else
    send_words<std::uint32_t><<<unsigned(send.blocks), kThreads, 0, stream>>>(board, send);
  return cudaGetLastError();
}

cudaError_t peer_reduce(const PeerBoard& board, const PeerReduce& reduce, cudaStream_t stream) {
  reduce_words<<<unsigned(reduce.sent.blocks), kThreads, 0, stream>>>(board, reduce);
  return cudaGetLastError();
}

// All ranks must take words of one size, so nothing is asked that they may not have in common.
cudaError_t peer_gather(const PeerBoard& board, const PeerGather& gather, cudaStream_t stream) {
  std::int64_t bits = gather.stride;
  for (int r = 0; r < board.ranks; ++r) bits |= gather.columns.begin[r] | gather.columns.bytes[r];
  if (bits % 16 == 0)
    gather_words<uint4><<<unsigned(gather.blocks), kThreads, 0, stream>>>(board, gather);
  else if (bits % 4 == 0)
    gather_words<std::uint32_t><<<unsigned(gather.blocks), kThreads, 0, stream>>>(board, gather);
  else
    gather_words<std::uint16_t><<<unsigned(gather.blocks), kThreads, 0, stream>>>(board, gather);
  return cudaGetLastError();
}

cudaError_t peer_sum(const PeerBoard& board, std::int64_t* values, std::int64_t count,
                     const PeerWorkspaces& workspace, int blocks, cudaStream_t stream) {
  return launch_all_reduce<std::int64_t, Sum>(board, values, count, workspace, blocks, stream);
}

cudaError_t peer_max(const PeerBoard& board, std::int32_t* values, std::int64_t count,
                     const PeerWorkspaces& workspace, int blocks, cudaStream_t stream) {
  return launch_all_reduce<std::int32_t, Largest>(board, values, count, workspace, blocks, stream);
}

}  // namespace norn
