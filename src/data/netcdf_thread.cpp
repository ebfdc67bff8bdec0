// SPDX-License-Identifier: Apache-2.0
// A queue of work for the thread that owns the NetCDF library.

#include "netcdf_thread.h"

#include "src/base/thread.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <hdf5.h>

namespace norn {

namespace {

struct Task {
  const std::function<void()>& work;
  std::exception_ptr error = nullptr;
  bool done = false;
};

class NetcdfThread {
 public:
  NetcdfThread() {
    std::thread thread = start_thread([this] { serve(); });
    id_ = thread.get_id();
    thread.detach();
  }

  void run(const std::function<void()>& work) {
    if (std::this_thread::get_id() == id_) return work();
    Task task{work};
    std::unique_lock lock(mutex_);
    queue_.push_back(&task);
    wake_.notify_one();
    finished_.wait(lock, [&] { return task.done; });
    lock.unlock();
    if (task.error) std::rethrow_exception(task.error);
  }

 private:
  [[noreturn]] void serve() {
    // Before any other call. At the program's end HDF5 would write out what a full disk has not
    // taken, and crash on files whose closing failed; ours are closed or given up by then.
    H5dont_atexit();
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return !queue_.empty(); });
      Task* task = queue_.front();
      queue_.pop_front();
      lock.unlock();
      try {
        task->work();
      } catch (...) {
        task->error = std::current_exception();
      }
      lock.lock();
      task->done = true;
      finished_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::deque<Task*> queue_;
  std::thread::id id_;
};

}  // namespace

void on_netcdf_thread(const std::function<void()>& work) {
  // Never destroyed: files may be closed while the program's other statics go away.
  static NetcdfThread* const thread = new NetcdfThread;
  thread->run(work);
}

}  // namespace norn
