// SPDX-License-Identifier: Apache-2.0
// A queue of work for the thread that owns the NetCDF library.

#include "netcdf_thread.h"

#include "norn/base/error.h"
#include "src/base/thread.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include <hdf5.h>
#include <pthread.h>

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

  bool busy() const { return busy_; }

 private:
  [[noreturn]] void serve() {
    // Before any other call. At the program's end HDF5 would write out what a full disk has not
    // taken, and crash on files whose closing failed; ours are closed or given up by then.
    H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, nullptr,
                 nullptr);  // of this thread: what HDF5 has to say goes to nobody's screen
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return !queue_.empty(); });
      Task* task = queue_.front();
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      try {
        task->work();
      } catch (...) {
        task->error = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      task->done = true;
      finished_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::deque<Task*> queue_;
  std::thread::id id_;
  std::atomic<bool> busy_ = false;
};

// Never destroyed: files may be closed while the program's other statics go away. A forked child
// has none of its parent's threads: it starts its own, unless the library was in a call then.
struct Holder {
  std::mutex mutex;
  NetcdfThread* thread = nullptr;
  bool forked_in_a_call = false;
};

Holder& holder() {
  static Holder* const made = [] {
    ::pthread_atfork([] { holder().mutex.lock(); }, [] { holder().mutex.unlock(); },
                     [] {
                       Holder& here = holder();
                       here.forked_in_a_call |= here.thread != nullptr && here.thread->busy();
                       here.thread = nullptr;
                       here.mutex.unlock();
                     });
    return new Holder;
  }();
  return *made;
}

NetcdfThread& thread_of_this_process() {
  Holder& here = holder();
  const std::lock_guard lock(here.mutex);
  if (here.forked_in_a_call) {
    throw UsageError(
        "this process was forked while another thread read or wrote a NetCDF file, so it can open "
        "none; fork when no file is read or written, or start processes by \"spawn\"");
  }
  if (here.thread == nullptr) here.thread = new NetcdfThread;
  return *here.thread;
}

}  // namespace

void on_netcdf_thread(const std::function<void()>& work) {
  thread_of_this_process().run(work);
}

}  // namespace norn
