// SPDX-License-Identifier: Apache-2.0
// Poolings: a thread has a unit. What a unit gets from windows that overlap it takes itself, in
// the order of windows, so that nothing is added by several threads.
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/pair_sums.h"
#include "kernels/cuda/windows/unit_order.cuh"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/math.h"
#include "kernels/pooling.h"

#include <limits>

namespace norn::cuda {
namespace {

using Sources = std::span<const PoolingSource>;

/// Whether `value`, which comes later, takes the place of the largest so far.
__device__ bool displaces(float value, float largest) {
  return !(value <= largest) && largest == largest;
}

/// What a window gives, and a unit's share of its delta.
struct Largest {
  /// The largest unit of a channel, and where it is.
  struct Found {
    float value;
    int unit;
  };
  static __device__ Found find(const WindowMap& map, const float* x, int wx, int wy, int wz) {
    Found found{0.0f, -1};
    for_units_of(map, wx, wy, wz, [&](int unit) {
      if (found.unit < 0 || displaces(x[unit], found.value)) found = {x[unit], unit};
    });
    return found;
  }
  static __device__ float of(const WindowMap& map, const float* x, int wx, int wy, int wz) {
    return find(map, x, wx, wy, wz).value;
  }
  /// Whether the unit has a share at all; a unit without one is not added to.
  static __device__ bool share(const WindowMap& map, const float* x, int wx, int wy, int wz,
                               int unit, float delta, float& share) {
    share = delta;
    return find(map, x, wx, wy, wz).unit == unit;
  }
};

struct Mean {
  static __device__ int units_of(const WindowMap& map, int wx, int wy, int wz) {
    const Span xs = map.places_of(0, wx), ys = map.places_of(1, wy), zs = map.places_of(2, wz);
    return (xs.end - xs.begin) * (ys.end - ys.begin) * (zs.end - zs.begin);
  }
  static __device__ float of(const WindowMap& map, const float* x, int wx, int wy, int wz) {
    double sum = 0.0;
    for_units_of(map, wx, wy, wz, [&](int unit) { sum += double(x[unit]); });
    return float(sum / double(units_of(map, wx, wy, wz)));
  }
  static __device__ bool share(const WindowMap& map, const float* /*x*/, int wx, int wy, int wz,
                               int /*unit*/, float delta, float& share) {
    share = delta / float(units_of(map, wx, wy, wz));
    return true;
  }
};

template <typename Kind>
struct PoolWindows {
  WindowMap map;
  MatrixView<const float> x;
  MatrixView<float> y;
  bool adds;
  __device__ void operator()(Index e, int c) const {
    const ResultPlace unit(map, c);
    const float value = Kind::of(map, x.row(e) + unit.channel * map.channel_stride, unit.at[0],
                                 unit.at[1], unit.at[2]);
    y(e, c) = adds ? y(e, c) + value : value;
  }
};

template <typename Kind>
struct SpreadWindows {
  WindowMap map;
  MatrixView<const float> x;
  MatrixView<const float> delta;
  MatrixView<float> dx;
  bool adds;
  __device__ void operator()(Index e, int c) const {
    const UnitPlace unit(map, c);
    const int from = unit.channel * map.channel_stride;
    float sum = adds ? dx(e, c) : 0.0f;
    for_windows_of(map, unit, [&](int window, int wx, int wy, int wz) {
      float share;
      if (Kind::share(map, x.row(e) + from, wx, wy, wz, c - from,
                      delta(e, Index(window) * map.channels + unit.channel), share))
        sum += share;
    });
    dx(e, c) = sum;
  }
};

/// Local response normalisation of one channel of a place.
struct Response {
  int channels;
  int channel_stride;
  int in_front;
  int behind;
  float k, alpha, beta;

  Response(const LocalResponseNormalization& lrn, const WindowMap& map)
      : channels(map.channels),
        channel_stride(map.channel_stride),
        in_front((lrn.n - 1) / 2),
        behind(lrn.n - 1 - in_front),
        k(lrn.k),
        alpha(float(double(lrn.alpha) / lrn.n)),
        beta(lrn.beta) {}

  /// value(i) of channels c - in_front to c + behind, in order.
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
  __device__ Factor factor(const float* x, int c) const {
    const float squares = sum(c, in_front, behind, [&](int i) {
      const float value = x[i * channel_stride];
      return value * value;
    });
    const float bounded = math::max(std::numeric_limits<float>::min(), k + alpha * squares);
    return {bounded, math::exp(-beta * math::log(bounded))};
  }
};

struct NormaliseResponse {
  WindowMap map;
  Response response;
  MatrixView<const float> x;
  MatrixView<float> y;
  bool adds;
  __device__ void operator()(Index e, int c) const {
    int channel = c;
    const int place = map.by_channels.divide(channel);
    const float* of_place = x.row(e) + place * map.place_stride;
    const float value =
        of_place[channel * map.channel_stride] * response.factor(of_place, channel).power;
    y(e, c) = adds ? y(e, c) + value : value;
  }
};

struct NormaliseResponseBackward {
  WindowMap map;
  Response response;
  MatrixView<const float> x;
  MatrixView<const float> delta;
  MatrixView<float> dx;
  bool adds;
  /// By channels last, so that neighbouring threads share what they read.
  __device__ void operator()(Index e, int c) const {
    int channel = c;
    const int place = map.by_channels.divide(channel);
    const float* of_place = x.row(e) + place * map.place_stride;
    const float* given = delta.row(e) + place * map.channels;
    // A channel's delta has a share in that of each channel that it is summed with.
    const float shares = response.sum(channel, response.behind, response.in_front, [&](int i) {
      const Response::Factor factor = response.factor(of_place, i);
      return given[i] * of_place[i * map.channel_stride] * factor.power / factor.sum;
    });
    const float by = 2.0f * response.beta * response.alpha;
    const float value = given[channel] * response.factor(of_place, channel).power -
                        by * of_place[channel * map.channel_stride] * shares;
    float& to = dx(e, Index(place) * map.place_stride + channel * map.channel_stride);
    to = adds ? to + value : value;
  }
};

/// y = x of the first source; of all others what displaces it.
struct TakeLargest {
  UnitOrderMap from;
  UnitOrderMap result;
  MatrixView<const float> x;
  MatrixView<float> y;
  bool is_first;
  __device__ void operator()(Index e, int c) const {
    const float value = x(e, from.at(result.unit(c)));
    if (is_first || displaces(value, y(e, c))) y(e, c) = value;
  }
};

/// given = delta in the arrangement of a source.
struct ArrangeDelta {
  UnitOrderMap from;
  UnitOrderMap own;
  MatrixView<const float> delta;
  MatrixView<float> given;
  __device__ void operator()(Index e, int c) const { given(e, c) = delta(e, from.at(own.unit(c))); }
};

/// A source has a unit's delta if it displaces all in front and none behind displaces it.
struct KeepWinners {
  UnitOrderMap own;
  UnitOrderMap other;
  MatrixView<const float> x;
  MatrixView<const float> other_x;
  bool is_behind;  ///< the source, of the other one
  MatrixView<float> given;
  __device__ void operator()(Index e, int c) const {
    const float mine = x(e, c), theirs = other_x(e, other.at(own.unit(c)));
    const bool wins = is_behind ? displaces(mine, theirs) : !displaces(theirs, mine);
    if (!wins) given(e, c) = 0.0f;
  }
};

struct GiveDelta {
  MatrixView<const float> given;
  MatrixView<float> dx;
  bool adds;
  __device__ void operator()(Index e, int c) const {
    dx(e, c) = adds ? dx(e, c) + given(e, c) : given(e, c);
  }
};

class CudaPooling final : public PoolingKernels {
 public:
  explicit CudaPooling(const Stream& stream) : stream_(stream), given_(stream.memory) {}

 private:
  void do_forward(const Pooling& pooling, Sources sources, MatrixView<float> y) override {
    for (const PoolingSource& source : sources)
      std::visit([&](const auto& kind) { forward_of(kind, sources, source, y); }, pooling);
  }
  void do_backward(const Pooling& pooling, Sources sources, std::size_t source,
                   MatrixView<const float> delta, MatrixView<float> dx,
                   Existing existing) override {
    const bool adds = existing == Existing::add;
    std::visit([&](const auto& kind) { backward_of(kind, sources, source, delta, dx, adds); },
               pooling);
  }

  template <typename Kind>
  void pool(Sources sources, const PoolingSource& source, MatrixView<float> y) {
    for_cells(stream_, "pool windows", y.rows, y.cols,
              PoolWindows<Kind>{WindowMap(source.window), source.x, y, &source != sources.data()});
  }
  void forward_of(const MaxPooling&, Sources sources, const PoolingSource& source,
                  MatrixView<float> y) {
    pool<Largest>(sources, source, y);
  }
  void forward_of(const AveragePooling&, Sources sources, const PoolingSource& source,
                  MatrixView<float> y) {
    pool<Mean>(sources, source, y);
  }
  void forward_of(const LocalResponseNormalization& lrn, Sources sources,
                  const PoolingSource& source, MatrixView<float> y) {
    const WindowMap map(source.window);
    for_cells(stream_, "normalise responses", y.rows, y.cols,
              NormaliseResponse{map, Response(lrn, map), source.x, y, &source != sources.data()});
  }
  void forward_of(const Maxout&, Sources sources, const PoolingSource& source,
                  MatrixView<float> y) {
    for_cells(stream_, "take the largest", y.rows, y.cols,
              TakeLargest{UnitOrderMap(source.window),
                          UnitOrderMap(sources[0].window, UnitOrder::channels_last), source.x, y,
                          &source == sources.data()});
  }

  template <typename Kind>
  void spread(const PoolingSource& source, MatrixView<const float> delta, MatrixView<float> dx,
              bool adds) {
    for_cells(stream_, "spread over windows", dx.rows, dx.cols,
              SpreadWindows<Kind>{WindowMap(source.window), source.x, delta, dx, adds});
  }
  void backward_of(const MaxPooling&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, bool adds) {
    spread<Largest>(sources[number], delta, dx, adds);
  }
  void backward_of(const AveragePooling&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, bool adds) {
    spread<Mean>(sources[number], delta, dx, adds);
  }
  void backward_of(const LocalResponseNormalization& lrn, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, bool adds) {
    const WindowMap map(sources[number].window);
    for_cells(
        stream_, "normalise responses backward", dx.rows, dx.cols,
        NormaliseResponseBackward{map, Response(lrn, map), sources[number].x, delta, dx, adds});
  }
  void backward_of(const Maxout&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, bool adds) {
    const UnitOrderMap own(sources[number].window);
    const MatrixView<float> given{given_.reserve(dx.rows * dx.cols), dx.rows, dx.cols, dx.cols};
    for_cells(
        stream_, "arrange delta", dx.rows, dx.cols,
        ArrangeDelta{UnitOrderMap(sources[0].window, UnitOrder::channels_last), own, delta, given});
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (s != number)
        for_cells(stream_, "keep winners", dx.rows, dx.cols,
                  KeepWinners{own, UnitOrderMap(sources[s].window), sources[number].x, sources[s].x,
                              s < number, given});
    for_cells(stream_, "give delta", dx.rows, dx.cols, GiveDelta{given, dx, adds});
  }

  void do_add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                        const PairSums<FixedSum>& sums) override {
    cuda::add_pair_sums(stream_, first, second, sums);
  }
  void do_compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                  MatrixView<float> y) override {
    cuda::compare(stream_, similarity, sums, y);
  }
  void do_compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                           MatrixView<const float> delta, const PoolingSource& first,
                           const PoolingSource& second, MatrixView<float> dx,
                           Existing existing) override {
    cuda::compare_backward(stream_, similarity, sums, delta, first, second, dx,
                           existing == Existing::add);
  }

  Stream stream_;
  Workspace<float> given_;  // of Maxout
};

}  // namespace

std::unique_ptr<PoolingKernels> make_pooling(const Stream& stream) {
  return std::make_unique<CudaPooling>(stream);
}

}  // namespace norn::cuda
