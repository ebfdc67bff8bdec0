// SPDX-License-Identifier: Apache-2.0
// A temporary file of rows.
#include "row_spill.h"

#include <array>

namespace norn {

RowSpill::RowSpill(const std::filesystem::path& folder, bool valued, bool timed)
    : valued_(valued), timed_(timed), file_(folder, "name another folder with `scratch`") {}

void RowSpill::append(Column example, std::span<const Column> features,
                      std::span<const float> values, std::span<const Microseconds> times) {
  const std::array<Column, 2> head = {example, Column(features.size())};
  file_.write(std::span<const Column>(head));
  file_.write(features);
  if (valued_) file_.write(values);
  if (timed_) file_.write(times);
  ++rows_;
}

void RowSpill::rewind() {
  file_.rewind();
  read_ = 0;
}

bool RowSpill::next(SpilledRow& row) {
  if (read_ == rows_) return false;
  ++read_;
  std::array<Column, 2> head;
  file_.read(std::span<Column>(head));
  features_.resize(head[1]);
  values_.resize(valued_ ? head[1] : 0);
  times_.resize(timed_ ? head[1] : 0);
  file_.read(std::span<Column>(features_));
  file_.read(std::span<float>(values_));
  file_.read(std::span<Microseconds>(times_));
  row = {head[0], features_, values_, times_};
  return true;
}

}  // namespace norn
