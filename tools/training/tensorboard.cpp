// SPDX-License-Identifier: Apache-2.0
// TensorBoard's events: protobuf messages in framed records.
#include "tools/training/tensorboard.h"

#include "src/base/host.h"

#include <array>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <tensorboard.pb.h>

namespace norn::tools {
namespace {

using tensorboard::Event;

constexpr const char* kFileVersion = "brain.Event:2";

std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

template <typename T>
std::string bytes_of(T number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Checksums in records are rotated and shifted, so that one of a text that holds one is another.
std::string checksum_of(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return bytes_of(((crc >> 15) | (crc << 17)) + 0xa282ead8U);
}

double seconds_since_1970() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_file(const std::filesystem::path& folder) {
  return folder / fmt::format("events.out.tfevents.{:.0f}.{}", seconds_since_1970(), host_name());
}

std::string serialised(const Event& event) {
  return event.SerializeAsString();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

TensorBoardEvents::TensorBoardEvents(const std::filesystem::path& folder, std::int64_t steps_done,
                                     std::function<void(const std::string&)> trouble)
    : file_(new_file(folder), std::move(trouble)) {
  Event version;
  version.set_wall_time(seconds_since_1970());
  version.set_file_version(kFileVersion);
  append(serialised(version));
  if (steps_done == 0) return;
  Event start;
  start.set_wall_time(seconds_since_1970());
  start.set_step(steps_done + 1);
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  append(serialised(start));
}

void TensorBoardEvents::write(std::int64_t step, const Scalars& scalars) {
  if (scalars.empty()) return;
  Event event;
  event.set_wall_time(seconds_since_1970());
  event.set_step(step);
  for (const auto& [tag, value] : scalars) {
    tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
    entry.set_tag(tag);
    entry.set_simple_value(float(value));
  }
  append(serialised(event));
}

void TensorBoardEvents::append(std::string_view event) {
  const std::string length = bytes_of(std::uint64_t(event.size()));
  std::string record = length + checksum_of(length);
  record += event;
  record += checksum_of(event);
  file_.append(record);
}

TensorBoardEvents::Scalars scalars_of(const JsonValue& event) {
  TensorBoardEvents::Scalars scalars;
  const auto add = [&](const JsonValue& from, const std::string& name, const std::string& tag) {
    if (!from[name].is_null()) scalars.emplace_back(tag, from[name].number_or(0.0));
  };
  const std::string kind = event["event"].text_or("");
  if (kind == "step") {
    add(event, "cost", "train/cost");
    add(event, "examples_per_second", "train/examples_per_second");
  } else if (kind == "epoch") {
    add(event, "rate", "train/rate");
    add(event, "cost", "epoch/cost");
    add(event, "regularization", "epoch/regularization");
    add(event, "examples_per_second", "epoch/examples_per_second");
  } else if (kind == "eval") {
    add(event, "cost", "eval/cost");
    for (const JsonValue& at : event["metrics"].entries())
      for (const auto& [name, value] : at.members())
        if (name != "k") add(at, name, fmt::format("eval/{}@{}", name, at["k"].integer_or(0)));
  }
  return scalars;
}

}  // namespace norn::tools
