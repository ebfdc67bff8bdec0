// SPDX-License-Identifier: Apache-2.0
// What is done to images once they are decoded.
#include "src/data/image.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn {
namespace {

// The pixels of the source that one pixel along an axis is a mean of.
struct Taps {
  Index first = 0;
  std::vector<double> weight;  // their sum is 1
};

std::vector<Taps> taps_of(Index in, Index out) {
  const double scale = double(in) / double(out);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (Index i = 0; i < out; ++i) {
    const double centre = (double(i) + 0.5) * scale;
    Taps& taps = all.emplace_back();
    taps.first = std::max<Index>(0, Index(std::floor(centre - reach)));
    const Index end = std::min(in, Index(std::ceil(centre + reach)));
    double sum = 0;
    for (Index j = taps.first; j < end; ++j) {
      const double distance = std::abs(double(j) + 0.5 - centre) / reach;
      taps.weight.push_back(std::max(0.0, 1.0 - distance));
      sum += taps.weight.back();
    }
    for (double& weight : taps.weight) weight /= sum;
  }
  return all;
}

}  // namespace

std::string size_text(const ImageSize& size) {
  return fmt::format("{}x{}x{}", size.width, size.height, size.channels);
}

Image resized(const Image& image, Index width, Index height) {
  if (image.size.width == width && image.size.height == height) return image;
  const Index channels = image.size.channels, row = image.size.width * channels;
  const std::vector<Taps> across = taps_of(image.size.width, width);
  Image result{{width, height, channels}, {}};
  result.pixels.reserve(std::size_t(result.size.bytes()));
  std::vector<double> mean(std::size_t(row), 0);  // of rows of the source
  for (const Taps& down : taps_of(image.size.height, height)) {
    std::ranges::fill(mean, 0);
    for (std::size_t k = 0; k < down.weight.size(); ++k) {
      const std::uint8_t* from = image.pixels.data() + (down.first + Index(k)) * row;
      for (Index i = 0; i < row; ++i) mean[std::size_t(i)] += down.weight[k] * from[i];
    }
    for (const Taps& taps : across)
      for (Index channel = 0; channel < channels; ++channel) {
        double value = 0;
        const double* from = mean.data() + taps.first * channels + channel;
        for (std::size_t k = 0; k < taps.weight.size(); ++k)
          value += taps.weight[k] * from[Index(k) * channels];
        result.pixels.push_back(std::uint8_t(std::clamp(std::floor(value + 0.5), 0.0, 255.0)));
      }
  }
  return result;
}

Image with_channels(Image image, Index channels) {
  if (image.size.channels == channels) return image;
  Image result{image.size, {}};
  result.size.channels = channels;
  result.pixels.reserve(std::size_t(result.size.bytes()));
  if (channels == 3) {
    for (const std::uint8_t grey : image.pixels) result.pixels.insert(result.pixels.end(), 3, grey);
    return result;
  }
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    const int thousandth =
        299 * image.pixels[i] + 587 * image.pixels[i + 1] + 114 * image.pixels[i + 2];
    result.pixels.push_back(std::uint8_t((thousandth + 500) / 1000));
  }
  return result;
}

std::vector<std::uint8_t> planar(const Image& image) {
  const auto channels = std::size_t(image.size.channels);
  std::vector<std::uint8_t> units;
  units.reserve(image.pixels.size());
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = channel; i < image.pixels.size(); i += channels)
      units.push_back(image.pixels[i]);
  return units;
}

}  // namespace norn
