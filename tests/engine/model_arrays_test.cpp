// SPDX-License-Identifier: Apache-2.0
// Arrays of any shape in files: written by some ranks, read by others.

#include "src/engine/model/model_arrays.h"

#include "src/data/tensor_file.h"
#include "tests/data/support.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

// Units of every rank, some of them with none.
std::vector<Range> draw_shares(std::mt19937& random, int ranks, Index units) {
  std::vector<Index> ends = {0, units};
  for (int r = 1; r < ranks; ++r) ends.push_back(Index(random() % std::uint64_t(units + 1)));
  std::sort(ends.begin(), ends.end());
  std::vector<Range> shares;
  for (int r = 0; r < ranks; ++r)
    shares.push_back({ends[std::size_t(r)], ends[std::size_t(r) + 1]});
  return shares;
}

template <typename T>
class ModelArrays : public ::testing::Test {};
using Elements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ModelArrays, Elements);

// A rank's part of an array.
template <typename T>
struct Part {
  HeldMatrix<T> matrix;
  Part(const Tensor& whole, Range mine, Memory& memory)
      : matrix("array", Purpose::state, whole.layout == Layout::whole ? whole.rows : mine.count(),
               whole.cols, whole.layout) {
    matrix.allocate(memory);
  }
  SavedArray saved() { return {&matrix.tensor(), matrix.address(), &host_memory()}; }
  std::size_t bytes() const { return std::size_t(matrix.tensor().bytes()); }
};

TYPED_TEST(ModelArrays, ComeBackOnAnyNumberOfRanks) {
  using T = TypeParam;
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (Layout layout : {Layout::whole, Layout::by_unit})
    for (const auto& shape : std::vector<std::pair<Index, Index>>{
             {1, 1}, {33, 1}, {129, 7}, {700, 70}, {3, 1'500'000}}) {
      const Index rows = shape.first, cols = shape.second;  // lambdas below take them
      const Tensor whole{"array",           Purpose::state,  rows, cols, layout,
                         element_name<T>(), Index(sizeof(T))};
      std::vector<T> values(std::size_t(rows * cols));
      for (T& value : values) value = T(double(std::int32_t(random())) * 1e-3);
      const TempDir folder;
      const int writers = 1 + int(random() % 4), readers = 1 + int(random() % 4);
      const std::vector<Range> from = draw_shares(random, writers, rows);
      const std::vector<Range> to = draw_shares(random, readers, rows);
      const auto own = [&](const std::vector<Range>& shares, int rank) {
        const Range mine = layout == Layout::whole ? Range{0, rows} : shares[std::size_t(rank)];
        return std::pair(values.data() + mine.begin * cols, mine);
      };
      run_thread_group(writers, [&](Communicator& communicator) {
        const auto [first, mine] = own(from, communicator.rank());
        Part<T> part(whole, mine, host_memory());
        if (part.bytes() > 0) std::memcpy(part.matrix.address(), first, part.bytes());
        std::unique_ptr<TensorFileWriter> file;
        if (communicator.rank() == 0) {
          file = std::make_unique<TensorFileWriter>(folder / "x.nc");
          const Index size = whole_size(part.saved(), from);
          EXPECT_EQ(size, rows * cols);
          sizeof(T) == 8 ? file->define_double("a", "aDim", size)
                         : file->define_float("a", "aDim", size);
        }
        gather_array(communicator, from, part.saved(), [&](Index at, ConstValues run) {
          const auto seen = std::get<std::span<const T>>(run);
          EXPECT_EQ(std::memcmp(seen.data(), values.data() + at, seen.size_bytes()), 0);
          if (file) file->write("a", at, seen);
        });
        if (file) file->commit();
      });
      run_thread_group(readers, [&](Communicator& communicator) {
        const auto [first, mine] = own(to, communicator.rank());
        Part<T> part(whole, mine, host_memory());
        std::unique_ptr<TensorFileReader> file;
        if (communicator.rank() == 0) file = std::make_unique<TensorFileReader>(folder / "x.nc");
        scatter_array(communicator, to, part.saved(), [&](Index at, Values run) {
          file->read("a", at, std::get<std::span<T>>(run));
        });
        if (part.bytes() == 0) return;
        EXPECT_EQ(std::memcmp(part.matrix.address(), first, part.bytes()), 0);
      });
    }
}

}  // namespace
}  // namespace norn::test
