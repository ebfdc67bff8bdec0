// SPDX-License-Identifier: Apache-2.0
// A block has all channels of some places in shared memory, where each finds its neighbours; what
// several channels need of one is found once. Of more channels than that holds, each finds itself
// what it needs of the others.
#include "kernels/cuda/windows/responses.h"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/math.h"

#include <algorithm>
#include <limits>

namespace norn::cuda {
namespace {

constexpr int kTileUnits = 2048;  // about as many, of whole places
constexpr int kMostUnits = 4096;  // three floats each are the 48 KB that any block has

/// Local response normalisation of one channel of a place.
struct Response {
  int channels;
  int in_front;
  int behind;
  float k, alpha, beta;

  Response(const LocalResponseNormalization& lrn, Index channels)
      : channels(int(channels)),
        in_front((lrn.n - 1) / 2),
        behind(lrn.n - 1 - in_front),
        k(lrn.k),
        alpha(float(double(lrn.alpha) / lrn.n)),
        beta(lrn.beta) {}

  /// value(i) of channels c - before to c + after, in order.
  template <typename Value>
  __device__ float sum(int c, int before, int after, const Value& value) const {
    float all = 0.0f;
    for (int i = max(0, c - before); i <= min(channels - 1, c + after); ++i) all += value(i);
    return all;
  }
  struct Factor {
    float sum;
    float power;
  };
  /// x(i) is the place's channel i.
  template <typename X>
  __device__ Factor factor(int c, const X& x) const {
    const float squares = sum(c, in_front, behind, [&](int i) { return x(i) * x(i); });
    const float bounded = math::max(std::numeric_limits<float>::min(), k + alpha * squares);
    return {bounded, math::exp(-beta * math::log(bounded))};
  }
  /// The share of a channel in the deltas of those that it is summed with: delta x factor / sum.
  static __device__ float share(float delta, float x, const Factor& factor) {
    return delta * x * factor.power / factor.sum;
  }
  /// The delta of a channel from its own one, scaled by its factor, and these shares.
  template <typename Share>
  __device__ float delta(int c, float scaled, float x, const Share& share) const {
    return scaled - 2.0f * beta * alpha * x * sum(c, behind, in_front, share);
  }
};

struct Work {
  WindowMap map;
  Response response;
  MatrixView<const float> x;
  MatrixView<const float> delta;  ///< backward
  GivenDelta to;                  ///< forward the responses

  __device__ void write(Index example, int at, float value) const {
    to.write(example, at, to.adds ? to.dx(example, at) + value : value);
  }
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
  for (Index tile = blockIdx.x; tile < work.x.rows * tiles; tile += gridDim.x) {
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
              [&](int at, int, int from, int) { units[at] = work.x.row(example)[from]; });
    __syncthreads();
    for_units(work, first, count, [&](int at, int channel, int, int to) {
      const float* const x = units + at - channel;
      const Response::Factor factor = work.response.factor(channel, [&](int i) { return x[i]; });
      work.write(example, to, units[at] * factor.power);
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
      units[at] = work.x.row(example)[from];
      scaled[at] = work.delta.row(example)[to];
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
      work.write(example, from, work.response.delta(channel, scaled[at], units[at], [&](int i) {
        return of_place[i];
      }));
    });
  });
}

/// The channels of a place, as they stand.
struct Channels {
  const float* of_place;
  int stride;
  __device__ float operator()(int i) const { return of_place[i * stride]; }
};

struct NormaliseOne {
  Work work;
  __device__ void operator()(Index e, int c) const {
    const WindowMap& map = work.map;
    int channel = c;
    const int place = map.by_channels.divide(channel);
    const Channels x{work.x.row(e) + place * map.place_stride, map.channel_stride};
    work.write(e, c, x(channel) * work.response.factor(channel, x).power);
  }
};

struct NormaliseOneBackward {
  Work work;
  __device__ void operator()(Index e, int c) const {
    const WindowMap& map = work.map;
    int channel = c;
    const int place = map.by_channels.divide(channel), at = place * map.place_stride;
    const Channels x{work.x.row(e) + at, map.channel_stride};
    const float* const given = work.delta.row(e) + Index(place) * map.channels;
    const float own = given[channel] * work.response.factor(channel, x).power;
    const float value = work.response.delta(channel, own, x(channel), [&](int i) {
      return Response::share(given[i], x(i), work.response.factor(i, x));
    });
    work.write(e, at + channel * map.channel_stride, value);
  }
};

Work work_of(const LocalResponseNormalization& lrn, const PoolingSource& source,
             MatrixView<const float> delta, const GivenDelta& to) {
  const WindowMap map(source.window);
  return {map, Response(lrn, map.channels), source.x, delta, to};
}

/// Calls launch(blocks, places of a tile, its units) if a tile holds a place.
template <typename Launch>
bool launch_tiles(const Stream& stream, const Work& work, const char* name, const Launch& launch) {
  if (work.map.channels > kMostUnits) return false;
  const Index places = std::max(1, kTileUnits / work.map.channels);
  const Index all = work.x.cols / work.map.channels;
  const Index tiles = work.x.rows * ((all + places - 1) / places);
  if (tiles > 0)
    launch(blocks_for(tiles, 1, Index(64) * stream.multiprocessors), int(places),
           std::size_t(places * work.map.channels));
  check_launch(name);
  return true;
}

}  // namespace

void normalise_responses(const Stream& stream, const LocalResponseNormalization& lrn,
                         const PoolingSource& source, MatrixView<float> y, bool adds) {
  const Work work = work_of(lrn, source, {}, {.dx = y, .adds = adds});
  const char* const name = "normalise responses";
  if (!launch_tiles(stream, work, name, [&](unsigned blocks, int places, std::size_t units) {
        normalise_responses_kernel<<<blocks, kWindowThreads, units * sizeof(float),
                                     stream.stream>>>(work, places);
      }))
    for_cells(stream, name, y.rows, y.cols, NormaliseOne{work});
}

void normalise_responses_backward(const Stream& stream, const LocalResponseNormalization& lrn,
                                  const PoolingSource& source, MatrixView<const float> delta,
                                  const GivenDelta& to) {
  const Work work = work_of(lrn, source, delta, to);
  const char* const name = "normalise responses backward";
  if (!launch_tiles(stream, work, name, [&](unsigned blocks, int places, std::size_t units) {
        normalise_responses_backward_kernel<<<blocks, kWindowThreads, 3 * units * sizeof(float),
                                              stream.stream>>>(work, places);
      }))
    for_cells(stream, name, to.dx.rows, to.dx.cols, NormaliseOneBackward{work});
}

}  // namespace norn::cuda
