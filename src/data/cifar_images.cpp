// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100 in their binary version: labels of a byte each, then 32 x 32 bytes of red,
// of green and of blue.
#include "norn/base/error.h"
#include "packed_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/data/image_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

constexpr Index kSide = 32;
constexpr Index kPlane = kSide * kSide;
constexpr Index kPixels = 3 * kPlane;

struct Kind {
  const char* title;
  const char* names;           // file with the names of classes, beside the records
  std::array<int, 2> classes;  // below which the labels of a record are; the last are used
  std::size_t labels;
  Index record() const { return Index(labels) + kPixels; }
};
constexpr Kind kCifar10 = {"CIFAR-10", "batches.meta.txt", {10, 0}, 1};
constexpr Kind kCifar100 = {"CIFAR-100", "fine_label_names.txt", {20, 100}, 2};

class CifarImages final : public ImageSource {
 public:
  explicit CifarImages(Paths files) : files_(std::move(files)), kind_(&kind_of(files_[0])) {
    for (const fs::path& file : files_)
      if (&kind_of(file) != kind_)
        throw DataError(fmt::format("{}: has records of another kind than {}; import them apart",
                                    file.string(), files_[0].string()));
    name_classes(files_[0].parent_path() / kind_->names);
  }

  bool next(LabelledImage& image) override {
    std::vector<std::uint8_t> record(std::size_t(kind_->record()));
    while (!file_ || !read(record)) {
      if (++number_ == Index(files_.size())) return false;
      file_.emplace(files_[std::size_t(number_)]);
      at_ = 0;
    }
    image.place = fmt::format("{}: record {}", files_[std::size_t(number_)].string(), at_++);
    for (std::size_t i = 0; i < kind_->labels; ++i)
      if (record[i] >= kind_->classes[i])
        throw DataError(
            fmt::format("{}: its label is {}, expected 0 to {}; the file may be damaged, "
                        "get it again",
                        image.place, record[i], kind_->classes[i] - 1));
    image.label = record[kind_->labels - 1];
    image.name = std::to_string(examples_++);
    image.image.size = {kSide, kSide, 3};
    image.image.pixels.clear();
    const std::uint8_t* planes = record.data() + kind_->labels;
    for (Index pixel = 0; pixel < kPlane; ++pixel)
      for (Index channel = 0; channel < 3; ++channel)
        image.image.pixels.push_back(planes[channel * kPlane + pixel]);
    return true;
  }

 private:
  static const Kind& kind_of(const fs::path& file) {
    std::error_code problem;
    const std::uintmax_t bytes = fs::file_size(file, problem);
    if (!problem && bytes > 0)
      for (const Kind* kind : {&kCifar10, &kCifar100})
        if (bytes % std::uintmax_t(kind->record()) == 0) return *kind;
    throw DataError(fmt::format(
        "{}: has {} bytes, which are no whole records of CIFAR-10 ({}) or CIFAR-100 ({}); the file "
        "may be truncated, get it again",
        file.string(), problem ? 0 : bytes, kCifar10.record(), kCifar100.record()));
  }

  bool read(std::vector<std::uint8_t>& record) {
    const std::size_t got = file_->read(reinterpret_cast<char*>(record.data()), record.size());
    if (got == 0) return false;
    if (got < record.size())
      throw DataError(fmt::format("{}: ends within a record; it is being written, or was cut off",
                                  files_[std::size_t(number_)].string()));
    return true;
  }

  // By the names that come with the records, else by numbers.
  void name_classes(const fs::path& names) {
    const Index count = kind_->classes[kind_->labels - 1];
    const std::optional<std::string> text =
        path_exists(names) ? read_text_file(names, std::size_t(1) << 16) : std::nullopt;
    if (!text) {
      for (Index label = 0; label < count; ++label) classes_.add(std::to_string(label));
      return;
    }
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) classes_.add(line);
    }
    if (classes_.size() != count)
      throw DataError(
          fmt::format("{}: names {} classes, {} has {}; get the file again, or remove it",
                      names.string(), classes_.size(), kind_->title, count));
  }

  Paths files_;
  const Kind* kind_;
  std::optional<PackedFile> file_;
  Index number_ = -1;   // of the file that is read
  Index at_ = 0;        // records of it
  Index examples_ = 0;  // records of all
};

}  // namespace

std::unique_ptr<ImageSource> open_cifar(const Paths& files) {
  return std::make_unique<CifarImages>(files);
}

}  // namespace norn
