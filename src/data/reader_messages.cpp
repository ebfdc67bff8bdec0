// SPDX-License-Identifier: Apache-2.0
// Requests and replies as bytes.

#include "reader_messages.h"

#include <cerrno>

#include <sys/socket.h>

namespace norn {

namespace {

/// Numbers in the order of Attribute's kinds, text, nothing.
constexpr std::uint8_t kNothing = 255;

template <std::size_t... kinds>
Attribute take_kind(MessageReader& message, std::size_t kind, std::index_sequence<kinds...>) {
  Attribute value;
  const auto take_one = [&]<std::size_t number>(std::integral_constant<std::size_t, number>) {
    if (number != kind) return false;
    using Held = std::variant_alternative_t<number, Attribute>;
    if constexpr (std::is_same_v<Held, std::string>)
      value = message.take_text();
    else
      value = message.take<Held>();
    return true;
  };
  if (!(take_one(std::integral_constant<std::size_t, kinds>{}) || ...))
    throw NetcdfProblem{"its reader was damaged with it"};
  return value;
}

}  // namespace

void MessageWriter::put_text(const std::string& text) {
  put(std::uint64_t(text.size()));
  text_ += text;
}

const char* MessageReader::take_bytes(std::size_t count) {
  if (count > rest_.size()) throw NetcdfProblem{"its reader was damaged with it"};
  const char* const first = rest_.data();
  rest_ = rest_.subspan(count);
  return first;
}

std::uint64_t MessageReader::take_size(std::size_t each) {
  const auto size = take<std::uint64_t>();
  if (size > rest_.size() / each) throw NetcdfProblem{"its reader was damaged with it"};
  return size;
}

std::string MessageReader::take_text() {
  const std::uint64_t size = take_size(1);
  return {take_bytes(size), size};
}

void put_attribute(MessageWriter& message, const std::optional<Attribute>& value) {
  message.put(value ? std::uint8_t(value->index()) : kNothing);
  if (!value) return;
  std::visit(
      [&](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>)
          message.put_text(held);
        else
          message.put(held);
      },
      *value);
}

std::optional<Attribute> take_attribute(MessageReader& message) {
  const auto kind = message.take<std::uint8_t>();
  if (kind == kNothing) return std::nullopt;
  return take_kind(message, kind, std::make_index_sequence<std::variant_size_v<Attribute>>{});
}

void put_variables(MessageWriter& message, const StoredVariables& variables) {
  message.put(std::uint64_t(variables.size()));
  for (const auto& [name, variable] : variables) {
    message.put_text(name);
    message.put(variable.id);
    message.put(variable.type);
    message.put_list(variable.extent);
    message.put(variable.checksum.has_value());
    message.put(variable.checksum.value_or(0));
    message.put_text(variable.fault);
  }
}

StoredVariables take_variables(MessageReader& message) {
  StoredVariables variables;
  const auto count = message.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    StoredVariable& variable = variables[message.take_text()];
    variable.id = message.take<int>();
    variable.type = message.take<StoredType>();
    variable.extent = message.take_list<Index>();
    const bool is_checked = message.take<std::uint8_t>() != 0;
    const auto checksum = message.take<std::uint32_t>();
    if (is_checked) variable.checksum = checksum;
    variable.fault = message.take_text();
    if (variable.type < StoredType::text || variable.type > StoredType::other)
      throw NetcdfProblem{"its reader was damaged with it"};
  }
  return variables;
}

bool send_bytes(int socket, const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    count -= std::size_t(sent);
  }
  return true;
}

bool receive_bytes(int socket, void* bytes, std::size_t count, const GoOn& go_on) {
  char* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t received = ::recv(socket, at, count, MSG_WAITALL);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno == EAGAIN && go_on && go_on()) continue;
    if (received <= 0) return false;
    at += received;
    count -= std::size_t(received);
  }
  return true;
}

bool send_message(int socket, const std::string& message) {
  const std::uint64_t size = message.size();
  return send_bytes(socket, &size, sizeof(size)) && send_bytes(socket, message.data(), size);
}

bool receive_message(int socket, std::string& message, const GoOn& go_on) {
  std::uint64_t size = 0;
  if (!receive_bytes(socket, &size, sizeof(size), go_on) || size > kLongestMessage) return false;
  message.resize(size);
  return receive_bytes(socket, message.data(), size, go_on);
}

namespace {

/// One byte, and room for a descriptor beside it.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

bool send_descriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof(descriptor));
  std::memcpy(CMSG_DATA(beside), &descriptor, sizeof(descriptor));
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1;
}

int receive_descriptor(int socket) {
  DescriptorMessage message;
  ssize_t received = 0;
  do received = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  const cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
  if (received != 1 || !beside || beside->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof(descriptor));
  return descriptor;
}

}  // namespace norn
