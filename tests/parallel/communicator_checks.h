// SPDX-License-Identifier: Apache-2.0
// What every kind of communicator must do: each check is called by all ranks of one group, with the
// same seed, and throws when a rank sees something else than the expected values.
#pragma once

#include "norn/base/error.h"
#include "src/base/bfloat16.h"
#include "src/base/philox.h"
#include "src/parallel/communicator.h"
#include "src/tensor/buffer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace norn::checks {

inline void expect(bool holds, const Communicator& ranks, const std::string& what) {
  if (holds) return;
  throw std::runtime_error("rank " + std::to_string(ranks.rank()) + " of " +
                           std::to_string(ranks.size()) + ": " + what);
}

/// Ways to cut [0, extent): even, everything on one rank, some ranks without any, random.
inline std::vector<std::vector<Range>> cuts(int ranks, Index extent, std::uint64_t seed) {
  const Philox random = Philox::stream(seed, RandomPurpose::test);
  std::vector<std::vector<Index>> ends;
  std::vector<Index> even, last, every_other, drawn;
  for (int r = 0; r < ranks; ++r) {
    even.push_back(extent * (r + 1) / ranks);
    last.push_back(r + 1 == ranks ? extent : 0);
    every_other.push_back(r + 1 == ranks ? extent : extent * (r / 2 * 2 + 1) / (ranks + 1));
    drawn.push_back(r + 1 == ranks ? extent
                                   : Index(random.word(0, std::uint64_t(r)) % (extent + 1)));
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<std::vector<Range>> all;
  for (const auto& cut : {even, last, every_other, drawn}) {
    std::vector<Range> shares;
    Index begin = 0;
    for (Index end : cut) {
      shares.push_back({begin, end});
      begin = end;
    }
    all.push_back(shares);
  }
  return all;
}

struct Shape {
  Index rows;
  Index cols;
  Index padding;  ///< elements between cols and the stride
};
inline constexpr std::array kShapes = {Shape{0, 5, 0},   Shape{1, 1, 0},   Shape{3, 0, 2},
                                       Shape{7, 5, 3},   Shape{33, 64, 0}, Shape{64, 129, 7},
                                       Shape{2, 1000, 1}};

enum class Axis { rows, columns };

inline void gather(Communicator& ranks, std::uint64_t seed, Axis axis) {
  constexpr float kPadding = -77;
  for (const Shape& shape : kShapes) {
    for (const auto& shares :
         cuts(ranks.size(), axis == Axis::rows ? shape.rows : shape.cols, seed)) {
      const Index stride = shape.cols + shape.padding;
      std::vector<float> data(std::size_t(shape.rows * stride), kPadding);
      const MatrixView<float> whole{data.data(), shape.rows, shape.cols, stride};
      const Philox random = Philox::stream(seed, RandomPurpose::test, 1);
      const Range mine = shares[std::size_t(ranks.rank())];
      for (Index r = 0; r < whole.rows; ++r) {
        for (Index c = 0; c < whole.cols; ++c) {
          const Index at = axis == Axis::rows ? r : c;
          const bool own = at >= mine.begin && at < mine.end;
          whole(r, c) = own ? random.uniform(std::uint64_t(r), std::uint64_t(c))
                            : std::numeric_limits<float>::quiet_NaN();
        }
      }
      if (axis == Axis::rows) {
        ranks.all_gather_rows(whole, shares);
      } else {
        ranks.all_gather_columns(whole, shares);
      }
      for (Index r = 0; r < whole.rows; ++r) {
        for (Index c = 0; c < stride; ++c) {
          const float expected =
              c < whole.cols ? random.uniform(std::uint64_t(r), std::uint64_t(c)) : kPadding;
          expect(data[std::size_t(r * stride + c)] == expected, ranks, "wrong element gathered");
        }
      }
    }
  }
}

inline void all_gather_columns(Communicator& ranks, std::uint64_t seed) {
  gather(ranks, seed, Axis::columns);
}

inline void all_gather_bf16_columns(Communicator& ranks, std::uint64_t) {
  const auto value = [](Index r, Index c) { return Bfloat16{std::uint16_t(1000 * r + c)}; };
  for (const Shape& shape : kShapes) {
    for (const auto& shares : cuts(ranks.size(), shape.cols, 5)) {
      const Index stride = shape.cols + shape.padding;
      std::vector<Bfloat16> data(std::size_t(shape.rows * stride), Bfloat16{0xBEEF});
      const MatrixView<Bfloat16> whole{data.data(), shape.rows, shape.cols, stride};
      const Range mine = shares[std::size_t(ranks.rank())];
      for (Index r = 0; r < whole.rows; ++r)
        for (Index c = mine.begin; c < mine.end; ++c) whole(r, c) = value(r, c);
      ranks.all_gather_columns(whole, shares);
      for (Index r = 0; r < whole.rows; ++r)
        for (Index c = 0; c < stride; ++c)
          expect(whole(r, c).bits == (c < whole.cols ? value(r, c) : Bfloat16{0xBEEF}).bits, ranks,
                 "wrong columns");
    }
  }
}

inline void all_gather_rows(Communicator& ranks, std::uint64_t seed) {
  gather(ranks, seed, Axis::rows);
}

inline void reduce_scatter_columns(Communicator& ranks, std::uint64_t seed) {
  const auto term = [seed](int rank, Index r, Index c) {
    const Philox random = Philox::stream(seed, RandomPurpose::test, std::uint32_t(2 + rank));
    const Philox::Block block = random.block(std::uint64_t(r), std::uint64_t(c));
    // A few bits below the largest, so that the sum of some ranks still fits.
    return std::int64_t(std::uint64_t(block.word[0]) << 32 | block.word[1]) / 16;
  };
  for (const Shape& shape : kShapes) {
    for (const auto& shares : cuts(ranks.size(), shape.cols, seed)) {
      const Index stride = shape.cols + shape.padding;
      std::vector<std::int64_t> data(std::size_t(shape.rows * stride), -77);
      const MatrixView<std::int64_t> whole{data.data(), shape.rows, shape.cols, stride};
      for (Index r = 0; r < whole.rows; ++r) {
        for (Index c = 0; c < whole.cols; ++c) whole(r, c) = term(ranks.rank(), r, c);
      }
      ranks.reduce_scatter_columns(whole, shares);
      const Range mine = shares[std::size_t(ranks.rank())];
      for (Index r = 0; r < whole.rows; ++r) {
        for (Index c = mine.begin; c < mine.end; ++c) {
          std::int64_t expected = 0;
          for (int rank = 0; rank < ranks.size(); ++rank) expected += term(rank, r, c);
          expect(whole(r, c) == expected, ranks, "wrong sum");
        }
        for (Index c = whole.cols; c < stride; ++c) {
          expect(data[std::size_t(r * stride + c)] == -77, ranks, "padding was overwritten");
        }
      }
    }
  }
}

/// Rank r brings r matrices of random numbers.
inline void exchange_columns(Communicator& ranks, std::uint64_t seed) {
  const auto value = [seed](int rank, Index matrix, Index r, Index c) {
    const Philox random = Philox::stream(seed, RandomPurpose::test, std::uint32_t(100 + rank));
    return random.uniform(std::uint64_t(r), std::uint64_t(1000 * matrix + c));
  };
  for (const Shape& shape : kShapes) {
    for (const auto& shares : cuts(ranks.size(), shape.cols, seed)) {
      const Index stride = shape.cols + shape.padding;
      std::vector<Index> counts;
      for (int r = 0; r < ranks.size(); ++r) counts.push_back(r);
      std::vector<std::vector<float>> data(std::size_t(ranks.rank()));
      std::vector<MatrixView<const float>> mine;
      for (std::vector<float>& one : data) {
        one.resize(std::size_t(shape.rows * stride), -77.0f);
        const MatrixView<float> matrix{one.data(), shape.rows, shape.cols, stride};
        for (Index r = 0; r < shape.rows; ++r)
          for (Index c = 0; c < shape.cols; ++c)
            matrix(r, c) = value(ranks.rank(), Index(mine.size()), r, c);
        mine.push_back(matrix);
      }
      const std::vector<float> received = ranks.exchange_columns(mine, shape.rows, counts, shares);
      const Range own = shares[std::size_t(ranks.rank())];
      std::size_t at = 0;
      for (int rank = 0; rank < ranks.size(); ++rank)
        for (Index m = 0; rank != ranks.rank() && m < rank; ++m)
          for (Index r = 0; r < shape.rows; ++r)
            for (Index c = own.begin; c < own.end; ++c, ++at)
              expect(at < received.size() && received[at] == value(rank, m, r, c), ranks,
                     "wrong element exchanged");
      expect(at == received.size(), ranks, "more than was brought");
    }
  }
}

inline void all_reduce_sum(Communicator& ranks, std::uint64_t) {
  for (std::int64_t size : {0, 1, 3, 1000, 20000}) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < size; ++i) values.push_back((ranks.rank() + 1) * (i - 500));
    ranks.all_reduce_sum(values);
    const std::int64_t weight = std::int64_t(ranks.size()) * (ranks.size() + 1) / 2;
    for (std::int64_t i = 0; i < size; ++i) {
      expect(values[std::size_t(i)] == weight * (i - 500), ranks, "wrong sum");
    }
  }
}

inline void all_reduce_max(Communicator& ranks, std::uint64_t) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float mine = float(ranks.rank());
  std::vector<float> values = {mine, -mine, -1000 + mine, -kInfinity, mine == 0 ? kInfinity : 0.5f};
  ranks.all_reduce_max(values);
  const float last = float(ranks.size() - 1);
  expect(values == std::vector<float>{last, 0, -1000 + last, -kInfinity, kInfinity}, ranks,
         "wrong maximum");
  // One NaN, on the last rank, is the maximum on all.
  const bool is_last = ranks.rank() == ranks.size() - 1;
  std::vector<float> with_nan = {is_last ? std::numeric_limits<float>::quiet_NaN() : kInfinity};
  ranks.all_reduce_max(with_nan);
  expect(std::isnan(with_nan[0]), ranks, "a NaN was lost");
}

inline void gather_to_all(Communicator& ranks, std::uint64_t) {
  for (int factor : {0, 1, 5000}) {  // rank 0 brings nothing
    const auto content = [factor](int rank) {
      return std::vector<std::byte>(std::size_t(rank * factor), std::byte(rank + 1));
    };
    const auto all = ranks.gather_to_all(content(ranks.rank()));
    expect(int(all.size()) == ranks.size(), ranks, "wrong number of parts");
    for (int rank = 0; rank < ranks.size(); ++rank) {
      expect(all[std::size_t(rank)] == content(rank), ranks, "wrong bytes");
    }
  }
}

inline void broadcast(Communicator& ranks, std::uint64_t) {
  for (int root = 0; root < ranks.size(); ++root) {
    for (std::size_t size : {0, 1, 7, 100000}) {
      std::vector<std::byte> data(size, std::byte(ranks.rank() == root ? 100 + root : 0));
      ranks.broadcast(data, root);
      expect(data == std::vector<std::byte>(size, std::byte(100 + root)), ranks, "wrong bytes");
    }
  }
  bool refused = false;
  try {
    ranks.broadcast({}, ranks.size());
  } catch (const ShapeError&) {
    refused = true;
  }
  expect(refused, ranks, "a root that is no rank was accepted");
}

inline void barriers_and_any(Communicator& ranks, std::uint64_t) {
  for (int i = 0; i < 50; ++i) {
    ranks.barrier();
    expect(ranks.any(ranks.rank() == i % ranks.size()), ranks, "any() missed a rank");
    expect(!ranks.any(false), ranks, "any() saw what was not there");
  }
}

inline void fixed_sums(Communicator& ranks, std::uint64_t seed) {
  constexpr int kTerms = 1000;
  const Philox random = Philox::stream(seed, RandomPurpose::test, 3);
  const auto term = [&](int i) {
    return std::ldexp(random.uniform(0, std::uint64_t(i)) - 0.5, i % 60 - 30);
  };
  FixedSum all;
  FixedSum mine;
  for (int i = 0; i < kTerms; ++i) {
    all.add(term(i));
    if (i % ranks.size() == ranks.rank()) mine.add(term(i));
  }
  const FixedSum sum = ranks.all_reduce(mine);
  expect(sum.high() == all.high() && sum.low() == all.low(), ranks, "sums depend on the ranks");
  if (ranks.rank() == ranks.size() - 1) mine.add(std::numeric_limits<double>::quiet_NaN());
  expect(!ranks.all_reduce(mine).is_finite(), ranks, "a NaN was lost");
}

inline void wrong_shares_are_refused(Communicator& ranks, std::uint64_t) {
  std::vector<float> data(12);
  const MatrixView<float> whole{data.data(), 3, 4, 4};
  std::vector<Range> gap(std::size_t(ranks.size()), Range{4, 4});
  gap[0] = {1, 4};
  std::vector<Range> short_of_one(std::size_t(ranks.size()), Range{3, 3});
  short_of_one[0] = {0, 3};
  const std::vector<Range> too_many(std::size_t(ranks.size()) + 1, Range{4, 4});
  for (const auto& shares : {gap, short_of_one, too_many}) {
    bool refused = false;
    try {
      ranks.all_gather_columns(whole, shares);
    } catch (const ShapeError&) {
      refused = true;
    }
    expect(refused, ranks, "shares that do not cut the columns were accepted");
  }
  ranks.barrier();
}

struct Check {
  const char* name;
  void (*run)(Communicator&, std::uint64_t seed);
};
inline void PrintTo(const Check& check, std::ostream* out) {
  *out << check.name;
}

inline constexpr std::array kChecks = {Check{"all_gather_columns", all_gather_columns},
                                       Check{"all_gather_bf16_columns", all_gather_bf16_columns},
                                       Check{"all_gather_rows", all_gather_rows},
                                       Check{"reduce_scatter_columns", reduce_scatter_columns},
                                       Check{"exchange_columns", exchange_columns},
                                       Check{"all_reduce_sum", all_reduce_sum},
                                       Check{"all_reduce_max", all_reduce_max},
                                       Check{"gather_to_all", gather_to_all},
                                       Check{"broadcast", broadcast},
                                       Check{"barriers_and_any", barriers_and_any},
                                       Check{"fixed_sums", fixed_sums},
                                       Check{"wrong_shares_are_refused", wrong_shares_are_refused}};

}  // namespace norn::checks
