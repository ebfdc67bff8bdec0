// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// When a device does its work. The CPU does it at once; a GPU in the order in which it was
/// enqueued, while the caller goes on.
namespace norn {

class WorkQueue {
 public:
  WorkQueue() = default;
  virtual ~WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Calls enqueue() and hands what it enqueued to the device as one piece: on a GPU a graph, which
  /// is kept and brought up to date when the next piece has the same kernels in the same order.
  /// `enqueue` must not wait for the device.
  virtual void run(const std::function<void()>& enqueue) { enqueue(); }
  /// Off: from now on run() hands over each kernel by itself, so that `enqueue` may wait for the
  /// device. Returns whether it was on.
  virtual bool make_graphs(bool /*on*/) { return false; }
  /// Gives up what it keeps of earlier pieces, which may refer to what is about to be closed.
  virtual void drop_graphs() {}
  /// The device's own handle of the order of its work, a cudaStream_t; null on the CPU.
  virtual void* native_stream() { return nullptr; }

  /// Copies to the device through page-locked memory while earlier work goes on: `host` may be
  /// reused on return; work enqueued later sees the copy. `to` must not be in use by work that is
  /// enqueued already.
  virtual void upload(void* to, const void* host, std::size_t bytes);
  /// Calls enqueue() for what makes the copies ready for the next run(): on a GPU it is done during
  /// the runs before it, but for those before the last one, which are over. So it may use only what
  /// was uploaded, and overwrite only what the last run does not read. Once between two runs.
  virtual void prepare(const std::function<void()>& enqueue) { enqueue(); }
  /// Copies what the last run() left to `host`, which comes from staging(), some time later: once
  /// reached() is true for a mark set afterwards. The next run may not overwrite it, the one after
  /// that may: on a GPU it is copied during the next one.
  virtual void download(void* host, const void* from, std::size_t bytes);
  /// Page-locked memory that lives as long as the queue.
  virtual void* staging(std::size_t bytes);

  /// Where the time of a piece of work goes. Between profile(true) and profile(false) run() makes
  /// no graphs, and the device notes when it reaches each stage(); stage_times() then waits for it
  /// and gives every stage's time up to the next one, in the order in which they first began.
  /// Devices that cannot tell give nothing.
  struct StageTime {
    std::string name;
    double seconds = 0.0;
    std::int64_t count = 0;
  };
  virtual void profile(bool /*on*/) {}
  virtual void stage(const char* /*name*/) {}
  virtual std::vector<StageTime> stage_times() { return {}; }

  /// From now on kernels that would fill the device leave so many of its multiprocessors to work
  /// that overlaps with them. 0: none.
  virtual void leave_free(int /*multiprocessors*/) {}

  /// How many pieces of work the caller may usefully be ahead of the device.
  virtual int depth() const { return 0; }

  /// A point in the order of runs and downloads.
  using Mark = std::int64_t;
  virtual Mark mark() { return 0; }
  virtual bool reached(Mark) { return true; }
  virtual void wait(Mark) {}
  /// Returns when everything enqueued is done. Throws DeviceError when some of it failed.
  virtual void wait_for_all() {}

 private:
  std::vector<std::unique_ptr<std::byte[]>> staging_;
};

}  // namespace norn
