// SPDX-License-Identifier: Apache-2.0
// idx, the format of MNIST: a magic number, extents of 32 bits, the highest byte first, and bytes.
#include "norn/base/error.h"
#include "packed_file.h"
#include "src/base/files.h"
#include "src/data/image_source.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;  // bytes in 3 dimensions, and in one

std::optional<std::uint32_t> read_number(PackedFile& file) {
  std::array<unsigned char, 4> bytes;
  if (file.read(reinterpret_cast<char*>(bytes.data()), bytes.size()) < bytes.size())
    return std::nullopt;
  std::uint32_t number = 0;
  for (const unsigned char byte : bytes) number = number << 8 | byte;
  return number;
}

// The bytes behind a header, as long as it says.
class IdxFile {
 public:
  IdxFile(const fs::path& path, std::uint32_t magic, const char* what)
      : path_(path.string()), file_(path) {
    const auto found = read_number(file_);
    if (found != magic)
      throw DataError(
          fmt::format("{}: begins with {}, where idx of {} begins with 0x{:08x}; check "
                      "which file it is",
                      path_, found ? fmt::format("0x{:08x}", *found) : "nothing", what, magic));
  }

  Index extent() {
    const auto number = read_number(file_);
    if (!number) fail("ends within its header");
    return Index(*number);
  }
  void read(std::span<std::uint8_t> bytes) {
    if (file_.read(reinterpret_cast<char*>(bytes.data()), bytes.size()) < bytes.size())
      fail("is shorter than its header says");
  }
  void require_end() {
    char byte = 0;
    if (file_.read(&byte, 1) != 0) fail("is longer than its header says");
  }
  [[noreturn]] void fail(const char* what) const {
    throw DataError(
        fmt::format("{}: {}; the file may be truncated or damaged, get it again", path_, what));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  PackedFile file_;
};

class IdxImages final : public ImageSource {
 public:
  IdxImages(const fs::path& images, const fs::path& labels) : file_(images, kImages, "images") {
    count_ = file_.extent();
    size_.height = file_.extent();
    size_.width = file_.extent();
    size_.channels = 1;
    if (count_ == 0 || size_.width == 0 || size_.height == 0) file_.fail("has no pixels");
    if (size_.width > kLongestImageSide || size_.height > kLongestImageSide ||
        size_.width * size_.height > kMostImagePixels)
      file_.fail("says that its images are larger than any that are read");
    read_labels(labels);
  }

  bool next(LabelledImage& image) override {
    if (at_ == count_) {
      file_.require_end();
      return false;
    }
    image.image.size = size_;
    image.image.pixels.resize(std::size_t(size_.bytes()));
    file_.read(image.image.pixels);
    image.label = labels_[std::size_t(at_)];
    image.name = std::to_string(at_);
    image.place = fmt::format("{}: image {}", file_.path(), at_);
    ++at_;
    return true;
  }

 private:
  void read_labels(const fs::path& path) {
    if (path.empty())
      throw UsageError(
          fmt::format("{}: its name does not tell which file has the labels; name it "
                      "with `target`",
                      file_.path()));
    IdxFile file(path, kLabels, "labels");
    const Index count = file.extent();
    if (count != count_)
      throw DataError(
          fmt::format("{}: has {} labels for the {} images of {}; check which files "
                      "belong together",
                      file.path(), count, count_, file_.path()));
    constexpr Index kPiece = Index(1) << 20;  // no more memory than there are bytes
    while (Index(labels_.size()) < count) {
      const std::size_t before = labels_.size();
      labels_.resize(before + std::size_t(std::min(kPiece, count - Index(before))));
      file.read(std::span(labels_).subspan(before));
    }
    file.require_end();
    const int highest = *std::ranges::max_element(labels_);
    for (int label = 0; label <= highest; ++label) classes_.add(std::to_string(label));
  }

  IdxFile file_;
  Index count_ = 0;
  ImageSize size_;
  std::vector<std::uint8_t> labels_;
  Index at_ = 0;
};

}  // namespace

fs::path idx_labels_of(const fs::path& images) {
  std::string name = images.filename().string();
  const auto replace = [&name](std::string_view word, std::string_view by) {
    const std::size_t at = name.find(word);
    if (at == std::string::npos) return false;
    name.replace(at, word.size(), by);
    return true;
  };
  if (!replace("images", "labels") || !replace("idx3", "idx1")) return {};
  return images.parent_path() / name;
}

std::unique_ptr<ImageSource> open_idx(const fs::path& images, const fs::path& labels) {
  return std::make_unique<IdxImages>(images, labels);
}

}  // namespace norn
