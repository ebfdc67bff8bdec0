// SPDX-License-Identifier: Apache-2.0
// What all collectives of devices share, and those of devices that compute in main memory.

#include "src/parallel/collectives.h"

#include "norn/base/error.h"
#include "shares.h"

#include <algorithm>

namespace norn {

void Collectives::all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.cols);
  if (size() > 1) do_all_gather_columns(whole, shares);
}

void Collectives::all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.cols);
  if (size() > 1) do_all_gather_columns(whole, shares);
}

void Collectives::all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.rows);
  if (size() > 1) do_all_gather_rows(whole, shares);
}

namespace {

// Rows without gaps as one row, of which ranks share out the elements as they do the rows.
template <typename T>
MatrixView<T> flat(MatrixView<T> rows) {
  require(rows.stride == rows.cols || rows.rows <= 1,
          "collectives: rows that are shared out must follow each other without gaps");
  return {rows.data, 1, rows.size(), rows.size()};
}
std::vector<Range> flat(std::span<const Range> shares, Index cols) {
  std::vector<Range> elements;
  for (const Range& share : shares) elements.push_back({share.begin * cols, share.end * cols});
  return elements;
}

}  // namespace

void Collectives::all_gather_rows(MatrixView<Bfloat16> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.rows);
  all_gather_columns(flat(whole), flat(shares, whole.cols));
}

void Collectives::reduce_scatter_rows(std::span<const MatrixView<std::int64_t>> wholes,
                                      std::span<const Range> shares) {
  std::vector<MatrixView<std::int64_t>> rows;
  for (const MatrixView<std::int64_t>& whole : wholes) {
    check_shares(shares, size(), whole.rows);
    rows.push_back(flat(whole));
  }
  if (!wholes.empty()) reduce_scatter_columns(rows, flat(shares, wholes[0].cols));
}

void Collectives::reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                         std::span<const Range> shares) {
  for (const MatrixView<std::int64_t>& whole : wholes) {
    check_shares(shares, size(), whole.cols);
    require(whole.rows == wholes[0].rows, "collectives: matrices of a sum must have equal shapes");
  }
  if (size() > 1 && !wholes.empty()) do_reduce_scatter_columns(wholes, shares);
}

std::vector<MatrixView<const float>> Collectives::exchange_columns(
    std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
    std::span<const Range> shares) {
  check_exchange(mine, rows, counts, shares, rank(), size());
  if (size() == 1) return {};
  return do_exchange_columns(mine, rows, counts, shares);
}

void Collectives::all_reduce_sum(std::span<std::int64_t> values) {
  if (size() > 1) do_all_reduce_sum(values);
}

void Collectives::all_reduce_max(std::span<float> values) {
  if (size() > 1) do_all_reduce_max(values);
}

void Collectives::overlap(const std::function<void()>& enqueue) {
  overlaps() ? do_overlap(enqueue) : enqueue();
}

void Collectives::wait_for_overlapped() {
  if (overlaps()) do_wait_for_overlapped();
}

void Collectives::wait(WorkQueue& queue, WorkQueue::Mark mark) {
  if (size() == 1) return queue.wait(mark);
  try {
    ranks_.wait_for([&] { return reached(queue, mark); }, "the device's part of a step");
  } catch (...) {
    give_up();
    throw;
  }
}

Index nccl_workspace(Index rows, std::span<const Range> shares, Index gathered, Index reduced) {
  Index largest = 0;
  int owners = 0;
  for (const Range& share : shares) {
    largest = std::max(largest, share.count());
    owners += share.count() > 0;
  }
  const Index elements = Index(shares.size()) * rows * largest;
  const Index gather = owners > 1 ? gathered : 0;  // what one rank has is sent from where it is
  return elements * std::max(gather, reduced * Index(sizeof(std::int64_t)));
}

Index nccl_exchange_workspace(Index rows, std::span<const Index> counts,
                              std::span<const Range> shares) {
  Index columns = 0;
  for (std::size_t r = 1; r < shares.size(); ++r)
    columns += counts[0] * shares[r].count() + counts[r] * shares[0].count();
  return rows * columns * Index(sizeof(float));
}

namespace {

class HostCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  std::string describe() const override { return "in main memory"; }

 private:
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    ranks().all_gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    ranks().all_gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    ranks().all_gather_rows(whole, shares);
  }
  void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                 std::span<const Range> shares) override {
    for (const MatrixView<std::int64_t>& whole : wholes)
      ranks().reduce_scatter_columns(whole, shares);
  }
  std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) override {
    received_ = ranks().exchange_columns(mine, rows, counts, shares);
    return packed_matrices(received_.data(), brought_by_others(counts, rank()), rows,
                           shares[std::size_t(rank())].count());
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    ranks().all_reduce_sum(values);
  }
  void do_all_reduce_max(std::span<float> values) override { ranks().all_reduce_max(values); }

  std::vector<float> received_;  // of the last exchange
};

}  // namespace

std::unique_ptr<Collectives> make_host_collectives(Communicator& ranks) {
  return std::make_unique<HostCollectives>(ranks);
}

}  // namespace norn
