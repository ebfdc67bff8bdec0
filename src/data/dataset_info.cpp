// SPDX-License-Identifier: Apache-2.0
// Reads what the data sets of a file are, and checks that their items are there.

#include "dataset_items.h"
#include "norn/base/error.h"
#include "src/data/label_check.h"

#include <array>
#include <initializer_list>
#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kMostSets = 10000;
constexpr Index kMostColumns = Index(std::numeric_limits<Column>::max()) + 1;

class InfoReader {
 public:
  /// `earlier`: the sets of the file before this one.
  InfoReader(const NetcdfFile& file, int number, const std::vector<DatasetInfo>& earlier)
      : file_(file), earlier_(earlier) {
    info_.file = file.path();
    info_.number = number;
  }

  DatasetInfo read() {
    read_name();
    read_attributes();
    read_shape();
    read_examples();
    read_storage();
    read_labels();
    info_.unit_labels = unit_labels();
    if (info_.unit_labels.size() > info_.width())
      fail(fmt::format("it has labels of {} features, but is {} wide", info_.unit_labels.size(),
                       info_.width()));
    return info_;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    const std::string where = info_.name.empty() ? fmt::format("{}: data set number {}",
                                                               info_.file.string(), info_.number)
                                                 : place(info_);
    throw DataError(fmt::format("{}: {}; write the file again with importer", where, problem));
  }

  /// The first of several spellings that is there.
  std::optional<Index> natural(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const std::string full = item(name, info_.number);
      const auto value = file_.attribute(full);
      if (!value) continue;
      return std::visit(
          [&](const auto& held) -> Index {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
              fail(fmt::format("attribute {} is text, expected a whole number", full));
            } else {
              const double wide = double(held);
              if (!(wide >= 0 && wide < 9e18) || wide != double(Index(wide))) {
                fail(fmt::format("attribute {} is {}, expected a whole number >= 0", full, held));
              }
              return Index(held);
            }
          },
          *value);
    }
    return std::nullopt;
  }

  Index needed(std::initializer_list<const char*> names) const {
    const auto value = natural(names);
    if (!value) fail(fmt::format("attribute {} is missing", item(*names.begin(), info_.number)));
    return *value;
  }

  Index needed_dimension(const char* name) const {
    const auto size = file_.dimension(item(name, info_.number));
    if (!size) fail(fmt::format("dimension {} is missing", item(name, info_.number)));
    if (*size == 0) {
      fail(fmt::format("dimension {} is 0, expected at least 1", item(name, info_.number)));
    }
    return *size;
  }

  /// A variable of one dimension and this many elements, or with nullopt any number.
  void need_variable(const char* name, std::optional<Index> elements) const {
    const std::string full = item(name, info_.number);
    if (!file_.has_variable(full)) fail(fmt::format("variable {} is missing", full));
    const Index size = file_.size(full);
    const std::size_t dimensions = file_.extent(full).size();
    if (dimensions != 1 || size != elements.value_or(size)) {
      fail(fmt::format("variable {} has {} elements in {} dimensions, expected {}in one", full,
                       size, dimensions, elements ? fmt::format("{} ", *elements) : ""));
    }
    if (file_.type(full) == StoredType::other) {
      fail(fmt::format("variable {} is not of a type of numbers", full));
    }
  }

  void read_name() {
    const auto name = file_.attribute(item("name", info_.number));
    if (!name) fail(fmt::format("attribute {} is missing", item("name", info_.number)));
    if (!std::holds_alternative<std::string>(*name)) {
      fail(fmt::format("attribute {} is a number, expected text", item("name", info_.number)));
    }
    info_.name = std::get<std::string>(*name);
  }

  void read_attributes() {
    const Index bits = needed({"attributes"});
    if ((bits & ~Index(kKnownBits)) != 0) {
      fail(fmt::format("attribute {} is {}, which has unknown bits; known: 1 to 128",
                       item("attributes", info_.number), bits));
    }
    info_.sparse = (bits & kSparseBit) != 0;
    info_.boolean = (bits & kBooleanBit) != 0;
    info_.sparse_ignore_zero = (bits & kIgnoreZeroBit) != 0;
    info_.indexed = (bits & kIndexedBit) != 0;
    info_.weighted = (bits & kWeightedBit) != 0;
    const Index type = needed({"dataType", "datatype"});
    if (type > Index(ElementType::int8)) {
      fail(
          fmt::format("attribute {} is {}, expected 0 to 9", item("dataType", info_.number), type));
    }
    info_.type = ElementType(type);
    info_.kind = std::uint32_t(natural({"kind"}).value_or(0));
  }

  void read_shape() {
    const Index dimensions = needed({"dimensions", "dimension"});
    if (dimensions < 1 || dimensions > 3) {
      fail(fmt::format("attribute {} is {}, expected 1, 2 or 3", item("dimensions", info_.number),
                       dimensions));
    }
    info_.dimensions = int(dimensions);
    constexpr std::array<const char*, 3> kNames = {"width", "height", "length"};
    Index width = 1;
    for (int axis = 0; axis < info_.dimensions; ++axis) {
      const Index extent = needed({kNames[axis]});
      if (extent == 0) {
        fail(fmt::format("attribute {} is 0, expected at least 1",
                         item(kNames[axis], info_.number)));
      }
      if (__builtin_mul_overflow(width, extent, &width) || width > kMostColumns) {
        fail(fmt::format("it is wider than {} units", kMostColumns));
      }
      info_.extent[axis] = extent;
    }
  }

  void read_examples() {
    info_.examples = needed_dimension("examplesDim");
    info_.unique_examples =
        file_.dimension(item("uniqueExamplesDim", info_.number)).value_or(info_.examples);
    if (info_.unique_examples == 0)
      fail(fmt::format("dimension {} is 0, expected at least 1",
                       item("uniqueExamplesDim", info_.number)));
    if (!info_.indexed && info_.unique_examples != info_.examples) {
      fail(fmt::format("it stores {} rows for {} examples, but only an Indexed set shares rows",
                       info_.unique_examples, info_.examples));
    }
    if (info_.indexed) need_variable("index", info_.examples);
    if (info_.weighted) need_variable("dataWeight", info_.examples);
  }

  void read_storage() {
    if (info_.sparse) {
      info_.entries = needed_dimension("sparseDataDim");
      need_variable("sparseStart", info_.unique_examples);
      need_variable("sparseEnd", info_.unique_examples);
      need_variable("sparseIndex", info_.entries);
      if (!info_.boolean) need_variable("sparseData", info_.entries);
      return;
    }
    // Dense and Boolean: one class number an example.
    const Index row = info_.boolean ? 1 : info_.width();
    Index elements = 0;
    if (__builtin_mul_overflow(info_.unique_examples, row, &elements)) {
      fail(fmt::format("its {} rows of {} units are more than a file can hold",
                       info_.unique_examples, row));
    }
    if (info_.boolean) info_.entries = elements;
    need_variable("data", elements);
  }

  void read_labels() {
    info_.own_units = natural({"ownUnits"}).value_or(0) != 0;
    if (const auto shared = natural({"exampleLabelsOf"})) {
      if (*shared >= kMostSets)
        fail(fmt::format("attribute {} is {}, expected the number of a set, below {}",
                         item("exampleLabelsOf", info_.number), *shared, kMostSets));
      info_.label_set = int(*shared);
    }
    const std::string labels = item("exampleLabels", info_.number);
    if (!file_.has_variable(labels)) return;
    info_.label_set = info_.number;
    need_variable("exampleLabelEnd", info_.examples);
    need_variable("exampleLabels", std::nullopt);
    if (file_.type(labels) != StoredType::text)
      fail(fmt::format("variable {} is of type {}, expected char", labels,
                       stored_type_name(file_.type(labels))));
    info_.label_bytes = file_.size(labels);
  }

  LabelTable unit_labels() const {
    if (const auto holder = natural({"featureLabelsOf"})) {
      if (*holder >= Index(earlier_.size()))
        fail(
            fmt::format("its features' labels are said to be those of data set number {}, which "
                        "does not stand before it",
                        *holder));
      return earlier_[std::size_t(*holder)].unit_labels;
    }
    const auto count = natural({"featureLabelCount"});
    if (!count) return {};
    LabelTable::Stored stored;
    stored.count = *count;
    if (natural({"featureLabelsAreNumbers"}).value_or(0) != 0) return {std::move(stored), {}};
    const std::string digest = item("featureLabelDigest", info_.number);
    const auto sha256 = file_.attribute(digest);
    if (!sha256 || !std::holds_alternative<std::string>(*sha256) ||
        std::get<std::string>(*sha256).empty())
      fail(fmt::format("attribute {} is missing", digest));
    stored.sha256 = std::get<std::string>(*sha256);
    const std::string name = item("featureLabels", info_.number);
    if (file_.has_variable(name)) {
      need_variable("featureLabels", std::nullopt);
      stored.line_bytes = needed({"featureLabelLineBytes"});
      stored.packed.resize(std::size_t(file_.size(name)));
      file_.read_bytes(name, 0, stored.packed);
    }
    LabelTable labels(std::move(stored), place(info_));
    if (!file_.is_sealed()) check_labels(labels, place(info_));
    return labels;
  }

  const NetcdfFile& file_;
  const std::vector<DatasetInfo>& earlier_;
  DatasetInfo info_;
};

}  // namespace

bool DatasetInfo::shares_units_with(const DatasetInfo& other) const {
  if (!gives_sparse_batches() || !other.gives_sparse_batches() || width() != other.width())
    return false;
  if (name == other.name) return true;
  if (unit_labels.known() && other.unit_labels.known() && !unit_labels.same_as(other.unit_labels))
    return false;
  return !(own_units || other.own_units);
}

std::string place(const DatasetInfo& info) {
  if (info.file.empty()) return fmt::format("data set \"{}\"", info.name);
  return fmt::format("{}: data set \"{}\"", info.file.string(), info.name);
}

StoredType stored_type(ElementType type) {
  switch (type) {
    case ElementType::uint32:
      return StoredType::uint32;
    case ElementType::int32:
      return StoredType::int32;
    case ElementType::int64:
      return StoredType::int64;
    case ElementType::uint64:
      return StoredType::uint64;
    case ElementType::float32:
      return StoredType::float32;
    case ElementType::float64:
      return StoredType::float64;
    case ElementType::rgb16:
      return StoredType::uint16;
    case ElementType::int8:
      return StoredType::int8;
    case ElementType::rgb8:
    case ElementType::uint8:
      break;
  }
  return StoredType::uint8;
}

double DatasetInfo::density() const {
  if (!gives_sparse_batches()) return 1;
  return double(entries) / (double(unique_examples) * double(width()));
}

std::vector<DatasetInfo> list_datasets(const std::filesystem::path& path) {
  const NetcdfFile file(path, NetcdfFile::Mode::read);
  const auto count = file.attribute("datasets");
  const auto not_ours = [&](const char* problem) {
    return DataError(
        fmt::format("{}: attribute \"datasets\" {}, so this is not a file of data sets; "
                    "make one with importer",
                    path.string(), problem));
  };
  if (!count) throw not_ours("is missing");
  const Index sets = std::visit(
      [](const auto& held) -> Index {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>)
          return -1;
        else
          return held >= 0 && held < kMostSets ? Index(held) : Index(-1);
      },
      *count);
  if (sets < 1) throw not_ours("is not a number of at least 1");
  std::vector<DatasetInfo> infos;
  for (int number = 0; number < sets; ++number)
    infos.push_back(InfoReader(file, number, infos).read());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (infos[i].name == infos[j].name) {
        throw DataError(fmt::format("{}: two data sets are named \"{}\"; names must differ",
                                    path.string(), infos[i].name));
      }
    }
  }
  return infos;
}

std::vector<std::string> read_example_labels(const DatasetInfo& info) {
  if (info.label_set < 0) return {};
  DatasetInfo holder = info;
  if (info.label_set != info.number) {
    const std::vector<DatasetInfo> all = list_datasets(info.file);
    if (info.label_set >= Index(all.size()) || all[info.label_set].label_set != info.label_set ||
        all[info.label_set].examples != info.examples) {
      throw DataError(
          fmt::format("{}: its example labels are said to be those of data set number "
                      "{}, which has none that fit; write the file again with importer",
                      place(info), info.label_set));
    }
    holder = all[info.label_set];
  }
  const NetcdfFile file(info.file, NetcdfFile::Mode::read);
  std::vector<Index> ends(std::size_t(holder.examples));
  std::vector<char> bytes(std::size_t(holder.label_bytes));
  file.read(item("exampleLabelEnd", holder.number), 0, std::span<Index>(ends));
  file.read_bytes(item("exampleLabels", holder.number), 0, bytes);
  std::vector<std::string> labels;
  labels.reserve(ends.size());
  Index begin = 0;
  for (std::size_t example = 0; example < ends.size(); ++example) {
    const Index end = ends[example];
    if (end < begin || end > holder.label_bytes) {
      throw DataError(
          fmt::format("{}: example {}: its label ends at byte {}, expected {} to {}; "
                      "write the file again with importer",
                      place(holder), example, end, begin, holder.label_bytes));
    }
    labels.emplace_back(bytes.data() + begin, std::size_t(end - begin));
    if (labels.back().find('\0') != std::string::npos)
      throw DataError(
          fmt::format("{}: example {}: its label has a byte of zero, which no text has; write the "
                      "file again with importer",
                      place(holder), example));
    begin = end;
  }
  return labels;
}

}  // namespace norn
