// SPDX-License-Identifier: Apache-2.0
// Images are decoded as their formats say, resized by the formula, and damage is told.
#include "src/data/image.h"

#include "images.h"
#include "support.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string fault_of(const std::string& file) {
  return message_of<DataError>([&] { decode(file); });
}

TEST(Image, PngOfEveryKindIsDecodedAsItsSpecificationSays) {
  std::mt19937 random(fresh_seed());
  const std::vector<PngKind> kinds = {{0, 1}, {0, 2},  {0, 4},  {0, 8}, {0, 16},
                                      {2, 8}, {2, 16}, {3, 1},  {3, 2}, {3, 4},
                                      {3, 8}, {4, 8},  {4, 16}, {6, 8}, {6, 16}};
  for (PngKind kind : kinds)
    for (const bool interlaced : {false, true}) {
      kind.interlaced = interlaced;
      const Index width = 1 + Index(random() % 19), height = 1 + Index(random() % 19);
      const unsigned most = (1u << kind.bits) - 1;
      Palette palette;
      if (kind.type == 3)
        for (unsigned i = 0; i <= most; ++i)
          palette.push_back({std::uint8_t(random()), std::uint8_t(random()), std::uint8_t(random()),
                             std::uint8_t(random())});
      std::vector<std::uint16_t> samples(std::size_t(width * height * kind.samples()));
      for (std::uint16_t& sample : samples) sample = std::uint16_t(random() & most);
      const Image image = decode(png_file(width, height, kind, samples, palette));

      const Index channels = kind.type == 0 || kind.type == 4 ? 1 : 3;
      ASSERT_EQ(image.size, (ImageSize{width, height, channels})) << kind.type << " " << kind.bits;
      const auto byte = [&](double sample) { return std::floor(sample * 255 / most + 0.5); };
      for (Index pixel = 0; pixel < width * height; ++pixel)
        for (Index c = 0; c < channels; ++c) {
          const std::uint16_t* at = samples.data() + pixel * kind.samples();
          double value = 0, alpha = 255;
          if (kind.type == 3) {
            value = palette[*at][std::size_t(c)];
            alpha = palette[*at][3];
          } else {
            value = byte(at[c]);
            if (kind.type >= 4) alpha = byte(at[channels]);
          }
          ASSERT_EQ(image.pixels[std::size_t(pixel * channels + c)],
                    std::floor(value * alpha / 255 + 0.5))
              << "type " << kind.type << ", " << kind.bits << " bits, pixel " << pixel;
        }
    }
}

TEST(Image, JpegIsDecodedAsNearAsItsQuality) {
  std::mt19937 random(fresh_seed());
  for (const Index channels : {1, 3})
    for (const bool progressive : {false, true}) {
      // Slow waves: what a JPEG of the best quality keeps.
      Image image =
          random_image({1 + Index(random() % 40), 1 + Index(random() % 40), channels}, random);
      const double dx = 0.2 * double(random()) / double(std::mt19937::max());
      const double dy = 0.2 * double(random()) / double(std::mt19937::max());
      for (std::size_t i = 0; i < image.pixels.size(); ++i) {
        const Index pixel = Index(i) / channels;
        const double x = double(pixel % image.size.width), y = double(pixel / image.size.width);
        image.pixels[i] =
            std::uint8_t(128 + 100 * std::sin(dx * x + dy * y + double(Index(i) % channels)));
      }
      const Image decoded = decode(jpeg_file(image, progressive));
      ASSERT_EQ(decoded.size, image.size);
      for (std::size_t i = 0; i < image.pixels.size(); ++i)
        ASSERT_NEAR(decoded.pixels[i], image.pixels[i], 5) << i;
    }
}

TEST(Image, NoTruncatedFileIsTakenForWhole) {
  std::mt19937 random(fresh_seed());
  const Image image = random_image({23, 17, 3}, random);
  for (const std::string& file : {png_file(image), jpeg_file(image), jpeg_file(image, true)})
    for (int i = 0; i < 200; ++i) {
      const std::string cut = file.substr(0, i == 0 ? file.size() - 1 : random() % file.size());
      ASSERT_THAT(fault_of(cut),
                  AnyOf(StartsWith("is no whole PNG: "), StartsWith("is no whole JPEG: "),
                        StartsWith("is neither PNG nor JPEG")))
          << cut.size() << " of " << file.size();
    }
}

TEST(Image, MutatedFilesAreImagesOrRefused) {
  std::mt19937 random(fresh_seed());
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const Image image = random_image({9, 7, 1 + 2 * Index(random() % 2)}, random);
    std::string file = i % 3 == 0 ? png_file(image) : jpeg_file(image, i % 3 == 1);
    for (unsigned n = 1 + random() % 8; n > 0; --n) file[random() % file.size()] = char(random());
    try {
      const Image decoded = decode(file);
      ASSERT_EQ(Index(decoded.pixels.size()), decoded.size.bytes());
      ASSERT_LE(decoded.size.width * decoded.size.height, kMostImagePixels);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(Image, SizesBeyondWhatTheBytesHoldAreRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(fault_of(png_header(8000, 8000, {2, 8}) + png_chunk("IDAT", "x")),
            "says that it has 8000 x 8000 pixels, more than its bytes can hold; replace it, or "
            "remove it");
  EXPECT_THAT(fault_of(png_header(70000, 1, {0, 1})), StartsWith("is no whole PNG: "));
  EXPECT_EQ(fault_of(png_header(60000, 60000, {0, 1}) + png_chunk("IDAT", "x")),
            "is an image of 60000 x 60000 pixels, at most 67108864 are read; replace it, or remove "
            "it");
  std::mt19937 random(fresh_seed());
  std::string jpeg = jpeg_file(random_image({8, 8, 1}, random));
  const std::size_t frame = jpeg.find("\xff\xc0");  // length, bits, height, width
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x1f\x40\x1f\x40", 4));
  EXPECT_THAT(fault_of(jpeg), StartsWith("says that it has 8000 x 8000 pixels"));
}

// Of deflate a byte stands for 1032 at most.
TEST(Image, PixelsThatTheBytesOfAPngJustHoldAreNotTooMany) {
  std::mt19937 random(fresh_seed());
  for (const PngKind& kind : {PngKind{0, 8}, {0, 16}, {2, 8}, {4, 16}, {6, 16}}) {
    const Index width = 64 + Index(random() % 200);
    const auto fault = [&](Index height) {
      return fault_of(png_header(std::uint32_t(width), std::uint32_t(height), kind) +
                      png_chunk("IDAT", "x"));
    };
    const Index bytes = Index((png_header(1, 1, kind) + png_chunk("IDAT", "x")).size());
    const Index most = bytes * 1032 * 8 / (kind.samples() * kind.bits);
    EXPECT_THAT(fault(most / width), StartsWith("is no whole PNG: ")) << kind.type;
    EXPECT_THAT(fault(most / width + 1), StartsWith("says that it has ")) << kind.type;
  }
}

TEST(Image, OtherFilesAndFourChannelsAreRefused) {
  std::mt19937 random(fresh_seed());
  EXPECT_EQ(fault_of("GIF89a"), "is neither PNG nor JPEG; convert it, or remove it");
  EXPECT_EQ(fault_of(""), "is neither PNG nor JPEG; convert it, or remove it");
  EXPECT_EQ(fault_of(jpeg_file(random_image({5, 4, 4}, random))),
            "is a JPEG of 4 channels, where 1 (grey) or 3 (colour) are read; replace it, or remove "
            "it");
}

// The formula of image.h in two dimensions at once.
double mean_at(const Image& image, Index width, Index height, Index x, Index y, Index channel) {
  const double sx = double(image.size.width) / double(width);
  const double sy = double(image.size.height) / double(height);
  double sum = 0, weights = 0;
  for (Index j = 0; j < image.size.height; ++j)
    for (Index i = 0; i < image.size.width; ++i) {
      const double dx = std::abs(double(i) + 0.5 - (double(x) + 0.5) * sx) / std::max(1.0, sx);
      const double dy = std::abs(double(j) + 0.5 - (double(y) + 0.5) * sy) / std::max(1.0, sy);
      const double weight = std::max(0.0, 1 - dx) * std::max(0.0, 1 - dy);
      const Index at = (j * image.size.width + i) * image.size.channels + channel;
      sum += weight * image.pixels[std::size_t(at)];
      weights += weight;
    }
  return sum / weights;
}

TEST(Image, IsResizedByTheFormula) {
  std::mt19937 random(fresh_seed());
  for (int i = 0; i < 30; ++i) {
    const ImageSize size{1 + Index(random() % 30), 1 + Index(random() % 30), i % 2 == 0 ? 1 : 3};
    const Image image = random_image(size, random);
    const Index width = 1 + Index(random() % 30), height = 1 + Index(random() % 30);
    const Image result = resized(image, width, height);
    ASSERT_EQ(result.size, (ImageSize{width, height, size.channels}));
    for (Index y = 0; y < height; ++y)
      for (Index x = 0; x < width; ++x)
        for (Index c = 0; c < size.channels; ++c)
          ASSERT_NEAR(result.pixels[std::size_t((y * width + x) * size.channels + c)],
                      mean_at(image, width, height, x, y, c), 0.5 + 1e-9)
              << size_text(size) << " to " << size_text(result.size);
  }
}

TEST(Image, OfItsSizeStaysAsItIs) {
  std::mt19937 random(fresh_seed());
  const Image image = random_image({13, 6, 3}, random);
  EXPECT_EQ(resized(image, 13, 6).pixels, image.pixels);
  const Image white{{50, 40, 1}, std::vector<std::uint8_t>(2000, 255)};
  EXPECT_EQ(resized(white, 7, 11).pixels, std::vector<std::uint8_t>(77, 255));
}

TEST(Image, ChannelsAndTheOrderOfDataSets) {
  const Image colour{{2, 1, 3}, {10, 20, 30, 255, 255, 255}};
  EXPECT_EQ(planar(colour), (std::vector<std::uint8_t>{10, 255, 20, 255, 30, 255}));
  // 0.299 * 10 + 0.587 * 20 + 0.114 * 30 = 18.15
  EXPECT_EQ(with_channels(colour, 1).pixels, (std::vector<std::uint8_t>{18, 255}));
  EXPECT_EQ(with_channels({{2, 1, 1}, {7, 9}}, 3).pixels,
            (std::vector<std::uint8_t>{7, 7, 7, 9, 9, 9}));
  std::mt19937 random(fresh_seed());
  const Image drawn = random_image({31, 32, 3}, random);
  const Image grey = with_channels(drawn, 1);
  for (std::size_t i = 0; i < grey.pixels.size(); ++i) {
    const std::uint8_t* rgb = drawn.pixels.data() + 3 * i;
    ASSERT_NEAR(grey.pixels[i], 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2], 0.5 + 1e-9);
  }
}

}  // namespace
}  // namespace norn
