#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One attempt of a trial, where it is trained: trial.py FOLDER ATTEMPT [--with-parent]. FOLDER/attempt.json says what to do,
FOLDER/result.json will say what came of it. Standard library alone.

The lock of the folder, and of a GPU, is inherited by the trainer: neither is free before the trainer is gone, even where this process
was killed with -9. The trainer is then told to write a checkpoint and end. With --with-parent the attempt ends so, too, when who
started it is gone. Ranks under mpirun or srun inherit nothing: each starts as trial.py --rank LOCK... -- COMMAND, and shares the locks."""
import ctypes
import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import socket
import sys
import time

if not __package__:  # run by its path: the packages norn and norn.tune are around it
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])
from norn._files import read_json, write_json  # noqa: E402

LOCK, STOP, ATTEMPT, RESULT, ERRORS, MAKERS = "lock", "stop", "attempt.json", "result.json", "errors.txt", "makers.json"
RECORD = "run/run.json"
WAIT_SECONDS, LEASE_SECONDS = 0.1, 5.0
PR_SET_PDEATHSIG = 1
LOCK_FOLDER = "/tmp"  # of the host, whatever TMPDIR a queue gives to its jobs
HELD = "NORN_HELD"     # file descriptors of the locks, for a command that runs others: they are to hold them, too


class Lease:
    """What the lock of a trial's folder says now: whether it is held, by an attempt or by a trainer that outlived one, and who
    touched it last."""

    def __init__(self, folder: pathlib.Path):
        self.held, self.touched, self._holder = False, 0, {}
        try:
            file = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)  # opened anew: a network file system looks again
        except FileNotFoundError:
            return
        try:
            self.touched = os.fstat(file).st_mtime_ns
            self._holder = json.loads(os.read(file, 4096) or b"{}")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.held = True
        except ValueError:
            self.held = True  # it is being written
        finally:
            os.close(file)

    def begun(self, attempt: int) -> bool:
        return self._holder.get("attempt") == attempt

    @property
    def host(self) -> str | None:
        return self._holder.get("host")


def gpu_lock_path(gpu: str) -> pathlib.Path:
    """One for all studies and users of a host. `gpu` is a number, with its part of it behind a dot, or a name: GPU-a0223334."""
    return pathlib.Path(os.environ.get("NORN_GPU_LOCKS", LOCK_FOLDER)) / f"norn-gpu-{gpu.replace('/', '_')}.lock"


def _open_lock(path: pathlib.Path) -> int:
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.fchmod(file, 0o666)
        except OSError:
            pass
        return file


def _try(file: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _end_with_parent(parent: int | None = None) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    if parent is not None and os.getppid() != parent:
        os._exit(75)


def values_of(log: pathlib.Path) -> dict[int, float]:
    """{epoch: value of the watched metric} from the log of a run; lines of an epoch that was made again come later and count."""
    found: dict[int, float] = {}
    try:
        lines = log.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a piece of a line that a crash left
        if event.get("event") == "eval" and isinstance(event.get("value"), (int, float)):
            found[int(event["epoch"])] = float(event["value"])
    return found


def errors_of(path: pathlib.Path) -> list[dict]:
    """What the trainer said with --errors=json."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                return json.loads(line)["errors"]
            except (ValueError, KeyError):
                return []
    return []


def made_of(record: dict) -> str:
    """A digest of what the bits of a run follow from beside its descriptor, its options and its seed, of its run.json: the program, on what
    it computes, and the contents of the data. Threads and ranks change none."""
    facts = [record.get(key) for key in ("binary", "versions", "device", "precision")]
    facts += [re.sub(r", \d+ threads?$", "", str(record.get("device_name"))), os.confstr("CS_GNU_LIBC_VERSION")]
    facts += [[[one["name"], one["checksum"]] for one in record.get(key, [])] for key in ("sets", "validation_sets")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


class Wrong(Exception):
    """Nothing can be trained so, in whatever attempt."""


class Attempt:
    """Runs the trainer until it ends or is to stop."""

    def __init__(self, folder: pathlib.Path, number: int):
        self.folder, self.number = folder, number
        self.child: subprocess.Popen | None = None
        self.stopping = False
        self._touched, self._every = 0.0, LEASE_SECONDS

    def newest(self) -> bool:
        """Whether nobody has begun a later attempt: a queue may start one twice, or late."""
        try:
            return read_json(self.folder / ATTEMPT)["attempt"] == self.number
        except Exception:  # no longer there, or not yet whole: not ours
            return False

    def _late(self) -> bool:
        """Whether it is to do nothing. A queue may give out twice what has begun once: if that was lost, the tuner begins it anew."""
        return not self.newest() or Lease(self.folder).begun(self.number)

    def asked_to_stop(self) -> bool:
        return self.stopping or (self.folder / STOP).exists()

    def stop(self, *_) -> None:
        self.stopping = True
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGUSR1)

    def run(self) -> int:
        lock = _open_lock(self.folder / LOCK)
        while not _try(lock):
            if self._late() or self.asked_to_stop():
                return 0
            time.sleep(WAIT_SECONDS)
        if self._late():
            return 0
        wish = read_json(self.folder / ATTEMPT)
        self._every = min(LEASE_SECONDS, wish["heartbeat"] / 6.0)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"attempt": self.number, "host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        begun = time.time()
        self._note_maker()
        code = self._work(wish, lock)
        if self.newest():
            self._write(code, time.time() - begun)
        return 0

    def _work(self, wish: dict, lock: int) -> int:
        try:
            names = self._gpus(wish)
            held = {self.folder / LOCK: lock, **self._take({gpu_lock_path(gpu) for gpu in names},
                                                           wish["gpu_count"] if wish["gpus"] else len(names))}
        except Wrong as error:
            (self.folder / ERRORS).write_text(json.dumps({"errors": [{"message": str(error)}]}) + "\n", encoding="utf-8")
            return 2
        if self.asked_to_stop():
            return 75
        environment = dict(os.environ)
        if wish["gpus"]:
            taken = [gpu for gpu in names if gpu_lock_path(gpu) in held]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.partition(".")[0] for gpu in taken)
        command = wish["command"]
        if wish["launch"]:
            for file in held.values():  # the ranks share them
                if not _try(file, fcntl.LOCK_SH):
                    return 75
            command = [*wish["launch"], sys.executable, "-B", __file__, "--rank", *map(str, held), "--", *command]
        else:
            environment.pop("SLURM_PROCID", None)  # a batch job looks like a rank of srun, and is none
        return self._train(command, environment, list(held.values()))

    def _gpus(self, wish: dict) -> list[str]:
        """Names of those that it may take: as the tuner says, or all that the queue gave to it."""
        if wish["gpus"] or not wish["gpu_count"]:
            return wish["gpus"] or []
        # Slurm numbers from 0 in each job where it shows a job its own GPUs alone.
        given = os.environ.get("SLURM_JOB_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES") or ""
        names = [name.strip() for name in given.split(",") if name.strip()]
        if len(names) < wish["gpu_count"]:
            raise Wrong(f"CUDA_VISIBLE_DEVICES names {len(names)} GPUs on {socket.gethostname()} ({given or 'it is empty'}) where a trial "
                        f"has {wish['gpu_count']}; start the worker with it, or give GpuNames in --executor-file")
        return names

    def _take(self, paths: set[pathlib.Path], count: int) -> dict[pathlib.Path, int]:
        """Locks of `count` GPUs: all at once, so that no two attempts wait for each other."""
        while not self.asked_to_stop():
            files = {path: _open_lock(path) for path in sorted(paths)}
            free = [path for path, file in files.items() if _try(file)][:count]
            for path in files.keys() - (set(free) if len(free) == count else set()):
                os.close(files[path])
            if len(free) == count:
                return {path: files[path] for path in free}
            self.stopping |= not self._beat()
            time.sleep(WAIT_SECONDS)
        return {}

    def _beat(self) -> bool:
        """Others see that it lives. False: a later attempt has begun."""
        if time.monotonic() - self._touched > self._every:
            self._touched = time.monotonic()
            os.utime(self.folder / LOCK)
            return self.newest()
        return True

    def _train(self, command: list[str], environment: dict[str, str], held: list[int]) -> int:
        for file in held:
            os.set_inheritable(file, True)
        parent = os.getpid()
        environment[HELD] = ",".join(map(str, held))
        with open(self.folder / "output.txt", "ab") as output, open(self.folder / ERRORS, "wb") as errors:
            try:
                self.child = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, cwd=self.folder,
                                              env=environment,
                                              start_new_session=True, preexec_fn=lambda: _end_with_parent(parent), pass_fds=held)
            except OSError as error:
                errors.write((json.dumps({"errors": [{"message": f"{command[0]}: {error.strerror}"}]}) + "\n").encode())
                return 2
            return self._wait()

    def _wait(self) -> int:
        told = False
        while True:
            try:
                code = self.child.wait(WAIT_SECONDS)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                pass
            if self.asked_to_stop() and not told:
                told = True
                self.stop()
            if not self._beat():
                os.killpg(self.child.pid, signal.SIGKILL)

    def _note_maker(self) -> list[str]:
        """Who has worked on what stands here, before the trainer writes its record anew: where that was two programs, or one on two kinds
        of device, or on other data, nobody else's training is the same."""
        path, record = self.folder / MAKERS, self.folder / RECORD
        makers = read_json(path) if path.exists() else []
        if record.exists():
            maker = made_of(read_json(record))
            if maker not in makers:
                makers.append(maker)
                write_json(path, makers, indent=None)
        return makers

    def _write(self, code: int, seconds: float) -> None:
        record = self.folder / RECORD
        checksum = None
        if code == 0 and record.exists():
            checksum = (read_json(record).get("result") or {}).get("checksum")
        makers = self._note_maker()
        write_json(self.folder / RESULT, {"attempt": self.number, "code": code, "seconds": round(seconds, 3), "checksum": checksum,
                                          "made": makers[0] if len(makers) == 1 else None,
                                          "values": values_of(self.folder / "run/log.jsonl"), "errors": errors_of(self.folder / ERRORS)})


def rank(words: list[str]) -> None:
    """One of several of a training: on each of their hosts GPU and folder stay locked as long as it lives."""
    at = words.index("--")
    for path in words[:at]:
        file = _open_lock(pathlib.Path(path))
        fcntl.flock(file, fcntl.LOCK_SH)
        os.set_inheritable(file, True)
    _end_with_parent()
    os.execvp(words[at + 1], words[at + 1:])


def main() -> int:
    if sys.argv[1] == "--rank":
        return rank(sys.argv[2:])
    if "--with-parent" in sys.argv[3:]:
        _end_with_parent()
    attempt = Attempt(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
    for wanted in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
        signal.signal(wanted, attempt.stop)
    return attempt.run()


if __name__ == "__main__":
    sys.exit(main())
