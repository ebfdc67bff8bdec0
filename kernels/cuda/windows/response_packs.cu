// SPDX-License-Identifier: Apache-2.0
// A thread has eight channels of a place, and reads as many neighbours as it sums them with. What
// neighbours need of each other on the way back goes through shared memory.
#include "kernels/cuda/windows/channel_packs.cuh"
#include "kernels/cuda/windows/response.cuh"
#include "kernels/cuda/windows/response_packs.h"

namespace norn::cuda {
namespace {

constexpr int kN = kChannelPack;
constexpr int kMostSide = 4;  // neighbours on each side, half a pack

struct Work {
  WindowMap map;  // of packs
  Response response;
  Operand x;
  Operand delta;  ///< backward
  GivenDelta to;  ///< forward the responses
};

/// Whether packs are in front of and behind one of its place.
struct Neighbours {
  bool front;
  bool behind;
  __device__ Neighbours(const WindowMap& map, int pack)
      : front(pack > 0), behind(pack + 1 < map.channels) {}
};

/// What stands around a pack: kSide of those in front, its own, kSide of those behind. What is
/// beyond the place is 0, which sums of squares and of shares do not notice.
template <int kSide>
struct Surroundings {
  float value[kN + 2 * kSide];

  __device__ Surroundings(const Pack<float, 4>& front, const Pack<float, kN>& own,
                          const Pack<float, 4>& behind) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      value[i] = front.value[kMostSide - kSide + i];
      value[kSide + kN + i] = behind.value[i];
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) value[kSide + i] = own.value[i];
  }
  /// Of the 2 * kSide + 1 around each of its own, in order.
  __device__ Pack<float, kN> sums() const {
    Pack<float, kN> all{};
#pragma unroll
    for (int i = 0; i < kN; ++i)
#pragma unroll
      for (int j = 0; j <= 2 * kSide; ++j) all.value[i] += value[i + j];
    return all;
  }
  __device__ Surroundings squares() const {
    Surroundings result = *this;
#pragma unroll
    for (float& x : result.value) x *= x;
    return result;
  }
};

template <int kSide>
__device__ Surroundings<kSide> read_around(const Operand& x, Index e, Index at,
                                           const Neighbours& has) {
  Pack<float, 4> front{}, behind{};
  const Pack<float, kN> own = x.pack<kN>(e, at);
  if (has.front) front = x.pack<4>(e, at - 4);
  if (has.behind) behind = x.pack<4>(e, at + kN);
  return {front, own, behind};
}

template <int kSide>
struct NormalisePack {
  Work work;
  __device__ void operator()(Index e, int c) const {
    int pack = c;
    work.map.by_channels.divide(pack);
    const Index at = Index(c) * kN;
    const auto x = read_around<kSide>(work.x, e, at, Neighbours(work.map, pack));
    const Pack<float, kN> squares = x.squares().sums();
    Pack<float, kN> y;
#pragma unroll
    for (int i = 0; i < kN; ++i)
      y.value[i] = x.value[kSide + i] * work.response.factor_of(squares.value[i]).power;
    work.to.add<kN>(e, at, y);
  }
};

/// What a thread keeps of its pack until its neighbours' shares are there.
struct OwnDeltas {
  Pack<float, kN> x;
  Pack<float, kN> scaled;
  Pack<float, kN> shares;

  template <int kSide>
  __device__ void find(const Work& work, Index e, Index at, const Neighbours& has) {
    const Pack<float, kN> delta = work.delta.pack<kN>(e, at);
    const auto around = read_around<kSide>(work.x, e, at, has);
    const Pack<float, kN> squares = around.squares().sums();
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const Response::Factor factor = work.response.factor_of(squares.value[i]);
      x.value[i] = around.value[kSide + i];
      shares.value[i] = Response::share(delta.value[i], x.value[i], factor);
      scaled.value[i] = delta.value[i] * factor.power;
    }
  }
  template <int kSide>
  __device__ void write(const Work& work, Index e, Index at, const Pack<float, 4>& front,
                        const Pack<float, 4>& behind) const {
    const Pack<float, kN> sums = Surroundings<kSide>(front, shares, behind).sums();
    Pack<float, kN> dx;
#pragma unroll
    for (int i = 0; i < kN; ++i)
      dx.value[i] = work.response.delta_of(scaled.value[i], x.value[i], sums.value[i]);
    work.to.add<kN>(e, at, dx);
  }
};

/// Blocks: tiles of `places` places x examples; a thread has one pack of a tile.
template <int kSide>
__global__ void __launch_bounds__(kWindowThreads)
    normalise_packs_backward_kernel(const Work work, const int places) {
  // Halves apart: neighbouring threads meet different banks.
  __shared__ Pack<float, 4> low[kWindowThreads], high[kWindowThreads];
  const int all = work.map.in[0] * work.map.in[1] * work.map.in[2];
  const auto thread = int(threadIdx.x);
  int pack = thread;
  const int of_tile = work.map.by_channels.divide(pack);
  const Neighbours has(work.map, pack);
  for (Index e = blockIdx.y; e < work.x.rows(); e += gridDim.y)
    for (int first = int(blockIdx.x) * places; first < all; first += int(gridDim.x) * places) {
      const bool works = of_tile < places && first + of_tile < all;
      const Index at = (Index(first) * work.map.channels + thread) * kN;
      OwnDeltas own;
      if (works) {
        own.find<kSide>(work, e, at, has);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          low[thread].value[i] = own.shares.value[i];
          high[thread].value[i] = own.shares.value[4 + i];
        }
      }
      __syncthreads();
      if (works) {
        const Pack<float, 4> none{};
        own.write<kSide>(work, e, at, has.front ? high[thread - 1] : none,
                         has.behind ? low[thread + 1] : none);
      }
      __syncthreads();
    }
}

/// start(a constant type): the neighbours on each side, if they are so many.
template <typename Start>
bool with_side(const LocalResponseNormalization& lrn, const Start& start) {
  switch (lrn.n) {
    case 3:
      start(std::integral_constant<int, 1>{});
      return true;
    case 5:
      start(std::integral_constant<int, 2>{});
      return true;
    case 7:
      start(std::integral_constant<int, 3>{});
      return true;
    case 9:
      start(std::integral_constant<int, 4>{});
      return true;
    default:
      return false;
  }
}

Work work_of(const LocalResponseNormalization& lrn, const PoolingSource& source,
             const Operand& delta, const GivenDelta& to) {
  return {pack_map<kN>(source.window), Response(lrn, source.window.channels), source.x, delta, to};
}

}  // namespace

bool normalise_packs(const Stream& stream, const LocalResponseNormalization& lrn,
                     const PoolingSource& source, const GivenDelta& to) {
  if (!has_channel_packs(source.window, source.x, to)) return false;
  return with_side(lrn, [&](auto side) {
    for_cells(stream, "normalise responses", to.dx.rows, to.dx.cols / kN,
              NormalisePack<decltype(side)::value>{work_of(lrn, source, {}, to)});
  });
}

bool normalise_packs_backward(const Stream& stream, const LocalResponseNormalization& lrn,
                              const PoolingSource& source, const DenseOperand& delta,
                              const GivenDelta& to) {
  const Operand given(delta);
  const Index packs = source.window.channels / kN;
  if (!has_channel_packs(source.window, source.x, to) || !given.is_packable<kN>() ||
      packs > kWindowThreads)
    return false;
  const Index places = kWindowThreads / packs, all = source.window.places();
  const Index most = Index(32) * stream.multiprocessors;
  const unsigned tiles = blocks_for(all, int(places), most);
  const dim3 grid(tiles, blocks_for(given.rows(), 1, std::max<Index>(1, most / tiles)));
  return with_side(lrn, [&](auto side) {
    normalise_packs_backward_kernel<decltype(side)::value>
        <<<grid, kWindowThreads, 0, stream.stream>>>(work_of(lrn, source, given, to), int(places));
    check_launch("normalise responses backward");
  });
}

}  // namespace norn::cuda
