// SPDX-License-Identifier: Apache-2.0
// Checksums of data sets and of files, a part at a time.
#include "src/data/contents_checksum.h"

#include "norn/base/error.h"
#include "src/base/checksum.h"
#include "src/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr Index kPartEntries = Index(1) << 20;  // about, read at a time
constexpr std::size_t kFilePart = std::size_t(1) << 22;

// Sums over words whose positions do not overlap, so that no two of them can be exchanged.
class Sum {
 public:
  enum class Of : std::uint64_t { facts, lengths, columns, values, examples };
  template <typename T>
  void add(Of what, Index position, const T* values, Index count) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    constexpr Index kWords = sizeof(T) == 4 ? 1 : 2;
    const std::uint64_t first = (std::uint64_t(what) << 60) + std::uint64_t(position * kWords);
    sum_ += checksum(values, std::size_t(count) * sizeof(T), first);
  }
  std::uint64_t value() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

void add_rows(Dataset& set, Index parts, Sum& sum) {
  const DatasetInfo& info = set.info();
  const double per_row = std::max(
      1.0, info.gives_sparse_batches() ? double(set.row_entries()) / double(info.unique_examples)
                                       : double(info.width()));
  const Index part = std::clamp(Index(double(kPartEntries) / per_row), Index(1), kPartEntries);
  const Index all = (info.unique_examples + part - 1) / part;
  const Index step = part * std::max<Index>(1, all / parts + (all % parts != 0));
  HostBatch batch;
  std::vector<RowOffset> ends;
  Index entries = 0;
  for (Index first = 0; first < info.unique_examples; first += step) {
    const Index rows = std::min(part, info.unique_examples - first);
    set.read_rows(first, rows, batch);
    if (!batch.is_sparse) {
      for (Index r = 0; r < rows; ++r)
        sum.add(Sum::Of::values, (first + r) * info.width(), batch.matrix().row(r), info.width());
      continue;
    }
    const CsrView csr = batch.csr();
    const RowOffset begin = csr.row_begin[0];
    const Index count = Index(csr.row_begin[rows] - begin);
    ends.clear();
    for (Index r = 0; r < rows; ++r) ends.push_back(csr.row_begin[r + 1] - begin + entries);
    sum.add(Sum::Of::lengths, first, ends.data(), rows);
    sum.add(Sum::Of::columns, entries, csr.column + begin, count);
    if (csr.value) sum.add(Sum::Of::values, entries, csr.value + begin, count);
    entries += count;
  }
}

// Rows that examples share, and weights.
void add_examples(Dataset& set, Sum& sum) {
  const DatasetInfo& info = set.info();
  if (!info.indexed && !info.weighted) return;
  HostBatch batch;
  std::vector<Index> examples;
  for (Index first = 0; first < info.examples; first += kPartEntries) {
    examples.resize(std::size_t(std::min(kPartEntries, info.examples - first)));
    std::iota(examples.begin(), examples.end(), first);
    set.locate(examples, batch);
    sum.add(Sum::Of::examples, first, batch.row.data(), Index(batch.row.size()));
    // Behind the rows' numbers, of which each is two words.
    sum.add(Sum::Of::examples, 2 * info.examples + first, batch.weight.data(),
            Index(batch.weight.size()));
  }
}

}  // namespace

std::uint64_t contents_checksum(Dataset& set, Index parts) {
  const DatasetInfo& info = set.info();
  Sum sum;
  const std::int64_t facts[] = {
      info.examples, info.unique_examples, info.extent[0], info.extent[1], info.extent[2],
      info.sparse,   info.boolean,         info.indexed,   info.weighted,  info.sparse_ignore_zero};
  sum.add(Sum::Of::facts, 0, facts, Index(std::size(facts)));
  add_rows(set, parts, sum);
  add_examples(set, sum);
  return sum.value();
}

std::uint64_t file_checksum(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> part(kFilePart);
  std::uint64_t sum = 0;
  std::uint64_t at = 0;
  while (in) {
    in.read(part.data(), std::streamsize(part.size()));
    const auto count = std::size_t(in.gcount());
    sum += checksum(part.data(), count, at / sizeof(std::uint32_t));
    at += count;
  }
  if (!in.eof() || is_folder(file))
    throw DataError(fmt::format("{}: cannot be read: {}", file.string(), std::strerror(errno)));
  // The length too: words that are not whole are filled up with zeros.
  return sum + checksum(&at, sizeof(at), std::uint64_t(1) << 60);
}

std::string checksum_text(std::uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

}  // namespace norn
