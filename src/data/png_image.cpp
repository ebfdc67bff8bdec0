// SPDX-License-Identifier: Apache-2.0
// PNG, by libpng. Its errors jump: each function that calls it has no object of its own between.
#include "src/data/image_decoders.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <png.h>

namespace norn {
namespace {

constexpr std::size_t kSignature = 8;
constexpr double kMostPacked = 1032;  // bytes that a byte of deflate can stand for

class PngDecoder {
 public:
  explicit PngDecoder(std::span<const std::uint8_t> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &fail, &pass_over);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool ready() const { return info_ != nullptr; }
  const char* fault() const { return fault_; }
  png_uint_32 width() const { return png_get_image_width(png_, info_); }
  png_uint_32 height() const { return png_get_image_height(png_, info_); }
  /// Of a pixel, as it is stored.
  int bits() const { return png_get_bit_depth(png_, info_) * png_get_channels(png_, info_); }
  /// 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha. Once begin() was called.
  std::size_t channels() const { return png_get_channels(png_, info_); }

  bool read_header() {
    if (setjmp(back_) != 0) return false;
    png_set_user_limits(png_, png_uint_32(kLongestImageSide), png_uint_32(kLongestImageSide));
    png_set_read_fn(png_, this, &read);
    png_read_info(png_, info_);
    return true;
  }

  /// Says what pixels are to become.
  bool begin() {
    if (setjmp(back_) != 0) return false;
    png_set_expand(png_);  // palettes, bits and transparent colours
    png_set_scale_16(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(png_bytepp rows) {
    if (setjmp(back_) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self.fault_, message, sizeof self.fault_ - 1);
    std::longjmp(self.back_, 1);
  }
  static void pass_over(png_structp /*png*/, png_const_charp /*message*/) {}
  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self.left_.size()) png_error(png, "it ends too early");
    std::copy_n(self.left_.data(), count, to);
    self.left_ = self.left_.subspan(count);
  }

  std::span<const std::uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_;
  char fault_[128] = {};
};

Image without_alpha(const Image& image, std::size_t channels) {
  Image result = image;
  result.size.channels = Index(channels - 1);
  result.pixels.resize(std::size_t(result.size.bytes()));
  std::size_t at = 0;
  for (std::size_t i = 0; i < image.pixels.size(); i += channels) {
    const int alpha = image.pixels[i + channels - 1];
    for (std::size_t channel = 0; channel + 1 < channels; ++channel)
      result.pixels[at++] = std::uint8_t((image.pixels[i + channel] * alpha + 127) / 255);
  }
  return result;
}

}  // namespace

bool is_png(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= kSignature && png_sig_cmp(bytes.data(), 0, kSignature) == 0;
}

Decoded decode_png(std::span<const std::uint8_t> bytes) {
  PngDecoder png(bytes);
  const auto damaged = [&png] {
    return Decoded{{}, fmt::format("is no whole PNG: {}", png.fault())};
  };
  if (!png.ready()) return {{}, "cannot be decoded: memory is short"};
  if (!png.read_header()) return damaged();
  const double most = double(bytes.size()) * kMostPacked * 8 / png.bits();
  if (std::string fault = size_fault(png.width(), png.height(), most); !fault.empty())
    return {{}, std::move(fault)};
  if (!png.begin()) return damaged();

  const std::size_t channels = png.channels();
  Image image{{Index(png.width()), Index(png.height()), Index(channels)}, {}};
  image.pixels.resize(std::size_t(image.size.bytes()));
  std::vector<png_bytep> rows;
  for (Index y = 0; y < image.size.height; ++y)
    rows.push_back(image.pixels.data() + y * image.size.width * image.size.channels);
  if (!png.read_rows(rows.data())) return damaged();
  if (channels % 2 == 0) return {without_alpha(image, channels), {}};
  return {std::move(image), {}};
}

}  // namespace norn
