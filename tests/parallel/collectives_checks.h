// SPDX-License-Identifier: Apache-2.0
// The communicators' checks for collectives of a device: what a check has in main memory goes to
// the device, through the collective, and back.
#pragma once

#include "src/parallel/collectives.h"
#include "tests/parallel/communicator_checks.h"

#include <array>
#include <cstring>
#include <functional>
#include <vector>

namespace norn::checks {

/// `overlaps`: collectives that may overlap with other work, and are waited for at once.
class ThroughCollectives final : public Communicator {
 public:
  ThroughCollectives(Communicator& ranks, Collectives& collectives, Memory& memory,
                     bool overlaps = false)
      : ranks_(ranks), collectives_(collectives), memory_(memory), overlaps_(overlaps) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::string describe() const override { return collectives_.describe(); }

  std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) override {
    return ranks_.gather_to_all(mine);
  }
  void broadcast(std::span<std::byte> data, int root) override { ranks_.broadcast(data, root); }
  void barrier() override { ranks_.barrier(); }
  void wait_for(const std::function<bool()>& done, const char* operation) override {
    ranks_.wait_for(done, operation);
  }

 private:
  /// A copy of the rows with their padding, on the device for the life of this.
  template <typename T>
  class OnDevice {
   public:
    OnDevice(MatrixView<T> host, Memory& memory) : host_(host), copy_(elements(), memory) {
      if (elements() > 0) copy_.write(host.data, elements());
    }
    MatrixView<T> view() { return {copy_.data(), host_.rows, host_.cols, host_.stride}; }
    void bring_back() {
      if (elements() > 0) copy_.read(host_.data, elements());
    }

   private:
    Index elements() const { return host_.rows * host_.stride; }
    MatrixView<T> host_;
    Buffer<T> copy_;
  };
  template <typename T, typename Collective>
  void with(MatrixView<T> host, const Collective& collective) {
    OnDevice<T> copy(host, memory_);
    call([&] { collective(copy.view()); });
    copy.bring_back();
  }
  void call(const std::function<void()>& collective) {
    if (!overlaps_) return collective();
    collectives_.overlap(collective);
    collectives_.wait_for_overlapped();
  }

  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    with(whole, [&](auto view) { collectives_.all_gather_columns(view, shares); });
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    with(whole, [&](auto view) { collectives_.all_gather_columns(view, shares); });
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    with(whole, [&](auto view) { collectives_.all_gather_rows(view, shares); });
  }
  /// Alone, then as the second of two matrices that are reduced together.
  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override {
    OnDevice<std::int64_t> alone(whole, memory_);
    OnDevice<std::int64_t> other(whole, memory_);
    OnDevice<std::int64_t> second(whole, memory_);
    const std::array one{alone.view()};
    call([&] { collectives_.reduce_scatter_columns(one, shares); });
    const std::array two{other.view(), second.view()};
    call([&] { collectives_.reduce_scatter_columns(two, shares); });
    std::vector<std::int64_t> before(std::size_t(whole.rows * whole.stride));
    alone.bring_back();
    std::copy_n(whole.data, before.size(), before.begin());
    second.bring_back();
    const Range mine = shares[std::size_t(rank())];
    for (Index r = 0; r < whole.rows; ++r)
      expect(std::memcmp(whole.row(r) + mine.begin, before.data() + r * whole.stride + mine.begin,
                         std::size_t(mine.count()) * sizeof(std::int64_t)) == 0,
             ranks_, "two matrices at once differ from one");
    check_exchange(whole, shares);
  }
  /// Rank r brings r + 1 matrices, each of them with its own number in every element.
  void check_exchange(MatrixView<std::int64_t> shape, std::span<const Range> shares) {
    if (!collectives_.exchanges()) return;
    std::vector<Index> counts;
    for (int r = 0; r < size(); ++r) counts.push_back(r + 1);
    std::vector<std::vector<float>> host;
    std::vector<OnDevice<float>> device;
    std::vector<MatrixView<const float>> mine;
    const auto value = [](int r, Index m, Index c) { return float(1000 * r + 100 * m + c % 100); };
    for (Index m = 0; m <= rank(); ++m) {
      std::vector<float>& data = host.emplace_back(std::size_t(shape.rows * shape.stride));
      const MatrixView<float> matrix{data.data(), shape.rows, shape.cols, shape.stride};
      for (Index r = 0; r < shape.rows; ++r)
        for (Index c = 0; c < shape.cols; ++c) matrix(r, c) = value(rank(), m, c);
      mine.push_back(device.emplace_back(matrix, memory_).view());
    }
    std::vector<MatrixView<const float>> received;
    call([&] { received = collectives_.exchange_columns(mine, shape.rows, counts, shares); });
    std::size_t at = 0;
    const Range own = shares[std::size_t(rank())];
    for (int r = 0; r < size(); ++r) {
      for (Index m = 0; r != rank() && m <= r; ++m, ++at) {
        const MatrixView<const float> from = received[at];
        expect(from.rows == shape.rows && from.cols == own.count(), ranks_, "shape");
        std::vector<float> got(std::size_t(from.size()));
        if (!got.empty()) memory_.read(from.data, got.data(), got.size() * sizeof(float));
        for (Index i = 0; i < from.size(); ++i)
          expect(got[std::size_t(i)] == value(r, m, own.begin + i % from.cols), ranks_,
                 "wrong columns");
      }
    }
    expect(at == received.size(), ranks_, "more than was brought");
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    const auto count = Index(values.size());
    with(MatrixView<std::int64_t>{values.data(), 1, count, count}, [&](auto view) {
      collectives_.all_reduce_sum({view.data, values.size()});
    });
  }
  /// Magnitudes: collectives need not know others.
  void do_all_reduce_max(std::span<float> values) override {
    std::vector<float> magnitudes(values.size());
    std::vector<float> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      magnitudes[i] = expected[i] = values[i] != values[i] ? values[i] : std::abs(values[i]);
    const auto count = Index(values.size());
    with(MatrixView<float>{magnitudes.data(), 1, count, count}, [&](auto view) {
      collectives_.all_reduce_max({view.data, values.size()});
    });
    ranks_.all_reduce_max(expected);
    for (std::size_t i = 0; i < values.size(); ++i)
      expect(magnitudes[i] == expected[i] ||
                 (magnitudes[i] != magnitudes[i]) == (expected[i] != expected[i]),
             ranks_, "wrong maximum of magnitudes");
    ranks_.all_reduce_max(values);
  }

  Communicator& ranks_;
  Collectives& collectives_;
  Memory& memory_;
  bool overlaps_;
};

}  // namespace norn::checks
