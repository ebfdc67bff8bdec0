// SPDX-License-Identifier: Apache-2.0
// Collecting and handing out arrays of any shape over ranks, in bounded memory.
#include "src/engine/model/model_arrays.h"

#include "norn/base/error.h"
#include "src/tensor/buffer.h"

#include <algorithm>
#include <type_traits>

namespace norn {
namespace {

constexpr Index kRunBytes = Index(1) << 23;

bool is_float64(const SavedArray& array) {
  return array.tensor->element_bytes == Index(sizeof(double));
}

Index rows_of(const SavedArray& array, std::span<const Range> shares) {
  return array.tensor->layout == Layout::by_unit ? shares.back().end : array.tensor->rows;
}

// body(rows of the run), on every rank.
template <typename Body>
void for_runs(const SavedArray& array, std::span<const Range> shares, const Body& body) {
  const Index rows = rows_of(array, shares);
  const Index row_bytes = std::max<Index>(1, array.tensor->cols * array.tensor->element_bytes);
  const Index run = std::max<Index>(1, kRunBytes / row_bytes);
  for (Index first = 0; first < rows; first += run) body(Range{first, std::min(first + run, rows)});
}

// The rows of each rank within a run, counted from its first one.
std::vector<Range> shares_of_run(std::span<const Range> shares, Range run) {
  std::vector<Range> parts;
  for (const Range& share : shares)
    parts.push_back({std::clamp(share.begin, run.begin, run.end) - run.begin,
                     std::clamp(share.end, run.begin, run.end) - run.begin});
  return parts;
}

// The rows of a run that stand on this rank, and where.
struct OwnPart {
  std::byte* here;   // in the array's memory
  std::byte* there;  // in the run
  std::size_t bytes;
};

OwnPart own_part(const Communicator& communicator, std::span<const Range> shares,
                 const SavedArray& array, Range run, std::byte* rows) {
  const Index row_bytes = array.tensor->cols * array.tensor->element_bytes;
  if (array.tensor->layout == Layout::whole)
    return {array.data + run.begin * row_bytes, rows, std::size_t(run.count() * row_bytes)};
  const Range part = shares_of_run(shares, run)[std::size_t(communicator.rank())];
  const Index first = run.begin + part.begin - shares[std::size_t(communicator.rank())].begin;
  return {part.count() == 0 ? array.data : array.data + first * row_bytes,
          rows + part.begin * row_bytes, std::size_t(part.count() * row_bytes)};
}

template <typename T, typename Take>
void gather(Communicator& communicator, std::span<const Range> shares, const SavedArray& array,
            const Take& take) {
  const Index cols = array.tensor->cols;
  // Words of a float: elements go to other ranks as they stand.
  constexpr Index kWords = std::is_same_v<T, double> ? 2 : 1;
  for_runs(array, shares, [&](Range run) {
    Buffer<T> rows(run.count() * cols);
    const OwnPart own =
        own_part(communicator, shares, array, run, reinterpret_cast<std::byte*>(rows.data()));
    if (own.bytes > 0) array.memory->read(own.here, own.there, own.bytes);
    if (array.tensor->layout == Layout::by_unit)
      communicator.all_gather_rows(MatrixView<float>{reinterpret_cast<float*>(rows.data()),
                                                     run.count(), cols * kWords, cols * kWords},
                                   shares_of_run(shares, run));
    take(run.begin * cols, std::span<const T>(rows.data(), std::size_t(rows.size())));
  });
}

template <typename T, typename Give>
void scatter(Communicator& communicator, std::span<const Range> shares, const SavedArray& array,
             const Give& give) {
  const Index cols = array.tensor->cols;
  for_runs(array, shares, [&](Range run) {
    Buffer<T> rows(run.count() * cols);
    const std::span<T> values(rows.data(), std::size_t(rows.size()));
    if (communicator.rank() == 0) give(run.begin * cols, values);
    communicator.broadcast(std::as_writable_bytes(values), 0);
    const OwnPart own =
        own_part(communicator, shares, array, run, reinterpret_cast<std::byte*>(rows.data()));
    if (own.bytes > 0) array.memory->write(own.here, own.there, own.bytes);
  });
}

}  // namespace

Index whole_size(const SavedArray& array, std::span<const Range> shares) {
  return rows_of(array, shares) * array.tensor->cols;
}

void gather_array(Communicator& communicator, std::span<const Range> shares,
                  const SavedArray& array,
                  const std::function<void(Index first, ConstValues values)>& take) {
  is_float64(array) ? gather<double>(communicator, shares, array, take)
                    : gather<float>(communicator, shares, array, take);
}

void scatter_array(Communicator& communicator, std::span<const Range> shares,
                   const SavedArray& array,
                   const std::function<void(Index first, Values values)>& give) {
  is_float64(array) ? scatter<double>(communicator, shares, array, give)
                    : scatter<float>(communicator, shares, array, give);
}

}  // namespace norn
