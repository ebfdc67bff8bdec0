// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"
#include "src/tensor/block_partition.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// How ranks combine what they computed. Nothing is ever summed in floating point across ranks.
namespace norn {

/// What a rank is at, for the messages of collectives that fail.
struct Place {
  const char* work = "beginning";  ///< "training"; the text must live as long as the program
  std::int64_t epoch = 0;          ///< counted from 1; 0: there are none
  std::int64_t batch = 0;          ///< of the epoch, counted from 1; 0: there are none
  /// "training, epoch 2, batch 17".
  std::string text() const;
};

/// Every rank calls the same functions in the same order with the same shapes. One rank is the case
/// where they do nothing. Views are of memory that the communicator's kind can reach (host memory
/// for the members below). `shares` has one range a rank, in rank order, empty ones allowed, and
/// covers the whole extent; anything else throws ShapeError. A collective that does not complete in
/// time throws CommunicationError naming rank, host, place, operation and seconds; after that the
/// communicator cannot be used any more.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "one process", "MPI, 4 ranks": for logs.
  virtual std::string describe() const = 0;

  /// Kept for messages; costs nothing, so every step may say where it stands.
  void set_place(const Place& place) { place_ = place; }
  const Place& place() const { return place_; }
  /// From now on the checksum of what this rank brings to each of the six collectives that follow
  /// is appended to `trace`; null: no longer. One rank brings nothing.
  void set_trace(std::vector<std::uint64_t>* trace) { trace_ = trace; }
  bool is_traced() const { return trace_ != nullptr && size() > 1; }
  /// Appends the checksum of `part` to the trace, if there is one: for collectives that are not
  /// this communicator's own.
  template <typename T>
  void trace(MatrixView<T> part) const;

  /// whole [B x N] becomes complete on every rank: each rank has filled the columns shares[rank()].
  void all_gather_columns(MatrixView<float> whole, std::span<const Range> shares);
  void all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares);
  /// whole [N x M] becomes complete on every rank: each rank has filled the rows shares[rank()].
  void all_gather_rows(MatrixView<float> whole, std::span<const Range> shares);
  /// The columns shares[rank()] of whole [B x N] become the sum over all ranks; the other columns
  /// are undefined after.
  void reduce_scatter_columns(MatrixView<std::int64_t> whole, std::span<const Range> shares);
  /// The columns shares[rank()] of what the other ranks bring, in rank order and without gaps: rank
  /// r brings counts[r] matrices [rows x N], this one `mine`.
  std::vector<float> exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                                      std::span<const Index> counts, std::span<const Range> shares);
  void all_reduce_sum(std::span<std::int64_t> values);
  /// A NaN on any rank is the maximum on all.
  void all_reduce_max(std::span<float> values);
  /// Every rank's bytes, in rank order.
  virtual std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) = 0;
  /// `data` of `root` on every rank; the sizes are equal already.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;

  /// Returns when done() says so; it is asked again and again. Throws as a collective does that
  /// does not complete: the others have to do their part for done() to become true.
  virtual void wait_for(const std::function<bool()>& done, const char* operation) = 0;

  /// True on every rank when it is true on any: for stop requests and errors.
  bool any(bool mine);
  /// Sums in FixedSum's format.
  FixedSum all_reduce(const FixedSum& mine);

 protected:
  /// How messages begin: "rank 1 of 3 on node7 (training, epoch 2, batch 17)".
  std::string where() const;

 private:
  virtual void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) = 0;
  virtual void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) = 0;
  virtual void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) = 0;
  virtual void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                         std::span<const Range> shares) = 0;
  /// `received` has the size that it needs.
  virtual void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                                   std::span<const Index> counts, std::span<const Range> shares,
                                   std::span<float> received) = 0;
  virtual void do_all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void do_all_reduce_max(std::span<float> values) = 0;
  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares);
  Place place_;
  std::vector<std::uint64_t>* trace_ = nullptr;
};

/// One rank: every collective leaves its data as it is.
std::unique_ptr<Communicator> make_single_process();

}  // namespace norn
