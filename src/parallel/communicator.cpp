// SPDX-License-Identifier: Apache-2.0
// Collectives that are made of the others, the same for every kind of communicator.

#include "src/parallel/communicator.h"

#include "shares.h"
#include "src/base/checksum.h"
#include "src/base/host.h"

#include <array>

#include <fmt/format.h>

namespace norn {

std::string Place::text() const {
  std::string text = work;
  if (epoch > 0) text += fmt::format(", epoch {}", epoch);
  if (batch > 0) text += fmt::format(", batch {}", batch);
  return text;
}

std::string Communicator::where() const {
  return fmt::format("rank {} of {} on {} ({})", rank(), size(), host_name(), place_.text());
}

template <typename T>
void Communicator::trace(MatrixView<T> part) const {
  if (!is_traced()) return;
  // Every row's sum counts from a number of its own, so that rows cannot change places.
  const std::size_t bytes = std::size_t(part.cols) * sizeof(T);
  const std::size_t words = (bytes + sizeof(std::uint32_t) - 1) / sizeof(std::uint32_t);
  std::uint64_t sum = 0;
  for (Index r = 0; r < part.rows; ++r)
    sum += checksum(part.row(r), bytes, std::uint64_t(r) * words);
  trace_->push_back(sum);
}
template void Communicator::trace(MatrixView<float>) const;
template void Communicator::trace(MatrixView<const float>) const;
template void Communicator::trace(MatrixView<Bfloat16>) const;
template void Communicator::trace(MatrixView<std::int64_t>) const;

template <typename T>
void Communicator::gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.cols);
  const Range mine = shares[std::size_t(rank())];
  trace(whole.columns(mine.begin, mine.count()));
  do_all_gather_columns(whole, shares);
}

void Communicator::all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) {
  gather_columns(whole, shares);
}

void Communicator::all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) {
  gather_columns(whole, shares);
}

void Communicator::all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) {
  check_shares(shares, size(), whole.rows);
  const Range mine = shares[std::size_t(rank())];
  trace(whole.row_range(mine.begin, mine.count()));
  do_all_gather_rows(whole, shares);
}

void Communicator::reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                          std::span<const Range> shares) {
  check_shares(shares, size(), whole.cols);
  trace(whole);
  do_reduce_scatter_columns(whole, shares);
}

std::vector<float> Communicator::exchange_columns(std::span<const MatrixView<const float>> mine,
                                                  Index rows, std::span<const Index> counts,
                                                  std::span<const Range> shares) {
  check_exchange(mine, rows, counts, shares, rank(), size());
  for (const MatrixView<const float>& matrix : mine) trace(matrix);
  std::vector<float> received(
      std::size_t(brought_by_others(counts, rank()) * rows * shares[std::size_t(rank())].count()));
  do_exchange_columns(mine, rows, counts, shares, received);
  return received;
}

void Communicator::all_reduce_sum(std::span<std::int64_t> values) {
  const Index size = Index(values.size());
  trace(MatrixView<std::int64_t>{values.data(), 1, size, size});
  do_all_reduce_sum(values);
}

void Communicator::all_reduce_max(std::span<float> values) {
  const Index size = Index(values.size());
  trace(MatrixView<float>{values.data(), 1, size, size});
  do_all_reduce_max(values);
}

bool Communicator::any(bool mine) {
  std::array<std::int64_t, 1> count{mine ? 1 : 0};
  all_reduce_sum(count);
  return count[0] != 0;
}

FixedSum Communicator::all_reduce(const FixedSum& mine) {
  std::array<std::int64_t, 3> words{mine.high(), mine.low(), mine.magnitude()};
  all_reduce_sum(words);
  return FixedSum::from_words(words[0], words[1], words[2]);
}

}  // namespace norn
