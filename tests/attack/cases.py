# SPDX-License-Identifier: Apache-2.0
"""One case of an attack: a folder of its own, random numbers of its own, programs run there under limits, and what is allowed."""
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from programs import BIN, SOURCE, failing_call, mpirun  # noqa: E402,F401

SANITIZED = os.environ.get("NORN_SANITIZE", "") != ""
SLOWER = 8 if SANITIZED else 1
STRACE = shutil.which("strace")
CPU_SECONDS = 20 * SLOWER  # what a case asks for takes less than one
WALL_SECONDS = 120 * SLOWER  # of a machine that may be busy
ADDRESS_SPACE = 6 << 30
LARGEST_FILE = 256 << 20
DOCUMENTED = (0, 2, 3, 4, 5, 6, 75)  # docs/user/errors.md; 1 is a fault of the program
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
SANITIZERS = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error: |ThreadSanitizer")
# A sanitizer ends a program where main memory does not suffice, which it would have said itself.
TOO_LARGE = re.compile(r"AddressSanitizer: (requested )?(allocation-size-too-big|out-of-memory|allocation size)|calloc-overflow")
# Under a sanitizer memory has no bound: networks of gigabytes, which are refused otherwise, run into that of time.
LARGE = re.compile(r"\d GiB of memory")
LEAKS = SOURCE / "tests/support/leaks.txt"


class Finding(Exception):
    """What the programs may not do."""


def limits(addresses=ADDRESS_SPACE):
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))


def environment():
    """One thread of BLAS unless the program asks for more; ranks give way to one another."""
    more = {"OPENBLAS_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "LC_ALL": "C.UTF-8"}
    if SANITIZED:
        more.update(UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1", ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:"
                    "fast_unwind_on_malloc=0:verify_asan_link_order=0", LSAN_OPTIONS=f"suppressions={LEAKS}:print_suppressions=0")
    return {**os.environ, **more}


class Done:
    """How a program ended. `peak`: the most memory that it or a process of its had, in bytes."""

    def __init__(self, command, code, out, err, seconds, peak):
        self.command, self.code, self.out, self.err, self.seconds, self.peak = command, code, out, err, seconds, peak

    def __str__(self):
        return f"{' '.join(map(str, self.command))} -> {self.code}\n{self.err.decode(errors='replace')[-1500:]}"


class Process(subprocess.Popen):
    """One whose use of memory is known once it has ended."""
    usage = None

    def _try_wait(self, wait_flags):
        try:
            pid, status, self.usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:
            pid, status = self.pid, 0
        return pid, status


class Case:
    def __init__(self, folder, kind, seed, number):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.random = random.Random(f"{seed}/{kind}/{number}")
        self.programs = 0
        self.traced = 0  # programs whose opened files were watched
        self.peak = 0  # bytes of memory, where that was looked at
        self.said = []
        self.undecided = False  # whether nothing could be said of what came out
        self.may_leave = False  # whether temporary files can stay: what removes them fails

    def path(self, name):
        return self.folder / name

    def watched(self, opens, peak):
        """What was looked at: whether files that are opened were, and the most memory."""
        self.traced += opens
        self.peak = max(self.peak, peak)

    def note(self, text):
        """What a finding is told with."""
        self.said.append(text)

    def bring(self, base, *names):
        for name in names:
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base / name, self.path(name))

    def run(self, program, *arguments, ranks=0, env=None, says_json=False, traced=None, addresses=ADDRESS_SPACE):
        """Runs it and checks what may never be; further checks are the caller's. `says_json`: errors are no lines. `traced`: a file for
        all calls that name files, of every process, where strace is installed. `addresses`: bytes that each process may have."""
        prefix = mpirun(ranks) if ranks > 0 else ()
        if traced is not None and STRACE:
            prefix = (STRACE, "-f", "-qq", "--seccomp-bpf", "-e", "trace=%file", "-o", str(traced))
            env = {**(env or {}), "LSAN_OPTIONS": "detect_leaks=0"}  # which traces, too
        command = [*prefix, str(BIN / program), *[a if isinstance(a, bytes) else str(a) for a in arguments]]
        began = time.monotonic()
        self.programs += 1
        process = Process(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**environment(), **(env or {})},
                                   preexec_fn=lambda: limits(addresses))
        try:
            out, err = process.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Finding(f"hangs: {command}") from None
        done = Done([program, *arguments], process.returncode, out, err, time.monotonic() - began, process.usage.ru_maxrss << 10)
        self.check_end(program, done, ranks, says_json)
        return done

    def check_end(self, program, done, ranks, says_json):
        said = done.err.decode(errors="replace")
        if SANITIZED and (TOO_LARGE.search(said) or (done.code == -signal.SIGXCPU and LARGE.search(said))):
            done.code = 4
            return
        if SANITIZERS.search(said):
            raise Finding(f"a sanitizer reports: {done}")
        if done.code not in DOCUMENTED:
            raise Finding(f"exit code {done.code}: {done}")
        if done.code not in (0, 75) and not says_json and f"{program}: error: " not in said:
            raise Finding(f"fails without a word: {done}")
        if CONTROL.search(done.err) or CONTROL.search(done.out):
            raise Finding(f"control characters: {done!s:.3000}\n{done.out[:300]!r} {done.err[:300]!r}")
        left = [path.name for path in self.folder.rglob("*") if ".tmp-" in path.name]
        if left and ranks == 0 and not self.may_leave:
            raise Finding(f"temporary files are left: {left}: {done}")

    def succeed(self, program, *arguments, **more):
        done = self.run(program, *arguments, **more)
        if done.code != 0:
            raise Finding(f"should succeed: {done}")
        return done

    def bytes_of(self, name):
        path = self.path(name)
        return path.read_bytes() if path.is_file() else None
