// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"
#include "src/tensor/buffer.h"
#include "src/tensor/work_queue.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// How ranks combine what stands in their devices' memory.
namespace norn {

/// The collectives of a step, on memory of the device, in the order of the device's other work: the
/// caller goes on, what is enqueued later sees the result. Every rank calls the same functions in
/// the same order with the same shapes. `shares` are as for Communicator. One rank is the case
/// where they do nothing. Sums are of integers: no grouping changes them.
class Collectives {
 public:
  explicit Collectives(Communicator& ranks) : ranks_(ranks) {}
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }
  /// "NCCL 2.28.3 and peer memory", "through main memory": for logs.
  virtual std::string describe() const = 0;

  /// whole [B x N] becomes complete on every rank: each rank has filled the columns shares[rank()].
  void all_gather_columns(MatrixView<float> whole, std::span<const Range> shares);
  void all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares);
  /// whole [N x M] becomes complete on every rank: each rank has filled the rows shares[rank()].
  void all_gather_rows(MatrixView<float> whole, std::span<const Range> shares);
  /// The same of rows that follow each other without gaps.
  void all_gather_rows(MatrixView<Bfloat16> whole, std::span<const Range> shares);
  /// The columns shares[rank()] of every matrix of `wholes`, [B x N] each, become the sums over all
  /// ranks; the other columns are undefined after.
  void reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                              std::span<const Range> shares);
  /// The rows shares[rank()] of every matrix of `wholes`, [B x N] each and without gaps between its
  /// rows, become the sums over all ranks; the other rows are undefined after.
  void reduce_scatter_rows(std::span<const MatrixView<std::int64_t>> wholes,
                           std::span<const Range> shares);
  /// Whether few partial sums are better exchanged as they are than reduced as accumulators: where
  /// they stand in the memory of devices that reach each other.
  virtual bool exchanges() const { return false; }
  /// The columns shares[rank()] of what the other ranks bring, in rank order: rank r brings
  /// counts[r] matrices [rows x N], this one `mine`. They stand where the next collective puts its
  /// own.
  std::vector<MatrixView<const float>> exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares);
  void all_reduce_sum(std::span<std::int64_t> values);
  /// Of magnitudes: none is negative. A NaN on any rank is the maximum on all.
  void all_reduce_max(std::span<float> values);

  /// Whether collectives can overlap with other work of the device, and may.
  bool overlaps() const { return overlap_allowed_ && size() > 1 && can_overlap(); }
  /// Off: they never do. For measurements.
  void allow_overlap(bool on) { overlap_allowed_ = on; }
  /// The collectives that enqueue() calls overlap with what is enqueued after this, which must
  /// leave alone what they read and write until wait_for_overlapped(). What was enqueued before is
  /// done before them. A collective that is called in between waits for them first. Where they
  /// cannot overlap with other work, they are done in order.
  void overlap(const std::function<void()>& enqueue);
  /// What is enqueued from now on sees what they did.
  void wait_for_overlapped();

  /// Waits until the device has come to `mark`. Throws CommunicationError, as a collective of the
  /// communicator does, when another rank is gone or late; the device's work is given up then.
  void wait(WorkQueue& queue, WorkQueue::Mark mark);
  /// The same for all work so far.
  void wait_for_all(WorkQueue& queue) { wait(queue, queue.mark()); }

 protected:
  Communicator& ranks() const { return ranks_; }

 private:
  virtual void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) = 0;
  virtual void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) = 0;
  virtual void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) = 0;
  virtual void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                         std::span<const Range> shares) = 0;
  virtual std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) = 0;
  virtual void do_all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void do_all_reduce_max(std::span<float> values) = 0;
  /// Whether the device has come to `mark`, or an error of the collectives so far.
  virtual bool reached(WorkQueue& queue, WorkQueue::Mark mark) { return queue.reached(mark); }
  /// What the device still waits for will not come.
  virtual void give_up() {}
  virtual bool can_overlap() const { return false; }
  virtual void do_overlap(const std::function<void()>& enqueue) { enqueue(); }
  virtual void do_wait_for_overlapped() {}
  Communicator& ranks_;
  bool overlap_allowed_ = true;
};

/// For devices that compute in main memory: the communicator's own collectives.
std::unique_ptr<Collectives> make_host_collectives(Communicator& ranks);

/// For a device's `memory`: copied to main memory, combined by the communicator, and copied back.
/// The copies stand in page-locked memory of `queue`. The caller waits for the device, so the queue
/// must make no graphs of them.
std::unique_ptr<Collectives> make_staged_collectives(Communicator& ranks, Memory& memory,
                                                     WorkQueue& queue);

/// Whether this build can combine GPUs' memory directly.
bool has_nccl();
/// For GPUs of which every rank has one of its own, number `device` here, as work of `queue`,
/// packing in `memory`: `peer_memory`, where the GPUs reach each other's, and NCCL. All ranks call
/// it together. Throws CommunicationError when the GPUs cannot be joined.
std::unique_ptr<Collectives> make_gpu_collectives(Communicator& ranks, int device, WorkQueue& queue,
                                                  Memory& memory, bool peer_memory = true);
/// What NCCL's collectives of a step take of a rank's memory, in bytes: workspace for packed shares
/// of the largest of them.
///   rows        of the matrices
///   shares      the units of every rank
///   gathered    bytes of an element of the matrices that are gathered
///   reduced     matrices of a reduce_scatter_columns(); 0: there is none
Index nccl_workspace(Index rows, std::span<const Range> shares, Index gathered, Index reduced);
/// What an exchange_columns() takes of rank 0's memory, in bytes.
Index nccl_exchange_workspace(Index rows, std::span<const Index> counts,
                              std::span<const Range> shares);

}  // namespace norn
