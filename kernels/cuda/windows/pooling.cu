// SPDX-License-Identifier: Apache-2.0
// Poolings: a thread has a unit, or a window. What a unit gets from windows that overlap it takes
// itself, in the order of windows, so that nothing is added by several threads. What several units
// need is found once and kept in between, for so many examples at a time that it stays in the
// cache.
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/cuda/windows/pair_sums.h"
#include "kernels/cuda/windows/responses.h"
#include "kernels/cuda/windows/unit_order.cuh"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/pooling.h"

#include <algorithm>
#include <cstdint>

namespace norn::cuda {
namespace {

using Sources = std::span<const PoolingSource>;

constexpr Index kKept = Index(16) << 20;  // bytes that are kept in between

/// Whether `value`, which comes later, takes the place of the largest so far.
__device__ bool displaces(float value, float largest) {
  return !(value <= largest) && largest == largest;
}

/// What a window gives.
struct Largest {
  /// The largest unit of a channel: its value, where it is, and which of the kernel's it is.
  struct Found {
    float value;
    int unit;
    int tap;
  };
  static __device__ Found find(const WindowMap& map, const float* x, int wx, int wy, int wz) {
    const Span xs = map.places_of(0, wx), ys = map.places_of(1, wy), zs = map.places_of(2, wz);
    const int first[3] = {map.first(0, wx), map.first(1, wy), map.first(2, wz)};
    Found found{0.0f, -1, -1};
    for (int pz = zs.begin; pz < zs.end; ++pz)
      for (int py = ys.begin; py < ys.end; ++py)
        for (int px = xs.begin; px < xs.end; ++px) {
          const int unit = ((pz * map.in[1] + py) * map.in[0] + px) * map.place_stride;
          if (found.unit < 0 || displaces(x[unit], found.value))
            found = {x[unit], unit, tap_of(map, px - first[0], py - first[1], pz - first[2])};
        }
    return found;
  }
  static __device__ int tap_of(const WindowMap& map, int x, int y, int z) {
    return (z * map.kernel[1] + y) * map.kernel[0] + x;
  }
  static __device__ float of(const WindowMap& map, const float* x, int wx, int wy, int wz) {
    return find(map, x, wx, wy, wz).value;
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

struct SpreadMeans {
  WindowMap map;
  MatrixView<const float> delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const UnitPlace unit(map, c);
    float sum = to.before(e, c);
    for_windows_of(map, unit, [&](int window, int wx, int wy, int wz) {
      sum += delta(e, Index(window) * map.channels + unit.channel) /
             float(Mean::units_of(map, wx, wy, wz));
    });
    to.write(e, c, sum);
  }
};

/// Of windows that share no unit and leave none out: a window writes what its units get.
struct GiveLargest {
  WindowMap map;
  MatrixView<const float> x;
  MatrixView<const float> delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const ResultPlace window(map, c);
    const Index from = window.channel * map.channel_stride;
    const int* at = window.at;
    const int winner = Largest::find(map, x.row(e) + from, at[0], at[1], at[2]).unit;
    for_units_of(map, at[0], at[1], at[2], [&](int unit) {
      const float before = to.before(e, from + unit);
      to.write(e, from + unit, unit == winner ? before + delta(e, c) : before);
    });
  }
};

/// Which of the kernel's units is a window's largest.   winners [E x windows*C]
template <typename Tap>
struct FindLargest {
  WindowMap map;
  MatrixView<const float> x;
  MatrixView<Tap> winners;
  __device__ void operator()(Index e, int c) const {
    const ResultPlace window(map, c);
    const int* at = window.at;
    winners(e, c) =
        Tap(Largest::find(map, x.row(e) + window.channel * map.channel_stride, at[0], at[1], at[2])
                .tap);
  }
};

template <typename Tap>
struct SpreadLargest {
  WindowMap map;
  MatrixView<const Tap> winners;
  MatrixView<const float> delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const UnitPlace unit(map, c);
    float sum = to.before(e, c);
    for_windows_of(map, unit, [&](int window, int wx, int wy, int wz) {
      const Index at = Index(window) * map.channels + unit.channel;
      const int tap = Largest::tap_of(map, unit.at[0] - map.first(0, wx),
                                      unit.at[1] - map.first(1, wy), unit.at[2] - map.first(2, wz));
      if (int(winners(e, at)) == tap) sum += delta(e, at);
    });
    to.write(e, c, sum);
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
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    to.write(e, c, to.adds ? to.dx(e, c) + given(e, c) : given(e, c));
  }
};

/// Whether every unit is in one window.
bool divides(const Window& window) {
  for (std::size_t a = 0; a < 3; ++a)
    if (window.padding[a] != 0 || window.stride[a] != window.kernel[a] ||
        window.out[a] * window.kernel[a] != window.in[a])
      return false;
  return true;
}

class CudaPooling final : public PoolingKernels {
 public:
  explicit CudaPooling(const Stream& stream) : stream_(stream), kept_(stream.memory) {}

 private:
  void do_forward(const Pooling& pooling, Sources sources, MatrixView<float> y) override {
    for (const PoolingSource& source : sources)
      std::visit([&](const auto& kind) { forward_of(kind, sources, source, y); }, pooling);
  }
  void do_backward(const Pooling& pooling, Sources sources, std::size_t source,
                   MatrixView<const float> delta, MatrixView<float> dx,
                   Existing existing) override {
    const GivenDelta to{.dx = dx, .adds = existing == Existing::add};
    std::visit([&](const auto& kind) { backward_of(kind, sources, source, delta, to); }, pooling);
  }
  bool do_backward_through(const Pooling& pooling, Sources sources, std::size_t source,
                           MatrixView<const float> delta, const Activation& f, MatrixView<float> dx,
                           MatrixView<Bfloat16> bf16) override {
    const std::optional<SignedSlopes> slopes = SignedSlopes::of(f);
    if (!slopes) return false;
    const GivenDelta to{
        .dx = dx, .slopes = true, .f = *slopes, .x = sources[source].x, .bf16 = bf16};
    std::visit([&](const auto& kind) { backward_of(kind, sources, source, delta, to); }, pooling);
    return true;
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
    normalise_responses(stream_, lrn, source, y, &source != sources.data());
  }
  void forward_of(const Maxout&, Sources sources, const PoolingSource& source,
                  MatrixView<float> y) {
    for_cells(stream_, "take the largest", y.rows, y.cols,
              TakeLargest{UnitOrderMap(source.window),
                          UnitOrderMap(sources[0].window, UnitOrder::channels_last), source.x, y,
                          &source == sources.data()});
  }

  template <typename T>
  MatrixView<T> kept(Index rows, Index cols) {
    std::byte* data = kept_.reserve(rows * cols * Index(sizeof(T)));
    return {reinterpret_cast<T*>(data), rows, cols, cols};
  }
  /// work(first, rows, what is kept of them) for examples whose `cols` elements T fit.
  template <typename T, typename Work>
  void by_parts(Index rows, Index cols, const Work& work) {
    const Index most = std::max<Index>(1, kKept / std::max<Index>(1, cols * Index(sizeof(T))));
    for (Index first = 0; first < rows; first += most) {
      const Index count = std::min(most, rows - first);
      work(first, count, kept<T>(count, cols));
    }
  }

  template <typename Tap>
  void spread_largest(const PoolingSource& source, MatrixView<const float> delta,
                      const GivenDelta& to) {
    const WindowMap map(source.window);
    by_parts<Tap>(to.dx.rows, delta.cols, [&](Index first, Index rows, MatrixView<Tap> winners) {
      for_cells(stream_, "find the largest of windows", rows, delta.cols,
                FindLargest<Tap>{map, source.x.row_range(first, rows), winners});
      for_cells(stream_, "spread over windows", rows, to.dx.cols,
                SpreadLargest<Tap>{map, winners, delta.row_range(first, rows),
                                   to.row_range(first, rows)});
    });
  }
  void backward_of(const MaxPooling&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, const GivenDelta& to) {
    const PoolingSource& source = sources[number];
    if (divides(source.window))
      for_cells(stream_, "give to the largest", delta.rows, delta.cols,
                GiveLargest{WindowMap(source.window), source.x, delta, to});
    else if (source.window.taps() <= 256)
      spread_largest<std::uint8_t>(source, delta, to);
    else
      spread_largest<int>(source, delta, to);
  }
  void backward_of(const AveragePooling&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, const GivenDelta& to) {
    for_cells(stream_, "spread over windows", to.dx.rows, to.dx.cols,
              SpreadMeans{WindowMap(sources[number].window), delta, to});
  }
  void backward_of(const LocalResponseNormalization& lrn, Sources sources, std::size_t number,
                   MatrixView<const float> delta, const GivenDelta& to) {
    normalise_responses_backward(stream_, lrn, sources[number], delta, to);
  }
  void backward_of(const Maxout&, Sources sources, std::size_t number,
                   MatrixView<const float> delta, const GivenDelta& to) {
    const UnitOrderMap own(sources[number].window);
    const MatrixView<float> dx = to.dx;
    const MatrixView<float> given = kept<float>(dx.rows, dx.cols);
    for_cells(
        stream_, "arrange delta", dx.rows, dx.cols,
        ArrangeDelta{UnitOrderMap(sources[0].window, UnitOrder::channels_last), own, delta, given});
    for (std::size_t s = 0; s < sources.size(); ++s)
      if (s != number)
        for_cells(stream_, "keep winners", dx.rows, dx.cols,
                  KeepWinners{own, UnitOrderMap(sources[s].window), sources[number].x, sources[s].x,
                              s < number, given});
    for_cells(stream_, "give delta", dx.rows, dx.cols, GiveDelta{given, to});
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
  Workspace<std::byte> kept_;
};

}  // namespace

std::unique_ptr<PoolingKernels> make_pooling(const Stream& stream) {
  return std::make_unique<CudaPooling>(stream);
}

}  // namespace norn::cuda
