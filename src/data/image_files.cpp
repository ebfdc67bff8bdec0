// SPDX-License-Identifier: Apache-2.0
// Files of PNG and JPEG, found in folders or by a list.
#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/data/first_line.h"
#include "src/data/image_source.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

struct ImageFile {
  fs::path path;
  std::string name;  // of the example
  Column label = 0;
};

Image read_image(const fs::path& path) {
  if (!path_exists(path)) throw DataError("there is no such file; correct its path");
  std::error_code problem;
  if (fs::file_size(path, problem) > kLargestImage && !problem)
    throw DataError(fmt::format("has more than {}, the most that is read of an image; remove it",
                                human_bytes(double(kLargestImage))));
  const std::optional<std::string> bytes =
      is_file(path) ? read_text_file(path, kLargestImage) : std::nullopt;
  if (!bytes) throw DataError("cannot be read; check that it is a file, and its permissions");
  return decode_image(
      {reinterpret_cast<const std::uint8_t*>(bytes->data()), std::size_t(bytes->size())});
}

class ImageFiles final : public ImageSource {
 public:
  ImageFiles(std::vector<ImageFile> files, LabelIndex classes, Index skip, const Log& log)
      : files_(std::move(files)), skip_(skip), log_(log) {
    classes_ = std::move(classes);
  }

  bool next(LabelledImage& image) override {
    while (at_ < files_.size()) {
      const ImageFile& file = files_[at_++];
      try {
        image.image = read_image(file.path);
      } catch (const DataError& error) {
        pass_over(fmt::format("{}: {}", file.path.string(), error.what()));
        continue;
      }
      image.label = file.label;
      image.name = file.name;
      image.place = file.path.string();
      return true;
    }
    return false;
  }

  Index malformed() const override { return malformed_; }

 private:
  void pass_over(const std::string& fault) {
    if (malformed_ == skip_)
      throw DataError(malformed_ == 0
                          ? fault
                          : fmt::format("{} (as {} before it, which `skip_malformed` {} passed "
                                        "over)",
                                        fault, counted(malformed_, "image"), skip_));
    if (malformed_++ == 0) log_.warning("passed over: " + fault);
  }

  std::vector<ImageFile> files_;
  Index skip_;
  const Log& log_;
  std::size_t at_ = 0;
  Index malformed_ = 0;
};

// Numbers by their value, before words by their bytes.
bool stands_before(std::string_view a, std::string_view b) {
  const auto x = parse_integer(a), y = parse_integer(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

LabelIndex sorted(const LabelIndex& labels) {
  std::vector<std::string_view> words;
  for (Index number = 0; number < labels.size(); ++number) words.push_back(labels.label(number));
  std::ranges::sort(words, stands_before);
  LabelIndex all;
  for (const std::string_view word : words) all.add(word);
  return all;
}

struct Listed {
  std::string path;
  std::string label;
};

std::vector<Listed> read_list(const ImageQuery& query, const Log& log) {
  TextOptions how = query.list;
  how.format = TextFormat::named(query.input.extension() == ".tsv" ? "tsv" : "csv");
  how.skip_malformed = 0;
  TextReader text(query.input, how);
  FirstLineCheck first_line(text.first_line());
  std::vector<Listed> lines;
  LabelIndex paths, labels;
  TextRow row;
  while (text.next(row)) {
    const Index before = paths.size();
    if (paths.add(row.example) < before)
      throw DataError(
          fmt::format("{}: image \"{}\" has been on an earlier line; remove one of them",
                      text.place(), row.example));
    if (text.first_line()) first_line.see(row.example, row.features[0]);
    labels.add(row.features[0]);
    lines.push_back({std::string(row.example), std::string(row.features[0])});
  }
  if (const auto doubt = first_line.doubt(paths, labels))
    log.warning(fmt::format("{}: {}", text.name(), *doubt));
  return lines;
}

}  // namespace

std::unique_ptr<ImageSource> open_class_folders(const ImageQuery& query, const Log& log) {
  std::vector<ImageFile> files;
  LabelIndex classes;
  for (const fs::path& folder : visible_entries(query.input)) {
    if (!is_folder(folder))
      throw DataError(
          fmt::format("{}: stands beside the folders of classes; move it into one, or "
                      "elsewhere",
                      folder.string()));
    const std::string name = folder.filename().string();
    const Column label = Column(classes.add(name));
    const Paths entries = visible_entries(folder);
    if (entries.empty())
      throw DataError(
          fmt::format("{}: the folder of a class is empty; remove it, or put its "
                      "images there",
                      folder.string()));
    for (const fs::path& entry : entries) {
      if (is_folder(entry))
        throw DataError(
            fmt::format("{}: is a folder within that of a class; images of a class "
                        "stand in one folder",
                        entry.string()));
      files.push_back({entry, name + "/" + entry.filename().string(), label});
    }
  }
  return std::make_unique<ImageFiles>(std::move(files), std::move(classes), query.skip_malformed,
                                      log);
}

std::unique_ptr<ImageSource> open_image_list(const ImageQuery& query, const Log& log) {
  const std::vector<Listed> lines = read_list(query, log);
  LabelIndex found;
  for (const Listed& line : lines) found.add(line.label);
  LabelIndex classes = sorted(found);
  std::vector<ImageFile> files;
  for (const Listed& line : lines)
    files.push_back(
        {query.input.parent_path() / line.path, line.path, Column(*classes.find(line.label))});
  return std::make_unique<ImageFiles>(std::move(files), std::move(classes), query.skip_malformed,
                                      log);
}

}  // namespace norn
