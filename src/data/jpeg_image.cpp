// SPDX-License-Identifier: Apache-2.0
// JPEG, by libjpeg-turbo. Its errors jump: each function that calls it has no object of its own
// between.
#include "src/data/image_decoders.h"

#include <csetjmp>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <jpeglib.h>

namespace norn {
namespace {

// A block of 8 x 8 pixels takes a bit at least.
constexpr double kMostPixelsAByte = 8 * 64;
// Files of the world have a dozen. Each may take as long as all of an image.
constexpr int kMostScans = 500;

class JpegDecoder {
 public:
  explicit JpegDecoder(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = &fail;
    errors_.emit_message = &look_at;
    errors_.output_message = &pass_over;
    progress_.progress_monitor = &count_scans;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  const char* fault() const { return fault_; }
  JDIMENSION width() const { return jpeg_.image_width; }
  JDIMENSION height() const { return jpeg_.image_height; }
  int components() const { return jpeg_.num_components; }

  bool read_header() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  bool read_rows(JSAMPROW* rows) {
    if (setjmp(back_) != 0) return false;
    jpeg_.out_color_space = jpeg_.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height)
      jpeg_read_scanlines(&jpeg_, rows + jpeg_.output_scanline, 1);
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

 private:
  static JpegDecoder& self(j_common_ptr jpeg) {
    return *static_cast<JpegDecoder*>(jpeg->client_data);
  }
  [[noreturn]] static void fail(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, self(jpeg).fault_);
    std::longjmp(self(jpeg).back_, 1);
  }
  // What libjpeg would make up for is damage here.
  static void look_at(j_common_ptr jpeg, int level) {
    if (level < 0) fail(jpeg);
  }
  static void pass_over(j_common_ptr /*jpeg*/) {}
  static void count_scans(j_common_ptr jpeg) {
    if (self(jpeg).jpeg_.input_scan_number <= kMostScans) return;
    std::snprintf(self(jpeg).fault_, sizeof fault_, "more than %d scans", kMostScans);
    std::longjmp(self(jpeg).back_, 1);
  }

  std::span<const std::uint8_t> bytes_;
  jpeg_decompress_struct jpeg_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf back_;
  char fault_[JMSG_LENGTH_MAX] = {};
};

}  // namespace

bool is_jpeg(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

Decoded decode_jpeg(std::span<const std::uint8_t> bytes) {
  JpegDecoder jpeg(bytes);
  const auto damaged = [&jpeg] {
    return Decoded{{}, fmt::format("is no whole JPEG: {}", jpeg.fault())};
  };
  if (!jpeg.read_header()) return damaged();
  const int components = jpeg.components();
  if (components != 1 && components != 3)
    return {
        {},
        fmt::format("is a JPEG of {} channels, where 1 (grey) or 3 (colour) are read", components)};
  const double most = double(bytes.size()) * kMostPixelsAByte;
  if (std::string fault = size_fault(jpeg.width(), jpeg.height(), most); !fault.empty())
    return {{}, std::move(fault)};

  Image image{{Index(jpeg.width()), Index(jpeg.height()), Index(components)}, {}};
  image.pixels.resize(std::size_t(image.size.bytes()));
  std::vector<JSAMPROW> rows;
  for (Index y = 0; y < image.size.height; ++y)
    rows.push_back(image.pixels.data() + y * image.size.width * components);
  if (!jpeg.read_rows(rows.data())) return damaged();
  return {std::move(image), {}};
}

}  // namespace norn
