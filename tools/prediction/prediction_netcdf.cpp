// SPDX-License-Identifier: Apache-2.0
// Predictions as a NetCDF data set.
#include "norn/base/error.h"
#include "src/data/dataset_writer.h"
#include "src/data/spool.h"
#include "tools/prediction/prediction_writer.h"

namespace norn::tools {
namespace {

// One batch in the spool: this head, sizes of labels, labels, then sizes, columns and scores of
// rows, or values.
struct Head {
  Index rows = 0;
  Index label_bytes = 0;
  Index entries = 0;  // of sparse rows, or elements of dense ones
};

class NetcdfWriter final : public PredictionWriter {
 public:
  NetcdfWriter(const std::filesystem::path& path, const std::string& name, Index width,
               const LabelTable& labels)
      : path_(path), spool_(path.parent_path(), "write elsewhere") {
    info_.name = name;
    info_.type = ElementType::float32;
    info_.extent = {width, 1, 1};
    info_.unit_labels = labels;
  }

  void write_ranked(std::span<const std::string> labels, const TopK& best,
                    std::span<const Explanation> why) override {
    require(why.empty(), "NetcdfWriter: a data set has no place for what explains its entries");
    info_.sparse = true;
    std::vector<Index> sizes;
    std::vector<Column> columns;
    std::vector<float> scores;
    for (std::size_t r = 0; r < labels.size(); ++r) {
      const Index count = best.count.data()[r];
      sizes.push_back(count);
      for (Index i = 0; i < count; ++i) {
        columns.push_back(Column(best.unit.view()(Index(r), i)));
        scores.push_back(best.score.view()(Index(r), i));
      }
    }
    write_labels(labels, Index(columns.size()));
    spool_.write(std::span<const Index>(sizes));
    spool_.write(std::span<const Column>(columns));
    spool_.write(std::span<const float>(scores));
  }

  void write_values(std::span<const std::string> labels, MatrixView<const float> values) override {
    write_labels(labels, values.size());
    for (Index r = 0; r < values.rows; ++r)
      spool_.write(std::span<const float>(values.row(r), std::size_t(values.cols)));
  }

  void commit() override {
    require(info_.examples > 0, "NetcdfWriter: nothing was predicted");
    info_.unique_examples = info_.examples;
    info_.label_set = 0;
    DatasetWriter file(path_, {info_});
    spool_.rewind();
    for (Index batch = 0; batch < batches_; ++batch) copy_batch(file);
    file.commit();
  }

 private:
  void write_labels(std::span<const std::string> labels, Index entries) {
    Head head{Index(labels.size()), 0, entries};
    std::vector<Index> sizes;
    for (const std::string& label : labels) {
      sizes.push_back(Index(label.size()));
      head.label_bytes += Index(label.size());
    }
    spool_.write(std::span<const Head>(&head, 1));
    spool_.write(std::span<const Index>(sizes));
    for (const std::string& label : labels)
      spool_.write(std::span<const char>(label.data(), label.size()));
    info_.examples += head.rows;
    info_.label_bytes += head.label_bytes;
    if (info_.sparse) info_.entries += entries;
    ++batches_;
  }

  template <typename T>
  std::vector<T> read(Index size) {
    std::vector<T> values(static_cast<std::size_t>(size));
    spool_.read(std::span<T>(values));
    return values;
  }

  void copy_batch(DatasetWriter& file) {
    const Head head = read<Head>(1).front();
    const std::vector<Index> label_sizes = read<Index>(head.rows);
    const std::vector<char> bytes = read<char>(head.label_bytes);
    std::vector<std::string_view> labels;
    std::size_t at = 0;
    for (Index size : label_sizes) {
      labels.emplace_back(bytes.data() + at, std::size_t(size));
      at += std::size_t(size);
    }
    if (info_.sparse) {
      const std::vector<Index> sizes = read<Index>(head.rows);
      const std::vector<Column> columns = read<Column>(head.entries);
      const std::vector<float> scores = read<float>(head.entries);
      file.append_rows(0, sizes, columns, scores);
    } else {
      file.append_values(0, read<float>(head.entries));
    }
    file.append_labels(0, labels);
  }

  std::filesystem::path path_;
  Spool spool_;
  DatasetInfo info_;
  Index batches_ = 0;
};

}  // namespace

std::unique_ptr<PredictionWriter> make_netcdf_writer(const std::filesystem::path& path,
                                                     const std::string& name, Index width,
                                                     const LabelTable& labels) {
  return std::make_unique<NetcdfWriter>(path, name, width, labels);
}

}  // namespace norn::tools
