// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opened_netcdf.h"

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

/// What a program and the process that reads a file for it say to each other, over a socket: the
/// length of a message (uint64), then the message. Both are of the same build. A request begins
/// with its Request, and that to open is followed by the descriptor of a file; a reply with whether
/// it was done (bool), then what was asked for, or in words why not. The elements of a block follow
/// their reply as they are.
namespace norn {

enum class Request : std::uint8_t { open, variables, attribute, dimension, read, unlock, lock };

/// More is no item of a file that anybody has use for.
inline constexpr std::size_t kLongestMessage = std::size_t(256) << 20;
/// Of the elements that one reply brings.
inline constexpr std::size_t kLargestPiece = std::size_t(64) << 20;
/// The reader's end of the socket.
inline constexpr int kReaderSocket = 3;

class MessageWriter {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(const std::string& text);
  template <typename T>
  void put_list(const std::vector<T>& values) {
    put(std::uint64_t(values.size()));
    for (const T& value : values) put(value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Throws NetcdfProblem when the message is shorter than what is taken from it.
class MessageReader {
 public:
  explicit MessageReader(const std::string& text) : rest_(text) {}
  template <typename T>
  T take() {
    T value{};
    std::memcpy(&value, take_bytes(sizeof(T)), sizeof(T));
    return value;
  }
  std::string take_text();
  template <typename T>
  std::vector<T> take_list() {
    const std::uint64_t size = take_size(sizeof(T));
    std::vector<T> values;
    for (std::uint64_t i = 0; i < size; ++i) values.push_back(take<T>());
    return values;
  }

 private:
  const char* take_bytes(std::size_t count);
  /// How many of this size follow.
  std::uint64_t take_size(std::size_t each);
  std::span<const char> rest_;
};

void put_attribute(MessageWriter& message, const std::optional<Attribute>& value);
std::optional<Attribute> take_attribute(MessageReader& message);
void put_variables(MessageWriter& message, const StoredVariables& variables);
StoredVariables take_variables(MessageReader& message);

/// False: the other side is gone (or says what no reader says). Where the socket has a limit of
/// time, `go_on` is asked whenever that has passed and nothing came.
using GoOn = std::function<bool()>;
bool send_bytes(int socket, const void* bytes, std::size_t count);
bool receive_bytes(int socket, void* bytes, std::size_t count, const GoOn& go_on = {});
bool send_message(int socket, const std::string& message);
bool receive_message(int socket, std::string& message, const GoOn& go_on = {});
bool send_descriptor(int socket, int descriptor);
/// -1: none came.
int receive_descriptor(int socket);

}  // namespace norn
