// SPDX-License-Identifier: Apache-2.0
// Imports images: each is decoded once, and written when it is known how many there are.
#include "image_import.h"
#include "import_writer.h"
#include "norn/base/error.h"
#include "split.h"
#include "spool.h"
#include "src/base/files.h"
#include "src/base/text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

// Images that were read, in the order of their source.
struct ReadImages {
  std::string part;  // a name that the source gives
  std::vector<Column> labels;
  std::vector<std::string> names;
};

// A file on its way.
class ImageFile {
 public:
  ImageFile(const fs::path& path, const std::vector<DatasetInfo>& sets) : writer_(path, sets) {}

  void append(std::span<const std::uint8_t> pixels, Column label, const std::string& name) {
    pixels_.insert(pixels_.end(), pixels.begin(), pixels.end());
    labels_.push_back(label);
    names_.emplace_back(name);
    if (pixels_.size() >= kBuffered) flush();
  }
  void finish() {
    flush();
    writer_.finish();
  }
  void commit() { writer_.commit(); }

 private:
  void flush() {
    writer_.append_values(0, std::span<const std::uint8_t>(pixels_));
    writer_.append_classes(1, labels_);
    writer_.append_labels(0, names_);
    pixels_.clear();
    labels_.clear();
    names_.clear();
  }

  static constexpr std::size_t kBuffered = std::size_t(1) << 22;
  DatasetWriter writer_;
  std::vector<std::uint8_t> pixels_;
  std::vector<Column> labels_;
  std::vector<std::string_view> names_;
};

class ImageImporter {
 public:
  ImageImporter(const ImageImport& options, const Log& log)
      : options_(options),
        log_(log),
        split_(options.split),
        pixels_(options.scratch.empty() ? options.output.parent_path() : options.scratch,
                "choose another folder by `scratch`") {}

  ImportReport run() {
    std::vector<ImagePart> parts = open_images(options_.query, log_);
    if (parts.size() > 1 && split_.parts() > 1)
      throw UsageError(fmt::format(
          "`split`: {} has images to train on and others to test on, and is written so; leave "
          "`split` out, or name one of its files",
          options_.query.input.string()));
    for (ImagePart& part : parts) read(part);
    write();
    return std::move(report_);
  }

 private:
  void read(ImagePart& part) {
    ReadImages& images = read_.emplace_back();
    images.part = part.name;
    LabelledImage image;
    while (part.images->next(image)) {
      fit(image);
      pixels_.write(std::span<const std::uint8_t>(planar(image.image)));
      images.labels.push_back(image.label);
      images.names.push_back(image.name);
      if (++report_.input_rows % 256 == 0) show("reading:", report_.input_rows);
    }
    report_.malformed += part.images->malformed();
    if (images.labels.empty())
      throw DataError(
          fmt::format("{}: no image is left; check the input", options_.query.input.string()));
    // Parts number their classes alike; one may lack the last of them.
    const LabelIndex& classes = part.images->classes();
    for (Index number = classes_.size(); number < classes.size(); ++number)
      classes_.add(classes.label(number));
  }

  // Gives an image the size that all have, or sees that it has it.
  void fit(LabelledImage& image) {
    if (options_.size) {
      image.image = resized(image.image, options_.size->width, options_.size->height);
      if (options_.size->channels > 0)
        image.image = with_channels(std::move(image.image), options_.size->channels);
    }
    if (first_.empty()) {
      first_ = image.place;
      size_ = image.image.size;
    }
    const ImageSize& found = image.image.size;
    if (found == size_) return;
    const ImageSize wanted{size_.width, size_.height,
                           std::max<Index>(size_.channels, found.channels)};
    throw DataError(fmt::format(
        "{}: is {}, where {} is {} (width x height x channels); give all one size, with `size` {} "
        "for example",
        image.place, size_text(found), first_, size_text(size_), size_text(wanted)));
  }

  fs::path file_of(const std::string& part) const {
    return part.empty() ? options_.output : beside(options_.output, fmt::format(".{}.nc", part));
  }

  std::vector<DatasetInfo> sets_of(Index examples, Index label_bytes) const {
    DatasetInfo input;
    input.name = options_.name + "_input";
    input.type = ElementType::uint8;
    input.kind = 1;
    input.dimensions = size_.channels == 1 ? 2 : 3;
    input.extent = {size_.width, size_.height, size_.channels};
    input.examples = input.unique_examples = examples;
    input.label_set = 0;
    input.label_bytes = label_bytes;
    DatasetInfo output;
    output.name = options_.name + "_output";
    output.boolean = true;
    output.extent[0] = classes_.size();
    output.examples = output.unique_examples = examples;
    output.label_set = 0;
    output.own_units = true;
    const LabelTable labels = LabelTable::of(classes_);
    output.unit_labels = options_.keep_labels ? labels : labels.checksum_only();
    return {input, output};
  }

  void write() {
    std::vector<std::unique_ptr<ImageFile>> files;
    std::vector<std::vector<std::size_t>> file_of_image;  // by source, by image
    for (const ReadImages& images : read_) file_of_image.push_back(open(images, files));
    pixels_.rewind();
    std::vector<std::uint8_t> units(std::size_t(size_.bytes()));
    Index written = 0;
    for (std::size_t source = 0; source < read_.size(); ++source)
      for (std::size_t i = 0; i < read_[source].labels.size(); ++i) {
        pixels_.read(std::span<std::uint8_t>(units));
        files[file_of_image[source][i]]->append(units, read_[source].labels[i],
                                                read_[source].names[i]);
        if (++written % 4096 == 0) show("writing:", written);
      }
    for (const auto& file : files) file->finish();
    for (const auto& file : files) file->commit();
    report_.joined = written;
    report_.input_extent = {size_.width, size_.height, size_.channels};
    report_.input_width = size_.bytes();
    report_.target_width = classes_.size();
  }

  // Opens the files of a source and says which of them each of its images goes to.
  std::vector<std::size_t> open(const ReadImages& images,
                                std::vector<std::unique_ptr<ImageFile>>& files) {
    const std::size_t first = files.size();
    const auto parts = std::size_t(split_.parts());
    std::vector<std::size_t> of_image(images.labels.size(), first);
    if (parts > 1) {
      const std::vector<std::uint8_t> part = split_.example_parts(Index(of_image.size()));
      for (std::size_t i = 0; i < of_image.size(); ++i) of_image[i] = first + part[i];
    }
    std::vector<Index> examples(parts), bytes(parts);
    for (std::size_t i = 0; i < of_image.size(); ++i) {
      ++examples[of_image[i] - first];
      bytes[of_image[i] - first] += Index(images.names[i].size());
    }
    for (std::size_t part = 0; part < parts; ++part) {
      const fs::path path = file_of(parts > 1 ? split_.name(int(part)) : images.part);
      if (examples[part] == 0)
        throw DataError(
            fmt::format("{}: no images are left for it of {}; import more, or change "
                        "`split`",
                        path.string(), images.labels.size()));
      require_apart({options_.query.input, options_.query.labels}, path);
      remove_abandoned(path);
      files.push_back(std::make_unique<ImageFile>(path, sets_of(examples[part], bytes[part])));
      report_.files.push_back({path, examples[part], 0, 0});
    }
    return of_image;
  }

  void show(const char* stage, Index images) const {
    if (options_.progress) options_.progress({stage, 0, 0, images});
  }

  const ImageImport& options_;
  const Log& log_;
  Split split_;
  Spool pixels_;       // of all images, in the order of data sets
  std::string first_;  // place of the first image
  ImageSize size_;     // of all
  LabelIndex classes_;
  std::vector<ReadImages> read_;
  ImportReport report_;
};

}  // namespace

ImageSize parse_image_size(const std::string& text) {
  std::vector<Index> numbers;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('x'), rest.size());
    numbers.push_back(parse_integer(rest.substr(0, end)).value_or(0));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto in_range = [](Index n) { return n >= 1 && n <= kLongestImageSide; };
  const bool has_channels = numbers.size() == 3 && (numbers[2] == 1 || numbers[2] == 3);
  if (text.ends_with('x') || !(numbers.size() == 2 || has_channels) || !in_range(numbers[0]) ||
      !in_range(numbers[1]) || numbers[0] * numbers[1] > kMostImagePixels)
    throw UsageError(
        fmt::format("`size` {}: expected WIDTHxHEIGHT, as 32x32, or with channels, "
                    "32x32x1 for grey and 32x32x3 for colour",
                    text));
  return {numbers[0], numbers[1], has_channels ? numbers[2] : 0};
}

ImportReport import_images(const ImageImport& options, const Log& log) {
  return ImageImporter(options, log).run();
}

}  // namespace norn
