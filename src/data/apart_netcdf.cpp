// SPDX-License-Identifier: Apache-2.0
// A NetCDF file that another process reads for this one.

#include "opened_netcdf.h"
#include "reader_messages.h"
#include "reader_process.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace norn {

namespace {

MessageWriter request_to(Request what) {
  MessageWriter request;
  request.put(what);
  return request;
}

std::string request_to_open(const std::filesystem::path& path) {
  MessageWriter request = request_to(Request::open);
  request.put_text(std::filesystem::absolute(path).string());
  return request.text();
}

/// Readers that have nothing to read, for the next file: a program opens each a few times at its
/// start. On the NetCDF thread alone; at the program's end readers end by themselves.
std::vector<std::unique_ptr<ReaderProcess>>& idle_readers() {
  static auto* const idle = new std::vector<std::unique_ptr<ReaderProcess>>;
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
  explicit ReadApart(const std::filesystem::path& path) {
    const std::string request = request_to_open(path);
    if (!idle_readers().empty()) {
      reader_ = std::move(idle_readers().back());
      idle_readers().pop_back();
      try {
        reader_->ask(request);
        return;
      } catch (const NetcdfProblem&) {
        // It may be what the file before has left behind.
      }
    }
    reader_ = std::make_unique<ReaderProcess>();
    reader_->ask(request);
  }

  ~ReadApart() override {
    if (reader_->is_doubtful()) return;
    try {
      reader_->ask(request_to(Request::close).text());
      idle_readers().push_back(std::move(reader_));
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
  std::unique_ptr<ReaderProcess> reader_;
};

}  // namespace

std::unique_ptr<OpenedNetcdf> open_netcdf_apart(const std::filesystem::path& path) {
  return std::make_unique<ReadApart>(path);
}

}  // namespace norn
