// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/image.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <zlib.h>

/// Writers of image files for tests: PNG from its specification, JPEG by libjpeg.
namespace norn {

/// How samples stand in a PNG: types 0 grey, 2 colour, 3 palette, 4 grey and alpha, 6 colour and
/// alpha.
struct PngKind {
  int type = 0;
  int bits = 8;  // a sample
  bool interlaced = false;
  Index samples() const { return std::array<Index, 7>{1, 0, 3, 1, 2, 0, 4}[std::size_t(type)]; }
};

/// Colour and alpha of each entry.
using Palette = std::vector<std::array<std::uint8_t, 4>>;

inline std::string big_endian(std::uint32_t number) {
  return {char(number >> 24), char(number >> 16), char(number >> 8), char(number)};
}

inline std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size()));
  return big_endian(std::uint32_t(data.size())) + body + big_endian(std::uint32_t(sum));
}

inline std::string png_header(std::uint32_t width, std::uint32_t height, const PngKind& kind) {
  const std::string tail = {char(kind.bits), char(kind.type), 0, 0, char(kind.interlaced)};
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(width) + big_endian(height) + tail);
}

/// `samples`: [height x width x samples a pixel].
inline std::string png_file(Index width, Index height, const PngKind& kind,
                            const std::vector<std::uint16_t>& samples,
                            const Palette& palette = {}) {
  struct Pass {
    Index x, y, dx, dy;
  };
  std::vector<Pass> passes = {{0, 0, 1, 1}};
  if (kind.interlaced)
    passes = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
              {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  std::string rows;
  for (const Pass& pass : passes)
    for (Index y = pass.y; y < height && pass.x < width; y += pass.dy) {
      rows += '\0';  // no filter
      unsigned held = 0, bits = 0;
      for (Index x = pass.x; x < width; x += pass.dx)
        for (Index s = 0; s < kind.samples(); ++s) {
          held = held << kind.bits | samples[std::size_t((y * width + x) * kind.samples() + s)];
          bits += unsigned(kind.bits);
          for (; bits >= 8; bits -= 8) rows += char(held >> (bits - 8) & 255);
        }
      if (bits > 0) rows += char(held << (8 - bits) & 255);
    }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  std::string file = png_header(std::uint32_t(width), std::uint32_t(height), kind);
  if (!palette.empty()) {
    std::string colours, alphas;
    for (const auto& entry : palette) {
      colours.append({char(entry[0]), char(entry[1]), char(entry[2])});
      alphas += char(entry[3]);
    }
    file += png_chunk("PLTE", colours) + png_chunk("tRNS", alphas);
  }
  return file + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

/// A PNG of 8 bits of grey or colour.
inline std::string png_file(const Image& image) {
  const std::vector<std::uint16_t> samples(image.pixels.begin(), image.pixels.end());
  return png_file(image.size.width, image.size.height, {image.size.channels == 1 ? 0 : 2, 8},
                  samples);
}

/// A JPEG of the best quality; 4 channels are CMYK.
inline std::string jpeg_file(const Image& image, bool progressive = false) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = JDIMENSION(image.size.width);
  jpeg.image_height = JDIMENSION(image.size.height);
  jpeg.input_components = int(image.size.channels);
  jpeg.in_color_space = image.size.channels == 1   ? JCS_GRAYSCALE
                        : image.size.channels == 3 ? JCS_RGB
                                                   : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<JSAMPROW>(
        image.pixels.data() + Index(jpeg.next_scanline) * image.size.width * image.size.channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return file;
}

inline Image random_image(const ImageSize& size, std::mt19937& random) {
  Image image{size, std::vector<std::uint8_t>(std::size_t(size.bytes()))};
  for (std::uint8_t& byte : image.pixels) byte = std::uint8_t(random());
  return image;
}

inline Image decode(const std::string& file) {
  return decode_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
}

}  // namespace norn
