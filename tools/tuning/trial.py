#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One attempt of a trial, where it is trained: trial.py FOLDER ATTEMPT. FOLDER/attempt.json says what to do, FOLDER/result.json will
say what came of it. Standard library alone.

The lock of the folder, and of a GPU, is inherited by the trainer: neither is free before the trainer is gone, even where this process
was killed with -9. The trainer is then told to write a checkpoint and end."""
import ctypes
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

if __package__:
    from .files import read_json, write_json
else:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    from files import read_json, write_json

LOCK, STOP, ATTEMPT, RESULT, ERRORS = "lock", "stop", "attempt.json", "result.json", "errors.txt"
WAIT_SECONDS, LEASE_SECONDS = 0.1, 5.0
PR_SET_PDEATHSIG = 1


def is_free(folder: pathlib.Path) -> bool:
    """Whether neither an attempt nor its trainer is at work in the folder of a trial."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)


def gpu_lock_path(gpu: str) -> pathlib.Path:
    """One for all studies and users of a host. `gpu` is a number, with its part of it behind a dot, or a name: GPU-a0223334."""
    return pathlib.Path(tempfile.gettempdir()) / f"norn-gpu-{gpu.replace('/', '_')}.lock"


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


def _take(file: int, go_on) -> bool:
    """Waits for a lock as long as `go_on` says."""
    while go_on():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(WAIT_SECONDS)
    return False


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


class Attempt:
    """Runs the trainer until it ends or is to stop."""

    def __init__(self, folder: pathlib.Path, number: int):
        self.folder, self.number = folder, number
        self.child: subprocess.Popen | None = None
        self.stopping = False

    def newest(self) -> bool:
        """Whether nobody has begun a later attempt: a queue may start one twice, or late."""
        try:
            return read_json(self.folder / ATTEMPT)["attempt"] == self.number
        except Exception:  # no longer there, or not yet whole: not ours
            return False

    def asked_to_stop(self) -> bool:
        return self.stopping or (self.folder / STOP).exists()

    def stop(self, *_) -> None:
        self.stopping = True
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGUSR1)

    def run(self) -> int:
        deadline = time.monotonic() + 30.0
        lock = _open_lock(self.folder / LOCK)
        if not _take(lock, lambda: self.newest() and time.monotonic() < deadline) or not self.newest():
            return 0
        wish = read_json(self.folder / ATTEMPT)
        held = [lock]
        for gpu in wish.get("gpus", []):
            held.append(_open_lock(gpu_lock_path(gpu)))
            if not _take(held[-1], lambda: not self.asked_to_stop()):
                break
        begun = time.time()
        code = 75 if self.asked_to_stop() else self._train(wish, held)
        self._write(code, time.time() - begun)
        return 0

    def _train(self, wish: dict, held: list[int]) -> int:
        for file in held:
            os.set_inheritable(file, True)
        library, parent = ctypes.CDLL(None), os.getpid()

        def orphaned() -> None:
            library.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
            if os.getppid() != parent:
                os._exit(75)

        environment = {**os.environ, **wish.get("environment", {})}
        with open(self.folder / "output.txt", "ab") as output, open(self.folder / ERRORS, "wb") as errors:
            try:
                self.child = subprocess.Popen(wish["command"], stdout=output, stderr=errors, stdin=subprocess.DEVNULL, cwd=self.folder, env=environment,
                                              start_new_session=True, preexec_fn=orphaned, pass_fds=held)
            except OSError as error:
                errors.write((json.dumps({"errors": [{"message": f"{wish['command'][0]}: {error.strerror}"}]}) + "\n").encode())
                return 2
            return self._wait()

    def _wait(self) -> int:
        touched, told = 0.0, False
        while True:
            try:
                code = self.child.wait(WAIT_SECONDS)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                pass
            if self.asked_to_stop() and not told:
                told = True
                self.stop()
            if time.monotonic() - touched > LEASE_SECONDS:
                touched = time.monotonic()
                os.utime(self.folder / LOCK)

    def _write(self, code: int, seconds: float) -> None:
        record = self.folder / "run/run.json"
        checksum = None
        if code == 0 and record.exists():
            checksum = (read_json(record).get("result") or {}).get("checksum")
        write_json(self.folder / RESULT, {"attempt": self.number, "code": code, "seconds": round(seconds, 3), "checksum": checksum,
                                          "values": values_of(self.folder / "run/log.jsonl"), "errors": errors_of(self.folder / ERRORS)})


def main() -> int:
    folder, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    attempt = Attempt(folder, number)
    for wanted in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
        signal.signal(wanted, attempt.stop)
    return attempt.run()


if __name__ == "__main__":
    sys.exit(main())
