// SPDX-License-Identifier: Apache-2.0
// Where threads may have packs of channels, response_packs.cu does it. Else a block has all
// channels of some places in shared memory, where each finds its neighbours; what several channels
// need of one is found once. Of more channels than that holds, each finds itself what it needs of
// the others.
#include "kernels/cuda/windows/response.cuh"
#include "kernels/cuda/windows/response_packs.h"
#include "kernels/cuda/windows/responses.h"
#include "kernels/cuda/windows/windows.cuh"

#include <algorithm>

namespace norn::cuda {
namespace {

constexpr int kTileUnits = 2048;  // about as many, of whole places
constexpr int kMostUnits = 4096;  // three floats each are the 48 KB that any block has

struct Work {
  WindowMap map;
  Response response;
  Operand x;
  Operand delta;  ///< backward
  GivenDelta to;  ///< forward the responses
};

/// use(place x channels + channel, channel, where the source has it, where results do) of some
/// places, one unit a thread at a time, in the order of the source.
template <typename Use>
__device__ void for_units(const Work& work, int first, int places, const Use& use) {
  const WindowMap& map = work.map;
  for (int i = int(threadIdx.x); i < places * map.channels; i += kWindowThreads) {
    int channel = i, place = 0;
    if (map.channel_stride == 1) {
      place = map.by_channels.divide(channel);
    } else {
      channel = i / places;
      place = i - channel * places;
    }
    const int of_image = first + place;
    use(place * map.channels + channel, channel,
        of_image * map.place_stride + channel * map.channel_stride,
        of_image * map.channels + channel);
  }
}

/// body(example, first place, places) of the tiles of a block.
template <typename Body>
__device__ void for_tiles(const Work& work, int places, const Body& body) {
  const int all = work.map.in[0] * work.map.in[1] * work.map.in[2];
  const int tiles = (all + places - 1) / places;
  for (Index tile = blockIdx.x; tile < work.x.rows() * tiles; tile += gridDim.x) {
    const int first = int(tile % tiles) * places;
    body(tile / tiles, first, min(places, all - first));
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kWindowThreads)
    normalise_responses_kernel(const Work work, const int places) {
  extern __shared__ float units[];
  for_tiles(work, places, [&](Index example, int first, int count) {
    for_units(work, first, count,
              [&](int at, int, int from, int) { units[at] = work.x(example, from); });
    __syncthreads();
    for_units(work, first, count, [&](int at, int channel, int, int to) {
      const float* const x = units + at - channel;
      const Response::Factor factor = work.response.factor(channel, [&](int i) { return x[i]; });
      work.to.add(example, to, units[at] * factor.power);
    });
  });
}

__global__ void __launch_bounds__(kWindowThreads)
    normalise_responses_backward_kernel(const Work work, const int places) {
  extern __shared__ float units[];
  float* const shares = units + places * work.map.channels;
  float* const scaled = shares + places * work.map.channels;
  for_tiles(work, places, [&](Index example, int first, int count) {
    for_units(work, first, count, [&](int at, int, int from, int to) {
      units[at] = work.x(example, from);
      scaled[at] = work.delta(example, to);
    });
    __syncthreads();
    for_units(work, first, count, [&](int at, int channel, int, int) {
      const float* const x = units + at - channel;
      const Response::Factor factor = work.response.factor(channel, [&](int i) { return x[i]; });
      shares[at] = Response::share(scaled[at], units[at], factor);
      scaled[at] *= factor.power;
    });
    __syncthreads();
    for_units(work, first, count, [&](int at, int channel, int from, int) {
      const float* const of_place = shares + at - channel;
      work.to.add(example, from, work.response.delta(channel, scaled[at], units[at], [&](int i) {
        return of_place[i];
      }));
    });
  });
}

/// The channels of a place, as they stand.
struct Channels {
  Operand x;
  Index example;
  int place;
  int stride;
  __device__ float operator()(int i) const { return x(example, place + i * stride); }
};

struct NormaliseOne {
  Work work;
  __device__ void operator()(Index e, int c) const {
    const WindowMap& map = work.map;
    int channel = c;
    const int place = map.by_channels.divide(channel);
    const Channels x{work.x, e, place * map.place_stride, map.channel_stride};
    work.to.add(e, c, x(channel) * work.response.factor(channel, x).power);
  }
};

struct NormaliseOneBackward {
  Work work;
  __device__ void operator()(Index e, int c) const {
    const WindowMap& map = work.map;
    int channel = c;
    const int place = map.by_channels.divide(channel), at = place * map.place_stride;
    const Channels x{work.x, e, at, map.channel_stride};
    const Channels given{work.delta, e, place * map.channels, 1};
    const float own = given(channel) * work.response.factor(channel, x).power;
    const float value = work.response.delta(channel, own, x(channel), [&](int i) {
      return Response::share(given(i), x(i), work.response.factor(i, x));
    });
    work.to.add(e, at + channel * map.channel_stride, value);
  }
};

Work work_of(const LocalResponseNormalization& lrn, const PoolingSource& source,
             const DenseOperand& delta, const GivenDelta& to) {
  const WindowMap map(source.window);
  return {map, Response(lrn, map.channels), source.x, delta, to};
}

/// Calls launch(blocks, places of a tile, its units) if a tile holds a place.
template <typename Launch>
bool launch_tiles(const Stream& stream, const Work& work, const char* name, const Launch& launch) {
  if (work.map.channels > kMostUnits) return false;
  const Index places = std::max(1, kTileUnits / work.map.channels);
  const Index all = work.x.cols() / work.map.channels;
  const Index tiles = work.x.rows() * ((all + places - 1) / places);
  if (tiles > 0)
    launch(blocks_for(tiles, 1, Index(64) * stream.multiprocessors), int(places),
           std::size_t(places * work.map.channels));
  check_launch(name);
  return true;
}

}  // namespace

void normalise_responses(const Stream& stream, const LocalResponseNormalization& lrn,
                         const PoolingSource& source, const GivenDelta& to) {
  if (normalise_packs(stream, lrn, source, to)) return;
  const Work work = work_of(lrn, source, {}, to);
  const char* const name = "normalise responses";
  if (!launch_tiles(stream, work, name, [&](unsigned blocks, int places, std::size_t units) {
        normalise_responses_kernel<<<blocks, kWindowThreads, units * sizeof(float),
                                     stream.stream>>>(work, places);
      }))
    for_cells(stream, name, to.dx.rows, to.dx.cols, NormaliseOne{work});
}

void normalise_responses_backward(const Stream& stream, const LocalResponseNormalization& lrn,
                                  const PoolingSource& source, const DenseOperand& delta,
                                  const GivenDelta& to) {
  if (normalise_packs_backward(stream, lrn, source, delta, to)) return;
  const Work work = work_of(lrn, source, delta, to);
  const char* const name = "normalise responses backward";
  if (!launch_tiles(stream, work, name, [&](unsigned blocks, int places, std::size_t units) {
        normalise_responses_backward_kernel<<<blocks, kWindowThreads, 3 * units * sizeof(float),
                                              stream.stream>>>(work, places);
      }))
    for_cells(stream, name, to.dx.rows, to.dx.cols, NormaliseOneBackward{work});
}

}  // namespace norn::cuda
