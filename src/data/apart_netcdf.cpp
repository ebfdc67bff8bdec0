// SPDX-License-Identifier: Apache-2.0
// A NetCDF file that another process reads for this one.

#include "opened_file.h"
#include "opened_netcdf.h"
#include "reader_messages.h"
#include "reader_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace norn {

namespace {

MessageWriter request_to(Request what) {
  MessageWriter request;
  request.put(what);
  return request;
}

/// What a file is as long as nobody writes to it.
struct FileState {
  std::array<std::uint64_t, 3> file{};  // its device and number there, and its size
  std::array<std::int64_t, 4> times{};  // when contents and facts were changed
  bool operator==(const FileState&) const = default;

  explicit FileState(const OpenedFile& opened) {
    if (opened.descriptor() < 0) throw NetcdfProblem{std::strerror(opened.error())};
    struct stat facts {};
    if (::fstat(opened.descriptor(), &facts) != 0) throw NetcdfProblem{std::strerror(errno)};
    file = {facts.st_dev, facts.st_ino, std::uint64_t(facts.st_size)};
    times = {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_ctim.tv_sec,
             facts.st_ctim.tv_nsec};
  }
};

/// Readers of files that a program has closed: it opens each a few times at its start, and a reader
/// cannot open a second one. On the NetCDF thread alone; at the program's end they end by
/// themselves.
class IdleReaders {
 public:
  std::unique_ptr<ReaderProcess> take(const FileState& file) {
    forget_the_parents();
    const auto found = std::ranges::find(idle_, file, &Idle::file);
    if (found == idle_.end()) return nullptr;
    std::unique_ptr<ReaderProcess> reader = std::move(found->reader);
    idle_.erase(found);
    return reader;
  }
  void put(const FileState& file, std::unique_ptr<ReaderProcess> reader) {
    forget_the_parents();
    if (idle_.size() == kMostIdle) idle_.erase(idle_.begin());
    idle_.push_back({file, std::move(reader)});
  }

 private:
  static constexpr std::size_t kMostIdle = 4;
  struct Idle {
    FileState file;
    std::unique_ptr<ReaderProcess> reader;
  };
  /// A forked child does not speak with the readers of its parent.
  void forget_the_parents() {
    if (const pid_t process = ::getpid(); std::exchange(process_, process) != process)
      idle_.clear();
  }
  std::vector<Idle> idle_;
  pid_t process_ = ::getpid();
};

IdleReaders& idle_readers() {
  static auto* const idle = new IdleReaders;
  return *idle;
}

/// Calls `take` with the blocks, of at most this many elements, that a block consists of, in the
/// order of its elements.
void share_out(Sizes start, Sizes count, std::size_t most, std::size_t along,
               const std::function<void(const Sizes&, const Sizes&, std::size_t)>& take) {
  const auto inner = [&](std::size_t from) {
    return std::accumulate(count.begin() + std::ptrdiff_t(from), count.end(), std::size_t(1),
                           std::multiplies<>());
  };
  if (inner(along) == 0) return;
  if (along == count.size() || inner(along) <= most) return take(start, count, inner(along));
  const std::size_t each = inner(along + 1);
  const std::size_t end = start[along] + count[along];
  const std::size_t step = std::max<std::size_t>(1, most / each);
  while (start[along] < end) {
    count[along] = std::min(step, end - start[along]);
    share_out(start, count, most, count[along] == 1 ? along + 1 : along, take);
    start[along] += count[along];
  }
}

class ReadApart final : public OpenedNetcdf {
 public:
  explicit ReadApart(const OpenedFile& file) : file_(file), reader_(idle_readers().take(file_)) {
    if (reader_) {
      reader_->ask(request_to(Request::lock).text());
      return;
    }
    MessageWriter request = request_to(Request::open);
    request.put_text(std::filesystem::absolute(file.path()).string());
    reader_ = std::make_unique<ReaderProcess>();
    reader_->ask(request.text(), file.descriptor());
  }
  ~ReadApart() override {
    if (reader_->is_doubtful()) return;
    try {
      reader_->ask(request_to(Request::unlock).text());
      idle_readers().put(file_, std::move(reader_));
    } catch (const NetcdfProblem&) {
      // All that was wanted of the file has been read.
    }
  }
  ReadApart(const ReadApart&) = delete;
  ReadApart& operator=(const ReadApart&) = delete;

  StoredVariables variables() override {
    const std::string reply = reader_->ask(request_to(Request::variables).text());
    MessageReader message(reply);
    return take_variables(message);
  }

  std::optional<Attribute> attribute(int variable, const std::string& name) override {
    MessageWriter request = request_to(Request::attribute);
    request.put(variable);
    request.put_text(name);
    const std::string reply = reader_->ask(request.text());
    MessageReader message(reply);
    return take_attribute(message);
  }

  std::optional<Index> dimension(const std::string& name) override {
    MessageWriter request = request_to(Request::dimension);
    request.put_text(name);
    const std::string reply = reader_->ask(request.text());
    MessageReader message(reply);
    const auto size = message.take<Index>();
    return size < 0 ? std::nullopt : std::optional(size);
  }

  void read(int variable, const Sizes& start, const Sizes& count, Element element,
            void* values) override {
    char* to = static_cast<char*>(values);
    share_out(start, count, kLargestPiece / bytes_of(element), 0,
              [&](const Sizes& from, const Sizes& extent, std::size_t elements) {
                MessageWriter request = request_to(Request::read);
                request.put(variable);
                request.put(element);
                request.put_list(from);
                request.put_list(extent);
                reader_->ask(request.text());
                reader_->receive(to, elements * bytes_of(element));
                to += elements * bytes_of(element);
              });
  }

 private:
  FileState file_;
  std::unique_ptr<ReaderProcess> reader_;
};

}  // namespace

std::unique_ptr<OpenedNetcdf> open_netcdf_apart(const OpenedFile& file) {
  return std::make_unique<ReadApart>(file);
}

}  // namespace norn
