// SPDX-License-Identifier: Apache-2.0
// Landlock and seccomp by their system calls, for libraries and headers that do not know them.

#include "confinement.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NORN_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NORN_AUDIT_ARCH AUDIT_ARCH_AARCH64
#endif

namespace norn {

namespace {

bool give_up_new_rights() {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// --- Landlock: linux/landlock.h of a kernel may be older than the kernel that runs.

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // on every processor
constexpr unsigned kAskForVersion = 1;
constexpr int kRuleBeneath = 1;

struct Ruleset {
  std::uint64_t files = 0;    // what is forbidden of files
  std::uint64_t network = 0;  // from version 4 on
  std::uint64_t scope = 0;    // from version 6 on
};

struct [[gnu::packed]] Beneath {
  std::uint64_t allowed = 0;
  std::int32_t descriptor = -1;
};

constexpr std::uint64_t kReadFile = 1 << 2;

int landlock_version() {
  return int(::syscall(kCreateRuleset, nullptr, std::size_t(0), kAskForVersion));
}

/// All that a version can forbid.
Ruleset everything(int version) {
  const int rights = version < 2 ? 13 : version == 2 ? 14 : version < 5 ? 15 : 16;
  return {(std::uint64_t(1) << rights) - 1, version >= 4 ? 3u : 0u, version >= 6 ? 3u : 0u};
}

std::size_t size_of_ruleset(int version) {
  return version < 4   ? offsetof(Ruleset, network)
         : version < 6 ? offsetof(Ruleset, scope)
                       : sizeof(Ruleset);
}

// --- seccomp

#ifdef NORN_AUDIT_ARCH

/// What the libraries do with a file that is open, with memory, and with themselves.
constexpr long kHarmless[] = {
    __NR_read,           __NR_pread64,       __NR_readv,        __NR_preadv,
    __NR_lseek,          __NR_fstat,         __NR_fcntl,        __NR_flock,
    __NR_write,          __NR_writev,        __NR_sendto,       __NR_recvfrom,
    __NR_sendmsg,        __NR_recvmsg,       __NR_close,        __NR_munmap,
    __NR_mremap,         __NR_madvise,       __NR_brk,          __NR_futex,
    __NR_getrandom,      __NR_clock_gettime, __NR_gettimeofday, __NR_getrusage,
    __NR_getpid,         __NR_gettid,        __NR_rt_sigreturn, __NR_rt_sigaction,
    __NR_rt_sigprocmask, __NR_sigaltstack,   __NR_sched_yield,  __NR_restart_syscall,
    __NR_exit,           __NR_exit_group,
// UBSan looks by a pipe of its own whether memory may be read.
#ifdef __NR_pipe
    __NR_pipe,
#endif
    __NR_pipe2};

/// A program for the kernel that says of each call whether it is made.
class CallFilter {
 public:
  CallFilter() {
    load(offsetof(seccomp_data, arch));
    unless(NORN_AUDIT_ARCH, BPF_JEQ, refuse());
    load(offsetof(seccomp_data, nr));
#ifdef __x86_64__
    constexpr std::uint32_t kOtherNumbers = 0x40000000;  // of calls with short pointers
    add(BPF_JMP | BPF_JGE | BPF_K, kOtherNumbers, 0, 1);
    add(refuse());
#endif
    for (const long call : kHarmless) allow(call);
    // By number, and of the file itself alone: its path is empty then.
    allow(__NR_newfstatat, 3, AT_EMPTY_PATH, BPF_JSET);
    allow(__NR_prlimit64, 0, 0, BPF_JEQ);
    allow(__NR_tgkill, 0, std::uint32_t(::getpid()), BPF_JEQ);
    // Memory that holds no programs.
    forbid(__NR_mmap, 2, PROT_EXEC);
    forbid(__NR_mprotect, 2, PROT_EXEC);
    add(refuse());
  }

  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return give_up_new_rights() &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  static sock_filter refuse() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA));
  }
  static sock_filter accept() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  static std::uint32_t argument(int number) {
    return std::uint32_t(offsetof(seccomp_data, args)) + 8 * std::uint32_t(number);
  }

  void add(sock_filter step) {
    code_.push_back(step);
  }
  void add(int code, std::uint32_t operand, int if_so, int if_not) {
    add(sock_filter{std::uint16_t(code), std::uint8_t(if_so), std::uint8_t(if_not), operand});
  }
  void load(std::size_t from) {
    add(BPF_LD | BPF_W | BPF_ABS, std::uint32_t(from), 0, 0);
  }
  void unless(std::uint32_t operand, int test, sock_filter then) {
    add(BPF_JMP | test | BPF_K, operand, 1, 0);
    add(then);
  }

  void allow(long call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, std::uint32_t(call), 0, 1);
    add(accept());
  }
  /// Where the low half of an argument passes a test.
  void allow(long call, int number, std::uint32_t operand, int test) {
    add(BPF_JMP | BPF_JEQ | BPF_K, std::uint32_t(call), 0, 4);
    load(argument(number));
    add(BPF_JMP | test | BPF_K, operand, 0, 1);
    add(accept());
    add(refuse());
  }
  /// Where an argument has one of the bits; else it is made.
  void forbid(long call, int number, std::uint32_t bits) {
    add(BPF_JMP | BPF_JEQ | BPF_K, std::uint32_t(call), 0, 4);
    load(argument(number));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    add(refuse());
    add(accept());
  }

  std::vector<sock_filter> code_;
};

#endif

bool has_filters() {
#ifndef NORN_AUDIT_ARCH
  return false;
#endif
  // Known, but there is no filter at this address.
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr, 0, 0) != 0 && errno == EFAULT;
}

}  // namespace

void end_with_the_other_side(int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ucred other{};
  socklen_t size = sizeof(other);
  // It may have ended before that was said.
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.pid > 0 &&
      ::getppid() != other.pid)
    ::_exit(0);
}

bool open_nothing_but(int descriptor) {
  const int version = landlock_version();
  if (version < 1 || !give_up_new_rights()) return false;
  const Ruleset forbidden = everything(version);
  const int rules = int(::syscall(kCreateRuleset, &forbidden, size_of_ruleset(version), 0u));
  if (rules < 0) return false;
  const Beneath file{kReadFile, descriptor};
  const bool done = ::syscall(kAddRule, rules, kRuleBeneath, &file, 0u) == 0 &&
                    ::syscall(kRestrictSelf, rules, 0u) == 0;
  ::close(rules);
  return done;
}

bool open_nothing() {
#ifdef NORN_AUDIT_ARCH
  return CallFilter().install();
#else
  return false;
#endif
}

std::string Confinement::text() const {
  return fmt::format("landlock {}, seccomp {}", landlock < 1 ? "no" : std::to_string(landlock),
                     filters ? "yes" : "no");
}

Confinement confinement_of_kernel() {
  return {std::max(0, landlock_version()), has_filters()};
}

}  // namespace norn
