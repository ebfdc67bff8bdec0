// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/importer.h"
#include "src/data/image_source.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

/// Makes files of data sets from images and their classes.
namespace norn {

struct ImageImport {
  ImageQuery query;
  std::filesystem::path output;  ///< with parts or a split: stem of output.train.nc and so on
  std::string name;              ///< the sets are <name>_input and <name>_output
  /// What all images become; channels of 0: as they are. Without it all must be of one size.
  std::optional<ImageSize> size;
  SplitRule split;                ///< of whole examples
  bool keep_labels = true;        ///< of classes, in the files; else their checksum alone
  std::filesystem::path scratch;  ///< folder for temporary files; empty: the output's
  std::function<void(const ImportProgress&)> progress;
};

/// The set of images is dense, one byte a unit, [width x height] or [width x height x 3]; that of
/// classes has a number an example. Pixels pass through a temporary file. Existing files stay as
/// they were unless everything was written. Throws DataError and UsageError.
ImportReport import_images(const ImageImport& options, const Log& log);

/// "32x32" or "32x32x3". Throws UsageError.
ImageSize parse_image_size(const std::string& text);

}  // namespace norn
