// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/label_index.h"
#include "norn/data/text_reader.h"
#include "src/data/image.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// Where an import finds images and their classes: docs/user/formats.md, "Images".
namespace norn {

struct LabelledImage {
  Image image;
  Column label = 0;   ///< number of its class
  std::string name;   ///< of the example
  std::string place;  ///< file, or file and number: how messages begin
};

/// Images one after the other. Throws DataError naming the file for what is damaged.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// False after the last one.
  virtual bool next(LabelledImage& image) = 0;
  /// In the order of their numbers.
  const LabelIndex& classes() const { return classes_; }
  /// Images passed over so far.
  virtual Index malformed() const { return 0; }

 protected:
  LabelIndex classes_;
};

struct ImageQuery {
  std::filesystem::path input;
  std::filesystem::path labels;  ///< idx: those of `input`; empty: found by its name
  TextOptions list;              ///< columns of a list of paths and labels
  Index skip_malformed = 0;      ///< so many images that cannot be decoded are passed over
};

/// What was made to train on and what to test on stand apart: "train" and "test". One without a
/// name otherwise.
struct ImagePart {
  std::string name;
  std::unique_ptr<ImageSource> images;
};

/// Looks at what the input is. Throws DataError, UsageError.
std::vector<ImagePart> open_images(const ImageQuery& query, const Log& log);

using Paths = std::vector<std::filesystem::path>;
/// What a folder holds but for hidden entries, in the order of names.
Paths visible_entries(const std::filesystem::path& folder);
bool holds_folders(const Paths& entries);

/// A folder with a folder of files for each class.
std::unique_ptr<ImageSource> open_class_folders(const ImageQuery& query, const Log& log);
/// Lines of path and label; paths are relative to the list's folder.
std::unique_ptr<ImageSource> open_image_list(const ImageQuery& query, const Log& log);

/// The file of labels that belongs to one of images, by the names of MNIST's files; empty: none.
std::filesystem::path idx_labels_of(const std::filesystem::path& images);
std::unique_ptr<ImageSource> open_idx(const std::filesystem::path& images,
                                      const std::filesystem::path& labels);
/// Files of binary records of CIFAR-10 or CIFAR-100, which of them by their length.
std::unique_ptr<ImageSource> open_cifar(const Paths& files);

}  // namespace norn
