// SPDX-License-Identifier: Apache-2.0
// Which kind of images an input is.
#include "norn/base/error.h"
#include "packed_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/data/image_decoders.h"
#include "src/data/image_source.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

bool is_cifar(const fs::path& file) {
  return file.extension() == ".bin";
}

// A test set says so in its name, or has a name of MNIST's.
std::string part_of(const fs::path& file) {
  const std::string name = lower_case(file.filename().string());
  return name.starts_with("t10k") || name.find("test") != std::string::npos ? "test" : "train";
}

// Parts that are there, under their names when there are several.
std::vector<ImagePart> named(std::vector<ImagePart> parts) {
  if (parts.size() == 1) parts[0].name.clear();
  return parts;
}

std::vector<std::uint8_t> first_bytes(const fs::path& path) {
  std::vector<std::uint8_t> bytes(8);
  PackedFile file(path);
  bytes.resize(file.read(reinterpret_cast<char*>(bytes.data()), bytes.size()));
  return bytes;
}

std::vector<ImagePart> open_cifar_folder(const Paths& files) {
  std::vector<ImagePart> parts;
  for (const char* name : {"train", "test"}) {
    Paths of_part;
    std::ranges::copy_if(files, std::back_inserter(of_part),
                         [&](const fs::path& file) { return part_of(file) == name; });
    if (!of_part.empty()) parts.push_back({name, open_cifar(of_part)});
  }
  return named(std::move(parts));
}

std::vector<ImagePart> open_idx_folder(const Paths& files) {
  std::vector<ImagePart> parts;
  for (const char* name : {"train", "test"}) {
    const fs::path* images = nullptr;
    for (const fs::path& file : files) {
      if (part_of(file) != name) continue;
      if (images)
        throw UsageError(fmt::format("`input` {}: holds {} and {}; name the file itself",
                                     file.parent_path().string(), images->filename().string(),
                                     file.filename().string()));
      images = &file;
    }
    if (images) parts.push_back({name, open_idx(*images, idx_labels_of(*images))});
  }
  return named(std::move(parts));
}

std::vector<ImagePart> open_folder(const ImageQuery& query, const Log& log) {
  const Paths entries = visible_entries(query.input);
  if (holds_folders(entries)) {
    std::vector<ImagePart> parts;
    parts.push_back({"", open_class_folders(query, log)});
    return parts;
  }
  Paths cifar, idx;
  std::ranges::copy_if(entries, std::back_inserter(cifar), is_cifar);
  std::ranges::copy_if(entries, std::back_inserter(idx),
                       [](const fs::path& file) { return !idx_labels_of(file).empty(); });
  if (!cifar.empty()) return open_cifar_folder(cifar);
  if (!idx.empty()) return open_idx_folder(idx);
  throw DataError(fmt::format(
      "{}: {}; put each class's images into a folder of its own, "
      "named for the class",
      query.input.string(), entries.empty() ? "the folder is empty" : "holds no folders"));
}

}  // namespace

Paths visible_entries(const fs::path& folder) {
  std::error_code problem;
  Paths entries = entries_of(folder, problem);
  if (problem)
    throw DataError(fmt::format("{}: cannot list the folder: {}; check its permissions",
                                folder.string(), problem.message()));
  std::erase_if(entries,
                [](const fs::path& entry) { return entry.filename().string().starts_with('.'); });
  std::ranges::sort(entries);
  return entries;
}

bool holds_folders(const Paths& entries) {
  return std::ranges::any_of(entries, is_folder);
}

std::vector<ImagePart> open_images(const ImageQuery& query, const Log& log) {
  const std::string input = query.input.string();
  if (!path_exists(query.input))
    throw DataError(fmt::format("{}: no such file or folder; check the path", input));
  if (is_folder(query.input)) {
    if (!query.labels.empty())
      throw UsageError(
          fmt::format("`target` {}: goes with one file of idx images, and `input` is a "
                      "folder; leave it out",
                      query.labels.string()));
    return open_folder(query, log);
  }
  const std::vector<std::uint8_t> begin = first_bytes(query.input);
  if (is_png(begin) || is_jpeg(begin))
    throw DataError(
        fmt::format("{}: is one image; name a folder with a folder of images for each "
                    "class, or a list of paths and labels",
                    input));
  const fs::path found = idx_labels_of(query.input);
  const bool begins_as_idx = begin.size() >= 2 && begin[0] == 0 && begin[1] == 0;
  const bool named_as_idx = !query.labels.empty() || !found.empty();
  std::vector<ImagePart> parts;
  if (is_cifar(query.input) && !named_as_idx)
    parts.push_back({"", open_cifar({query.input})});
  else if (named_as_idx || begins_as_idx)
    parts.push_back({"", open_idx(query.input, query.labels.empty() ? found : query.labels)});
  else
    parts.push_back({"", open_image_list(query, log)});
  return parts;
}

}  // namespace norn
