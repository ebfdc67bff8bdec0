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
  }
  void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares,
                           std::span<float> received) override {
    std::vector<Buffer<float>> copies;
    std::vector<MatrixView<const float>> brought;
    for (const MatrixView<const float>& matrix : mine) {
      Buffer<float>& copy = copies.emplace_back(matrix.rows * matrix.stride, memory_);
      if (copy.size() > 0) copy.write(matrix.data, copy.size());
      brought.push_back({copy.data(), matrix.rows, matrix.cols, matrix.stride});
    }
    std::vector<MatrixView<const float>> result;
    call([&] { result = collectives_.exchange_columns(brought, rows, counts, shares); });
    float* to = received.data();
    for (const MatrixView<const float>& matrix : result) {
      expect(matrix.rows == rows && matrix.cols == shares[std::size_t(rank())].count(), ranks_,
             "shape");
      if (matrix.size() > 0)
        memory_.read(matrix.data, to, std::size_t(matrix.size()) * sizeof(float));
      to += matrix.size();
    }
    expect(to == received.data() + received.size(), ranks_, "not what was brought");
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
