// SPDX-License-Identifier: Apache-2.0
// Looking at the processes of other ranks.
#include "peers.h"

#include "src/base/host.h"
#include "src/base/text.h"

#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

namespace norn {

namespace {

/// What two processes have in common that can see each other by number: the boot of a machine and
/// its space of process numbers (containers have their own). Empty when it cannot be told.
std::string visibility() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = "";
  const ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof(space));
  if (boot.empty() || length <= 0) return {};
  return boot + " " + std::string(space, std::size_t(length));
}

bool is_stopped(long process) {
  const char state = process_state(process);
  return state == 'T' || state == 't';
}

}  // namespace

std::vector<std::byte> Peers::record() {
  const std::string text = fmt::format("{}\n{}\n{}", host_name(), ::getpid(), visibility());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Peers::Peers(int rank, std::span<const std::vector<std::byte>> records) {
  const std::string own = visibility();
  for (const std::vector<std::byte>& record : records) {
    const std::string text(reinterpret_cast<const char*>(record.data()), record.size());
    const std::size_t first = text.find('\n');
    const std::size_t second = text.find('\n', first + 1);
    Peer& peer = peers_.emplace_back();
    peer.host = text.substr(0, first);
    peer.process = long(parse_integer(text.substr(first + 1, second - first - 1)).value_or(0));
    peer.visible = int(peers_.size()) - 1 != rank && !own.empty() &&
                   text.substr(second + 1) == own && peer.process > 0 &&
                   process_lives(peer.process);
  }
}

std::optional<int> Peers::gone() const {
  for (std::size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].visible && !process_lives(peers_[r].process)) return int(r);
  return std::nullopt;
}

bool Peers::is_silent(int rank) const {
  if (std::size_t(rank) >= peers_.size() || !peers_[std::size_t(rank)].visible) return false;
  const long process = peers_[std::size_t(rank)].process;
  return !process_lives(process) || is_stopped(process);
}

std::string Peers::name(int rank) const {
  // A rank may fail before all know of each other.
  if (std::size_t(rank) >= peers_.size()) return fmt::format("rank {}", rank);
  const Peer& peer = peers_[std::size_t(rank)];
  return fmt::format("rank {} on {} (process {})", rank, peer.host, peer.process);
}

std::vector<int> Peers::stopped() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].visible && is_stopped(peers_[r].process)) ranks.push_back(int(r));
  return ranks;
}

}  // namespace norn
