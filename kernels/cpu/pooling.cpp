// SPDX-License-Identifier: Apache-2.0
// Poolings: windows in strips of channels, and rows whose units go together one by one.

#include "kernels/pooling.h"

#include "kernels/cpu/arranger.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/strips.h"
#include "kernels/cpu/window_reader.h"
#include "kernels/math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace norn {
namespace {

using Row = std::vector<float>;
using Strip = std::array<float, strips::kWidth>;

float or_added(float value, const float& to, Existing existing) {
  return existing == Existing::add ? to + value : value;
}

/// Whether `value`, which comes later, takes the place of the largest so far.
bool displaces(float value, float largest) {
  return !(value <= largest) && largest == largest;
}

void pool(const MaxPooling& /*pooling*/, const WindowReader& reader, Index window,
          const Channels& of, Strip& to) {
  const float* from = of.example + of.first * reader.channel_stride();
  Strip copy;
  bool is_first = true;
  reader.for_each_unit(window, [&](Index unit) {
    const float* x = reader.channels(from + unit, of.count, copy.data());
    if (is_first) std::copy_n(x, of.count, to.data());
    is_first = false;
    float* largest = to.data();
    for (Index c = 0; c < of.count; ++c)
      largest[c] = displaces(x[c], largest[c]) ? x[c] : largest[c];
  });
}

void pool(const AveragePooling& /*pooling*/, const WindowReader& reader, Index window,
          const Channels& of, Strip& to) {
  const float* from = of.example + of.first * reader.channel_stride();
  Strip copy;
  std::array<double, strips::kWidth> sums{};
  reader.for_each_unit(window, [&](Index unit) {
    const float* x = reader.channels(from + unit, of.count, copy.data());
    double* sum = sums.data();
    for (Index c = 0; c < of.count; ++c) sum[c] += double(x[c]);
  });
  const auto units = double(reader.units_of(window));
  for (Index c = 0; c < of.count; ++c) to[std::size_t(c)] = float(sums[std::size_t(c)] / units);
}

/// dx += what one window gives.   delta [count],  dx: the whole example
void spread(const MaxPooling& /*pooling*/, const WindowReader& reader, Index window,
            const Channels& of, const float* delta, float* dx) {
  const Index stride = reader.channel_stride();
  const float* from = of.example + of.first * stride;
  Strip copy, largest;
  std::array<Index, strips::kWidth> winner;
  bool is_first = true;
  reader.for_each_unit(window, [&](Index unit) {
    const float* x = reader.channels(from + unit, of.count, copy.data());
    for (Index c = 0; c < of.count; ++c) {
      const auto at = std::size_t(c);
      const bool wins = is_first || displaces(x[c], largest[at]);
      largest[at] = wins ? x[c] : largest[at];
      winner[at] = wins ? unit : winner[at];
    }
    is_first = false;
  });
  for (Index c = 0; c < of.count; ++c)
    dx[winner[std::size_t(c)] + (of.first + c) * stride] += delta[c];
}

void spread(const AveragePooling& /*pooling*/, const WindowReader& reader, Index window,
            const Channels& of, const float* delta, float* dx) {
  const Index stride = reader.channel_stride();
  const auto units = float(reader.units_of(window));
  Strip share;
  for (Index c = 0; c < of.count; ++c) share[std::size_t(c)] = delta[c] / units;
  reader.for_each_unit(window, [&](Index unit) {
    float* to = dx + unit + of.first * stride;
    const float* from = share.data();
    if (stride == 1)
      for (Index c = 0; c < of.count; ++c) to[c] += from[c];
    else
      for (Index c = 0; c < of.count; ++c) to[c * stride] += from[c];
  });
}

/// Local response normalisation of the channels of one place.
class Response {
 public:
  Response(const LocalResponseNormalization& lrn, Index channels)
      : channels_(channels),
        in_front_((lrn.n - 1) / 2),
        behind_(lrn.n - 1 - in_front_),
        lrn_(lrn),
        of_square_(float(double(lrn.alpha) / lrn.n)),
        x_(std::size_t(channels)),
        squares_(x_),
        sums_(x_),
        factors_(x_) {}

  /// Takes a place's channels.
  void read(const float* from, Index stride) {
    for (Index c = 0; c < channels_; ++c) x_[std::size_t(c)] = from[c * stride];
    for (std::size_t c = 0; c < x_.size(); ++c) squares_[c] = x_[c] * x_[c];
    add_neighbours(squares_, in_front_, behind_);
    const float beta = lrn_.beta, k = lrn_.k;
    for (std::size_t c = 0; c < x_.size(); ++c) {
      sums_[c] = math::max(std::numeric_limits<float>::min(), k + of_square_ * sums_[c]);
      factors_[c] = math::exp(-beta * math::log(sums_[c]));
    }
  }

  void write(float* y, Existing existing) const {
    for (std::size_t c = 0; c < x_.size(); ++c)
      y[c] = or_added(x_[c] * factors_[c], y[c], existing);
  }

  void write_delta(const float* delta, float* dx, Index stride, Existing existing) {
    Row& shares = squares_;  // of a channel in the delta of each channel that it is summed with
    for (std::size_t c = 0; c < x_.size(); ++c)
      shares[c] = delta[c] * x_[c] * factors_[c] / sums_[c];
    add_neighbours(shares, behind_, in_front_);
    const float by = 2.0f * lrn_.beta * of_square_;
    for (Index c = 0; c < channels_; ++c) {
      const auto at = std::size_t(c);
      float& to = dx[c * stride];
      to = or_added(delta[c] * factors_[at] - by * x_[at] * sums_[at], to, existing);
    }
  }

 private:
  /// sums(c) = the values of channels c - in_front to c + behind, in order.
  void add_neighbours(const Row& values, Index in_front, Index behind) {
    std::ranges::fill(sums_, 0.0f);
    const Index most = channels_ - 1;
    for (Index by = -std::min(in_front, most); by <= std::min(behind, most); ++by) {
      const Index begin = std::max<Index>(0, -by), end = std::min(channels_, channels_ - by);
      const float* from = values.data() + by;
      float* to = sums_.data();
      for (Index c = begin; c < end; ++c) to[c] += from[c];
    }
  }

  Index channels_;
  Index in_front_;
  Index behind_;
  LocalResponseNormalization lrn_;
  float of_square_;
  Row x_, squares_, sums_, factors_;
};

class CpuPooling final : public PoolingKernels {
 public:
  explicit CpuPooling(Executor& executor) : executor_(executor) {}

 private:
  using Sources = std::span<const PoolingSource>;

  void do_forward(const Pooling& pooling, Sources sources, const DenseResult& y) override {
    std::visit([&](const auto& kind) { forward_of(kind, sources, y.values); }, pooling);
  }
  void do_backward(const Pooling& pooling, Sources sources, std::size_t source,
                   const DenseOperand& delta, const DenseResult& dx, Existing existing) override {
    const auto of = [&](const auto& kind) {
      backward_of(kind, sources, source, delta.values, dx.values, existing);
    };
    std::visit(of, pooling);
  }

  template <typename Kind>
  void forward_of(const Kind& kind, Sources sources, MatrixView<float> y) {
    const Index channels = sources[0].window.channels, windows = y.cols / channels;
    const Index cost = sources[0].window.taps() * channels;
    executor_.for_ranges(y.rows * windows, strips::rows_per_task(cost),
                         [&](Index begin, Index end, int) {
                           for (const PoolingSource& source : sources) {
                             const Existing existing =
                                 &source == sources.data() ? Existing::overwrite : Existing::add;
                             for (Index r = begin; r < end; ++r)
                               forward_window(kind, source, r / windows, r % windows, existing, y);
                           }
                         });
  }

  template <typename Kind>
  static void forward_window(const Kind& kind, const PoolingSource& source, Index example,
                             Index window, Existing existing, MatrixView<float> y) {
    const WindowReader reader(source.window);
    const Index channels = source.window.channels;
    strips::for_each_strip(channels, [&](Index first, Index count) {
      Strip pooled;
      pool(kind, reader, window, {source.x.values.row(example), first, count}, pooled);
      float* to = y.row(example) + window * channels + first;
      for (Index c = 0; c < count; ++c) to[c] = or_added(pooled[std::size_t(c)], to[c], existing);
    });
  }

  /// One lane takes all windows of a strip of channels, in order: where they overlap, sums have one
  /// order without atomics.
  template <typename Kind>
  void backward_of(const Kind& kind, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, Existing existing) {
    const PoolingSource& source = sources[number];
    const WindowReader reader(source.window);
    const Index channels = source.window.channels, windows = source.window.out_places();
    const Index places = source.window.places();
    const Index strips_of_row = (channels + strips::kWidth - 1) / strips::kWidth;
    const Index cost = windows * source.window.taps() * std::min(channels, strips::kWidth);
    executor_.for_ranges(
        dx.rows * strips_of_row, strips::rows_per_task(cost), [&](Index begin, Index end, int) {
          for (Index task = begin; task < end; ++task) {
            const Index e = task / strips_of_row, first = task % strips_of_row * strips::kWidth;
            const Channels of{source.x.values.row(e), first,
                              std::min(strips::kWidth, channels - first)};
            if (existing == Existing::overwrite) clear(reader, places, of, dx.row(e));
            for (Index w = 0; w < windows; ++w)
              spread(kind, reader, w, of, delta.row(e) + w * channels + first, dx.row(e));
          }
        });
  }

  static void clear(const WindowReader& reader, Index places, const Channels& of, float* dx) {
    for (Index p = 0; p < places; ++p)
      for (Index c = of.first; c < of.first + of.count; ++c)
        dx[p * reader.place_stride() + c * reader.channel_stride()] = 0.0f;
  }

  void forward_of(const LocalResponseNormalization& lrn, Sources sources, MatrixView<float> y) {
    for_each_place(sources[0].window, y.rows, [&](Index begin, Index end) {
      Response response(lrn, sources[0].window.channels);
      for (const PoolingSource& source : sources)
        for (Index r = begin; r < end; ++r) {
          const Index e = r / source.window.places(), p = r % source.window.places();
          read_place(source, e, p, response);
          response.write(y.row(e) + p * source.window.channels,
                         &source == sources.data() ? Existing::overwrite : Existing::add);
        }
    });
  }

  void backward_of(const LocalResponseNormalization& lrn, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, Existing existing) {
    const PoolingSource& source = sources[number];
    const WindowReader reader(source.window);
    for_each_place(source.window, dx.rows, [&](Index begin, Index end) {
      Response response(lrn, source.window.channels);
      for (Index r = begin; r < end; ++r) {
        const Index e = r / source.window.places(), p = r % source.window.places();
        read_place(source, e, p, response);
        response.write_delta(delta.row(e) + p * source.window.channels,
                             dx.row(e) + p * reader.place_stride(), reader.channel_stride(),
                             existing);
      }
    });
  }

  template <typename Body>
  void for_each_place(const Window& window, Index examples, const Body& body) {
    executor_.for_ranges(examples * window.places(), strips::rows_per_task(window.channels),
                         [&](Index begin, Index end, int) { body(begin, end); });
  }

  static void read_place(const PoolingSource& source, Index example, Index place,
                         Response& response) {
    const WindowReader reader(source.window);
    response.read(source.x.values.row(example) + place * reader.place_stride(),
                  reader.channel_stride());
  }

  void forward_of(const Maxout& /*pooling*/, Sources sources, MatrixView<float> y) {
    const Arrangement result = Arrangement::of(sources[0].window, UnitOrder::channels_last);
    for_rows(y, [&](Index begin, Index end) {
      for (const PoolingSource& source : sources) {
        Arranger arrange(Arrangement::of(source.window), result);
        for (Index e = begin; e < end; ++e) {
          const float* x = arrange(source.x.values.row(e));
          float* to = y.row(e);
          if (&source == sources.data()) std::copy_n(x, y.cols, to);
          for (Index i = 0; i < y.cols; ++i) to[i] = displaces(x[i], to[i]) ? x[i] : to[i];
        }
      }
    });
  }

  /// A source has a unit's delta if it displaces all in front and none behind displaces it.
  void backward_of(const Maxout& /*pooling*/, Sources sources, std::size_t number,
                   MatrixView<const float> delta, MatrixView<float> dx, Existing existing) {
    const Arrangement own = Arrangement::of(sources[number].window);
    for_rows(dx, [&](Index begin, Index end) {
      Arranger arrange(Arrangement::of(sources[0].window, UnitOrder::channels_last), own);
      std::vector<Arranger> others;
      for (const PoolingSource& source : sources)
        others.emplace_back(Arrangement::of(source.window), own);
      Row given(std::size_t(dx.cols));
      for (Index e = begin; e < end; ++e) {
        std::copy_n(arrange(delta.row(e)), dx.cols, given.data());
        const float* x = sources[number].x.values.row(e);
        for (std::size_t s = 0; s < sources.size(); ++s) {
          if (s == number) continue;
          const float* other = others[s](sources[s].x.values.row(e));
          for (Index i = 0; i < dx.cols; ++i) {
            const bool wins = s < number ? displaces(x[i], other[i]) : !displaces(other[i], x[i]);
            given[std::size_t(i)] = wins ? given[std::size_t(i)] : 0.0f;
          }
        }
        for (Index i = 0; i < dx.cols; ++i)
          dx(e, i) = or_added(given[std::size_t(i)], dx(e, i), existing);
      }
    });
  }

  template <typename T, typename Body>
  void for_rows(MatrixView<T> rows, const Body& body) {
    executor_.for_ranges(rows.rows, strips::rows_per_task(rows.cols),
                         [&](Index begin, Index end, int) { body(begin, end); });
  }

  void do_add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                        const PairSums<FixedSum>& sums) override {
    const Index units = first.x.values.cols;
    for_rows(first.x.values, [&](Index begin, Index end) {
      Arranger arrange(Arrangement::of(second.window), Arrangement::of(first.window));
      for (Index e = begin; e < end; ++e) {
        const float* a = first.x.values.row(e);
        const float* b = arrange(second.x.values.row(e));
        sums.products[e].add(dot(a, b, units));
        if (sums.first_squares.empty()) continue;
        sums.first_squares[e].add(dot(a, a, units));
        sums.second_squares[e].add(dot(b, b, units));
      }
    });
  }

  static double dot(const float* a, const float* b, Index units) {
    double total = 0;
    strips::for_each_strip(units, [&](Index first, Index count) {
      total += strips::sum_strip(
          count, [&](Index i) { return double(a[first + i]) * double(b[first + i]); });
    });
    return total;
  }

  void do_compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                  MatrixView<float> y) override {
    for (Index e = 0; e < y.rows; ++e) {
      const double product = sums.products[e].value();
      y(e, 0) = float(similarity == Similarity::dot_product ? product : Norms(sums, e).of(product));
    }
  }

  /// |a|, and what a cosine divides by.
  struct Norms {
    Norms(const PairSums<const FixedSum>& sums, Index example)
        : first(std::sqrt(sums.first_squares[example].value())),
          second(std::sqrt(sums.second_squares[example].value())) {}
    double of(double product) const {
      return product / ((first + norm_epsilon) * (second + norm_epsilon));
    }
    double first;
    double second;
  };

  /// d y / d a = along_b * b + along_a * a.
  struct Slopes {
    double along_a = 0.0;
    double along_b = 1.0;
  };
  static Slopes slopes(Similarity similarity, const PairSums<const FixedSum>& sums, Index example) {
    if (similarity == Similarity::dot_product) return {};
    const Norms norms(sums, example);
    const double cosine = norms.of(sums.products[example].value());
    return {norms.first == 0.0 ? 0.0 : -cosine / (norms.first * (norms.first + norm_epsilon)),
            norms.of(1.0)};
  }

  void do_compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                           MatrixView<const float> delta, const PoolingSource& first,
                           const PoolingSource& second, MatrixView<float> dx,
                           Existing existing) override {
    for_rows(dx, [&](Index begin, Index end) {
      Arranger arrange(Arrangement::of(second.window), Arrangement::of(first.window));
      for (Index e = begin; e < end; ++e) {
        const Slopes slope = slopes(similarity, sums, e);
        const double of_a = double(delta(e, 0)) * slope.along_a;
        const double of_b = double(delta(e, 0)) * slope.along_b;
        const float* a = first.x.values.row(e);
        const float* b = arrange(second.x.values.row(e));
        float* to = dx.row(e);
        for (Index i = 0; i < dx.cols; ++i)
          to[i] = or_added(float(of_b * double(b[i]) + of_a * double(a[i])), to[i], existing);
      }
    });
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<PoolingKernels> make_cpu_pooling(Executor& executor) {
  return std::make_unique<CpuPooling>(executor);
}

}  // namespace norn
