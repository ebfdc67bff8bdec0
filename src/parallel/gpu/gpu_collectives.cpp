// SPDX-License-Identifier: Apache-2.0
// Which transport takes a collective, on which stream it goes, and what is traced of it.

#include "src/parallel/gpu/gpu_collectives.h"

#include "src/parallel/gpu/gpu_error.h"

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace norn {
namespace {

template <typename T>
std::vector<Range> in_bytes(std::span<const Range> shares, Index unit = 1) {
  const Index bytes = unit * Index(sizeof(T));
  std::vector<Range> runs;
  for (const Range& share : shares) runs.push_back({bytes * share.begin, bytes * share.end});
  return runs;
}

}  // namespace

GpuCollectives::GpuCollectives(Communicator& ranks, WorkQueue& queue, Memory& memory,
                               std::vector<std::unique_ptr<Transport>> transports)
    : Collectives(ranks), queue_(queue), memory_(memory), transports_(std::move(transports)) {
  const auto check = [this](cudaError_t result, const char* call) {
    check_gpu(this->ranks(), result, call);
  };
  streams_ = std::make_unique<SideStream>(queue, check);
  check(cudaEventCreateWithFlags(&traced_, cudaEventDisableTiming), "cudaEventCreate");
}

GpuCollectives::~GpuCollectives() {
  // After an error the others may never come to what the stream waits for.
  if (std::uncaught_exceptions() > 0) give_up();
  if (!ended_) {
    streams_->drain();
    queue_.drop_graphs();  // transports wait for the end of every graph with their work
  }
  if (traced_) cudaEventDestroy(traced_);
}

std::string GpuCollectives::describe() const {
  std::string text;
  for (auto transport = transports_.rbegin(); transport != transports_.rend(); ++transport)
    text += (text.empty() ? "" : " and ") + (*transport)->describe();
  return text;
}

void GpuCollectives::begin() {
  if (ended_) fail_gpu(ranks(), "a collective", "an earlier one did; end the program");
  streams_->begin();
}

template <typename Ask>
void GpuCollectives::move(const Ask& ask) {
  for (const auto& transport : transports_) {
    std::optional<Transfer> transfer = ask(*transport);
    if (!transfer) continue;
    streams_->send(transfer->send);
    streams_->afterwards(std::move(transfer->unpack));
    return;
  }
  fail_gpu(ranks(), "a collective", "no transport takes it");
}

/// Within a step, whose earlier collectives may wait for a rank that is gone or late.
void GpuCollectives::wait_for_stream() {
  check_gpu(ranks(), cudaEventRecord(traced_, streams_->main()), "cudaEventRecord");
  const auto is_reached = [this] {
    const cudaError_t state = cudaEventQuery(traced_);
    if (state != cudaErrorNotReady) check_gpu(ranks(), state, "cudaEventQuery");
    return state == cudaSuccess;
  };
  try {
    ranks().wait_for(is_reached, "the device's part of a step");
  } catch (...) {
    give_up();
    throw;
  }
}

/// What this rank brings, for runs whose steps are verified; not while a graph is captured.
template <typename T>
void GpuCollectives::trace(MatrixView<T> part) {
  if (!ranks().is_traced()) return;
  wait_for_stream();
  std::vector<std::remove_const_t<T>> host(std::size_t(part.size()));
  const MatrixView<std::remove_const_t<T>> to{host.data(), part.rows, part.cols, part.cols};
  memory_.read_rows(part.data, std::size_t(part.stride) * sizeof(T), to.data,
                    std::size_t(to.stride) * sizeof(T), std::size_t(part.cols) * sizeof(T),
                    std::size_t(part.rows));
  ranks().trace(to);
}

template <typename T>
void GpuCollectives::gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
  begin();
  const Range mine = shares[std::size_t(rank())];
  trace(whole.columns(mine.begin, mine.count()));
  if (whole.empty()) return;
  const auto bytes = Index(sizeof(T));
  const ByteMatrix matrix{reinterpret_cast<std::byte*>(whole.data), whole.rows, whole.cols * bytes,
                          whole.stride * bytes};
  const std::vector<Range> runs = in_bytes<T>(shares);
  move([&](Transport& transport) { return transport.gather_columns(matrix, runs); });
}

void GpuCollectives::do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) {
  gather_columns(whole, shares);
}
void GpuCollectives::do_all_gather_columns(MatrixView<Bfloat16> whole,
                                           std::span<const Range> shares) {
  gather_columns(whole, shares);
}

// Rows lie one after the other: those of a rank are one run of bytes, gaps between them included.
void GpuCollectives::do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) {
  begin();
  const Range mine = shares[std::size_t(rank())];
  trace(whole.row_range(mine.begin, mine.count()));
  if (whole.empty()) return;
  std::vector<Range> runs = in_bytes<float>(shares, whole.stride);
  const Index gap = (whole.stride - whole.cols) * Index(sizeof(float));
  for (Range& run : runs)
    if (run.count() > 0) run.end -= gap;
  auto* const data = reinterpret_cast<std::byte*>(whole.data);
  move([&](Transport& transport) { return transport.gather_rows(data, runs); });
}

void GpuCollectives::do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                               std::span<const Range> shares) {
  begin();
  for (const MatrixView<std::int64_t>& whole : wholes) trace(whole);
  if (wholes[0].empty()) return;
  const std::vector<Range> runs = in_bytes<std::int64_t>(shares);
  move([&](Transport& transport) { return transport.reduce_scatter_columns(wholes, runs); });
}

std::vector<MatrixView<const float>> GpuCollectives::do_exchange_columns(
    std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
    std::span<const Range> shares) {
  begin();
  for (const MatrixView<const float>& matrix : mine) trace(matrix);
  const std::vector<Range> runs = in_bytes<float>(shares);
  std::vector<MatrixView<const float>> received;
  move([&](Transport& transport) {
    return transport.exchange_columns(mine, rows, counts, runs, received);
  });
  return received;
}

void GpuCollectives::do_all_reduce_sum(std::span<std::int64_t> values) {
  begin();
  const Index count = Index(values.size());
  trace(MatrixView<std::int64_t>{values.data(), 1, count, count});
  if (!values.empty()) move([&](Transport& transport) { return transport.all_reduce_sum(values); });
}

void GpuCollectives::do_all_reduce_max(std::span<float> values) {
  begin();
  const Index count = Index(values.size());
  trace(MatrixView<float>{values.data(), 1, count, count});
  if (!values.empty()) move([&](Transport& transport) { return transport.all_reduce_max(values); });
}

bool GpuCollectives::reached(WorkQueue& queue, WorkQueue::Mark mark) {
  if (queue.reached(mark)) return true;
  for (const auto& transport : transports_) transport->check_state();
  return false;
}

void GpuCollectives::give_up() {
  if (ended_) return;
  ended_ = true;
  for (const auto& transport : transports_) transport->give_up();
}

}  // namespace norn
