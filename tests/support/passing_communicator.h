// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"

#include <algorithm>

namespace norn::test {

/// Passes everything on to another one: for tests that look at what passes.
class PassingCommunicator : public Communicator {
 public:
  explicit PassingCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string describe() const override { return inner_.describe(); }
  std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) override {
    return inner_.gather_to_all(mine);
  }
  void broadcast(std::span<std::byte> data, int root) override { inner_.broadcast(data, root); }
  void barrier() override { inner_.barrier(); }
  void wait_for(const std::function<bool()>& done, const char* operation) override {
    inner_.wait_for(done, operation);
  }

 protected:
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    inner_.all_gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    inner_.all_gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    inner_.all_gather_rows(whole, shares);
  }
  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override {
    inner_.reduce_scatter_columns(whole, shares);
  }
  void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares,
                           std::span<float> received) override {
    std::ranges::copy(inner_.exchange_columns(mine, rows, counts, shares), received.begin());
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override { inner_.all_reduce_sum(values); }
  void do_all_reduce_max(std::span<float> values) override { inner_.all_reduce_max(values); }

 private:
  Communicator& inner_;
};

}  // namespace norn::test
