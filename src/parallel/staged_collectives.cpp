// SPDX-License-Identifier: Apache-2.0
// Collectives of devices through main memory: for ranks that share a GPU, and builds without NCCL.

#include "shares.h"
#include "src/parallel/collectives.h"

#include <algorithm>
#include <vector>

namespace norn {
namespace {

class StagedCollectives final : public Collectives {
 public:
  StagedCollectives(Communicator& ranks, Memory& memory, WorkQueue& queue)
      : Collectives(ranks), memory_(memory), queue_(queue) {}
  std::string describe() const override { return "through main memory"; }

 private:
  template <typename T>
  static std::size_t bytes_of(Index elements) {
    return std::size_t(elements) * sizeof(T);
  }
  /// Workspace for a copy of a matrix, without gaps between its rows.
  template <typename T>
  MatrixView<T> staged(MatrixView<T> whole) {
    const std::size_t bytes = bytes_of<T>(whole.size());
    if (bytes > workspace_bytes_) {
      // The queue keeps what it has given: few, growing pieces.
      workspace_bytes_ = std::max(bytes, 2 * workspace_bytes_);
      workspace_ = queue_.staging(workspace_bytes_);
    }
    return {static_cast<T*>(workspace_), whole.rows, whole.cols, whole.cols};
  }
  template <typename From, typename T>
  void read(MatrixView<From> from, MatrixView<T> to) const {
    memory_.read_rows(from.data, bytes_of<T>(from.stride), to.data, bytes_of<T>(to.stride),
                      bytes_of<T>(from.cols), std::size_t(from.rows));
  }
  template <typename T>
  void write(MatrixView<T> to, MatrixView<T> from) const {
    memory_.write_rows(to.data, bytes_of<T>(to.stride), from.data, bytes_of<T>(from.stride),
                       bytes_of<T>(from.cols), std::size_t(from.rows));
  }
  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
    const MatrixView<T> copy = staged(whole);
    const Range mine = shares[std::size_t(rank())];
    read(whole.columns(mine.begin, mine.count()), copy.columns(mine.begin, mine.count()));
    ranks().all_gather_columns(copy, shares);
    write(whole, copy);
  }

  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    const MatrixView<float> copy = staged(whole);
    const Range mine = shares[std::size_t(rank())];
    read(whole.row_range(mine.begin, mine.count()), copy.row_range(mine.begin, mine.count()));
    ranks().all_gather_rows(copy, shares);
    write(whole, copy);
  }
  void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                 std::span<const Range> shares) override {
    const Range mine = shares[std::size_t(rank())];
    for (const MatrixView<std::int64_t>& whole : wholes) {
      const MatrixView<std::int64_t> copy = staged(whole);
      read(whole, copy);
      ranks().reduce_scatter_columns(copy, shares);
      write(whole.columns(mine.begin, mine.count()), copy.columns(mine.begin, mine.count()));
    }
  }
  std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) override {
    std::vector<Matrix<float>> copies;
    std::vector<MatrixView<const float>> brought;
    for (const MatrixView<const float>& matrix : mine) {
      Matrix<float>& copy = copies.emplace_back(matrix.rows, matrix.cols);
      if (!matrix.empty()) read(matrix, copy.view());
      brought.push_back(copy.view());
    }
    const std::vector<float> received = ranks().exchange_columns(brought, rows, counts, shares);
    if (received_.size() < Index(received.size()))
      received_ = Buffer<float>(Index(received.size()), memory_);
    if (!received.empty()) received_.write(received.data(), Index(received.size()));
    return packed_matrices(received_.data(), brought_by_others(counts, rank()), rows,
                           shares[std::size_t(rank())].count());
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    std::vector<std::int64_t> copy(values.size());
    memory_.read(values.data(), copy.data(), values.size_bytes());
    ranks().all_reduce_sum(copy);
    memory_.write(values.data(), copy.data(), values.size_bytes());
  }
  void do_all_reduce_max(std::span<float> values) override {
    std::vector<float> copy(values.size());
    memory_.read(values.data(), copy.data(), values.size_bytes());
    ranks().all_reduce_max(copy);
    memory_.write(values.data(), copy.data(), values.size_bytes());
  }

  Memory& memory_;
  WorkQueue& queue_;
  void* workspace_ = nullptr;  // page-locked
  std::size_t workspace_bytes_ = 0;
  Buffer<float> received_;  // of the last exchange, on the device
};

}  // namespace

std::unique_ptr<Collectives> make_staged_collectives(Communicator& ranks, Memory& memory,
                                                     WorkQueue& queue) {
  return std::make_unique<StagedCollectives>(ranks, memory, queue);
}

}  // namespace norn
