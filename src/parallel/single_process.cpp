// SPDX-License-Identifier: Apache-2.0
// The communicator of one rank: what it has is already complete.

#include "norn/base/error.h"
#include "src/parallel/communicator.h"

#include <thread>

namespace norn {

namespace {

class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe() const override { return "one process"; }

  void do_all_gather_columns(MatrixView<float>, std::span<const Range>) override {}
  void do_all_gather_columns(MatrixView<Bfloat16>, std::span<const Range>) override {}
  void do_all_gather_rows(MatrixView<float>, std::span<const Range>) override {}
  void do_reduce_scatter_columns(MatrixView<std::int64_t>, std::span<const Range>) override {}
  void do_exchange_columns(std::span<const MatrixView<const float>>, Index, std::span<const Index>,
                           std::span<const Range>, std::span<float>) override {}
  void do_all_reduce_sum(std::span<std::int64_t>) override {}
  void do_all_reduce_max(std::span<float>) override {}
  std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) override {
    return {std::vector<std::byte>(mine.begin(), mine.end())};
  }
  void broadcast(std::span<std::byte>, int root) override {
    require(root == 0, "communicator: the root of a broadcast must be a rank");
  }
  void barrier() override {}
  void wait_for(const std::function<bool()>& done, const char*) override {
    while (!done()) std::this_thread::yield();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single_process() {
  return std::make_unique<SingleProcess>();
}

}  // namespace norn
