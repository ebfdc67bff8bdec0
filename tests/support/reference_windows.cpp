// SPDX-License-Identifier: Apache-2.0
// One loop per formula.
#include "tests/support/reference_windows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

namespace norn::reference {
namespace {

using Extent = std::array<Index, 3>;

// Axes that a layer's windows move along.
int axes_of(const LayerDescriptor& layer, const LayerDescriptor& source) {
  if (layer.kernel_dimensions > 0 || layer.type == LayerType::pooling)
    return layer.kernel_dimensions;
  return std::max(1, std::min(3, source.dimensions - 1));
}

Index windows_along(Index width, Index kernel, Index stride) {
  if (width <= kernel) return 1;
  return stride == 1 ? width : (width - kernel) / stride + 1;
}

Index padding_along(Index width, Index kernel, Index stride) {
  if (width < kernel) return (kernel - width + 1) / 2;
  return width > kernel && stride == 1 ? kernel / 2 : 0;
}

struct Geometry {
  Extent in = {1, 1, 1}, out = {1, 1, 1};
  Index channels = 1;
};

Geometry geometry_of(const LayerDescriptor& layer, const LayerDescriptor& source) {
  Geometry g;
  const auto axes = std::size_t(axes_of(layer, source));
  for (std::size_t a = 0; a < axes; ++a) {
    g.in[a] = source.extent[a];
    g.out[a] = windows_along(g.in[a], layer.kernel[a], layer.stride[a]);
  }
  for (std::size_t a = axes; a < 4; ++a) g.channels *= source.extent[a];
  return g;
}

std::size_t unit(const Extent& extent, Index channel, Index x, Index y, Index z) {
  return std::size_t(x + extent[0] * (y + extent[1] * (z + extent[2] * channel)));
}

template <typename Body>
void for_each_place(const Extent& extent, const Body& body) {
  for (Index z = 0; z < extent[2]; ++z)
    for (Index y = 0; y < extent[1]; ++y)
      for (Index x = 0; x < extent[0]; ++x) body(Extent{x, y, z});
}

// Calls body(tap, place) for what a window has of its source, in the order (z, y, x).
template <typename Body>
void for_each_tap(const LayerDescriptor& layer, const Geometry& g, const Extent& at,
                  const Body& body) {
  for_each_place(layer.kernel, [&](const Extent& tap) {
    Extent place;
    for (std::size_t a = 0; a < 3; ++a) {
      place[a] = at[a] * layer.stride[a] -
                 padding_along(g.in[a], layer.kernel[a], layer.stride[a]) + tap[a];
      if (place[a] < 0 || place[a] >= g.in[a]) return;
    }
    body(tap, place);
  });
}

Row pool_window(const LayerDescriptor& layer, const LayerDescriptor& source, const Row& x) {
  const Geometry g = geometry_of(layer, source);
  Row y(std::size_t(layer.units()), 0.0);
  for (Index c = 0; c < g.channels; ++c)
    for_each_place(g.out, [&](const Extent& at) {
      double most = -std::numeric_limits<double>::infinity();
      double sum = 0.0;
      double count = 0.0;
      for_each_tap(layer, g, at, [&](const Extent&, const Extent& p) {
        const double v = x[unit(g.in, c, p[0], p[1], p[2])];
        most = std::max(most, v);
        sum += v;
        count += 1.0;
      });
      y[unit(g.out, c, at[0], at[1], at[2])] =
          layer.function == PoolingFunction::max ? most : sum / count;
    });
  return y;
}

// y = x (k + alpha / n sum of x^2)^-beta over n channels, (n - 1) / 2 of them in front.
Row normalise_response(const LocalResponseNormalization& lrn, const LayerDescriptor& source,
                       const Row& x) {
  const auto channels = source.extent[std::size_t(source.dimensions - 1)];
  const Index places = source.units() / channels;
  Row y(x.size());
  for (Index p = 0; p < places; ++p)
    for (Index c = 0; c < channels; ++c) {
      double sum = 0.0;
      const Index first = c - (lrn.n - 1) / 2;
      for (Index i = std::max<Index>(0, first); i < std::min(channels, first + lrn.n); ++i)
        sum += x[std::size_t(p + places * i)] * x[std::size_t(p + places * i)];
      const auto at = std::size_t(p + places * c);
      y[at] = x[at] * std::pow(double(lrn.k) + double(lrn.alpha) / lrn.n * sum, -double(lrn.beta));
    }
  return y;
}

double dot(const Row& a, const Row& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row compare(const LayerDescriptor& layer, const std::vector<const Row*>& x) {
  Row y;
  for (std::size_t s = 1; s < x.size(); ++s) {
    const double product = dot(*x[0], *x[s]);
    const double norms =
        (std::sqrt(dot(*x[0], *x[0])) + 1e-8) * (std::sqrt(dot(*x[s], *x[s])) + 1e-8);
    y.push_back(layer.function == PoolingFunction::cosine ? product / norms : product);
  }
  return y;
}

double gap(std::vector<double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::infinity();
  std::ranges::sort(values, std::greater<>());
  return values[0] == values[1] ? std::numeric_limits<double>::infinity() : values[0] - values[1];
}

}  // namespace

void infer_size(LayerDescriptor& layer, const std::vector<const LayerDescriptor*>& sources) {
  const LayerDescriptor& source = *sources.at(0);
  const Geometry g = geometry_of(layer, source);
  const auto axes = std::size_t(axes_of(layer, source));
  if (layer.type == LayerType::convolutional) {
    const Index channels =
        layer.extent[layer.dimensions == 1 ? 0 : std::size_t(layer.dimensions - 1)];
    layer.extent = {g.out[0], g.out[1], g.out[2], 1};
    layer.extent[axes] = channels;
    layer.dimensions = int(axes) + 1;
    return;
  }
  layer.dimensions = source.dimensions;
  layer.extent = source.extent;
  if (layer.function == PoolingFunction::max || layer.function == PoolingFunction::average) {
    for (std::size_t a = 0; a < axes; ++a) layer.extent[a] = g.out[a];
  } else if (layer.function == PoolingFunction::dot_product ||
             layer.function == PoolingFunction::cosine) {
    layer.dimensions = 1;
    layer.extent = {Index(sources.size()) - 1, 1, 1, 1};
  }
}

std::size_t units_of_a_channel(const LayerDescriptor& layer) {
  if (layer.type != LayerType::convolutional) return 1;
  return std::size_t(layer.units() / layer.extent[std::size_t(layer.dimensions - 1)]);
}

std::size_t weight_count(const LayerDescriptor& layer, const LayerDescriptor& source) {
  if (layer.type == LayerType::pooling) return 0;
  if (layer.type != LayerType::convolutional) return std::size_t(source.units() * layer.units());
  std::size_t count = std::size_t(geometry_of(layer, source).channels) *
                      std::size_t(layer.units()) / units_of_a_channel(layer);
  for (int a = 0; a < axes_of(layer, source); ++a)
    count *= std::size_t(layer.kernel[std::size_t(a)]);
  return count;
}

void convolve(const LayerDescriptor& layer, const LayerDescriptor& source, const Row& w,
              const Row& x, Row& z) {
  const Geometry g = geometry_of(layer, source);
  const Index filters = layer.units() / Index(units_of_a_channel(layer));
  for (Index k = 0; k < filters; ++k)
    for_each_place(g.out, [&](const Extent& at) {
      double sum = 0.0;
      for (Index c = 0; c < g.channels; ++c)
        for_each_tap(layer, g, at, [&](const Extent& tap, const Extent& p) {
          sum += w[unit(layer.kernel, k * g.channels + c, tap[0], tap[1], tap[2])] *
                 x[unit(g.in, c, p[0], p[1], p[2])];
        });
      z[unit(g.out, k, at[0], at[1], at[2])] += sum;
    });
}

Row pool(const LayerDescriptor& layer, const LocalResponseNormalization& lrn,
         const std::vector<const LayerDescriptor*>& sources, const std::vector<const Row*>& x) {
  if (layer.function == PoolingFunction::dot_product || layer.function == PoolingFunction::cosine)
    return compare(layer, x);
  Row y;
  for (std::size_t s = 0; s < x.size(); ++s) {
    Row one;
    if (layer.function == PoolingFunction::maxout)
      one = *x[s];
    else if (layer.function == PoolingFunction::lrn)
      one = normalise_response(lrn, *sources[s], *x[s]);
    else
      one = pool_window(layer, *sources[s], *x[s]);
    if (s == 0) {
      y = std::move(one);
      continue;
    }
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = layer.function == PoolingFunction::maxout ? std::max(y[i], one[i]) : y[i] + one[i];
  }
  return y;
}

double distance_to_ties(const LayerDescriptor& layer,
                        const std::vector<const LayerDescriptor*>& sources,
                        const std::vector<const Row*>& x) {
  double nearest = std::numeric_limits<double>::infinity();
  if (layer.function == PoolingFunction::maxout)
    for (std::size_t i = 0; i < x[0]->size(); ++i) {
      std::vector<double> values;
      for (const Row* row : x) values.push_back((*row)[i]);
      nearest = std::min(nearest, gap(std::move(values)));
    }
  if (layer.function != PoolingFunction::max) return nearest;
  for (std::size_t s = 0; s < x.size(); ++s) {
    const Geometry g = geometry_of(layer, *sources[s]);
    for (Index c = 0; c < g.channels; ++c)
      for_each_place(g.out, [&](const Extent& at) {
        std::vector<double> values;
        for_each_tap(layer, g, at, [&](const Extent&, const Extent& p) {
          values.push_back((*x[s])[unit(g.in, c, p[0], p[1], p[2])]);
        });
        nearest = std::min(nearest, gap(std::move(values)));
      });
  }
  return nearest;
}

}  // namespace norn::reference
