# SPDX-License-Identifier: Apache-2.0
"""The programs that steps run. A child inherits the lock of its step, so that nobody else is at work there before it is gone, and is told
to stop when the step is killed."""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
from typing import NoReturn

from .._files import read_json, write_json
from ..errors import Killed, RegionError, Stopped
from ..programs import PROGRAMS, find_program, path_of
from ..tune.trial import HELD, PR_SET_PDEATHSIG
from .days import checksum



class Stop:
    """Whether a signal has come; the child gets it as SIGUSR1, which lets it write a checkpoint."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.child: subprocess.Popen | None = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(number, self._take)

    def _take(self, number: int, _frame) -> None:
        self.number = number
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGUSR1)

    def check(self) -> None:
        if self.number is not None:
            raise Stopped(f"stopped by {signal.Signals(self.number).name}; the same command goes on")


class Programs:
    """Those of the folder that was given, or where norn.programs finds them."""

    def __init__(self, folder: str | None, stop: Stop):
        self.stop = stop
        # That a child inherits: of an attempt in a queue, and more to come.
        self.locks = [int(file) for file in os.environ.pop(HELD, "").split(",") if file]
        self._paths = {name: path_of(name, folder and os.path.join(folder, name), "--bin") for name in PROGRAMS}
        self._tuner = [*find_program("tuner"), "--trainer", str(self._paths["trainer"])]

    @property
    def folder(self) -> pathlib.Path:
        return self._paths["trainer"].parent

    def _words(self, name: str) -> list[str]:
        return self._tuner if name == "tuner" else [str(self._paths[name])]

    def build(self, name: str, cache: pathlib.Path) -> str:
        """A checksum of the program and its library; those of files that have not changed are in `cache`."""
        path = self._paths[name]
        libraries = {found.resolve() for pattern in ("lib*/libnorn.so.*", "lib*/*/libnorn.so.*") for found in path.parents[1].glob(pattern)}
        files = [path, *sorted(libraries)]
        seen = {str(file): [file.stat().st_size, file.stat().st_mtime_ns] for file in files}
        place = cache / f"{name}.build.json"
        known = read_json(place) if place.exists() else {}
        if known.get("seen") != seen:
            known = {"seen": seen, "checksum": [checksum(file) for file in files]}
            cache.mkdir(parents=True, exist_ok=True)
            write_json(place, known)
        return " ".join(known["checksum"])

    def run(self, name: str, words: list[str], folder: pathlib.Path, launch: list[str] | None = None) -> None:
        """To its end, in that folder. RegionError with what it says, or Stopped."""
        self.stop.check()
        command = [*(launch or []), *self._words(name), *words, *([] if name == "tuner" else ["--errors", "json"])]
        library, parent = ctypes.CDLL(None), os.getpid()

        def orphaned() -> None:
            library.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
            if os.getppid() != parent:
                os._exit(Stopped.exit_code)

        said = folder / f"{name}.said.txt"
        try:
            with open(said, "wb") as output:
                self.stop.child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                                   preexec_fn=orphaned, pass_fds=self.locks, start_new_session=True)
            code = self._wait()
        except OSError as error:
            raise RegionError(f"{error.filename or command[0]}: {error.strerror}; mend it, then run the same command again") from error
        if code != 0:
            self._fail(name, code, said)
        said.unlink()

    def _wait(self) -> int:
        told = False
        while True:
            try:
                return self.stop.child.wait(0.2)
            except subprocess.TimeoutExpired:
                if self.stop.number is not None and not told:  # the signal came before there was a child
                    told = True
                    self.stop.child.send_signal(signal.SIGUSR1)

    def _fail(self, name: str, code: int, said: pathlib.Path) -> NoReturn:
        self.stop.check()
        if code in (Stopped.exit_code, -signal.SIGUSR1, -signal.SIGTERM):  # the signals: before it could take them
            raise Stopped(f"{name} was stopped from outside; the same command goes on")
        if code == -signal.SIGKILL:
            raise Killed(f"{name} was killed, by somebody or for its memory; the same command goes on")
        text = said.read_text(encoding="utf-8", errors="replace").splitlines()
        told: list[str] = []
        for line in text:
            if line.startswith("{") and '"errors"' in line:
                told = [_told(error) for error in json.loads(line)["errors"]]
        told = told or [line.partition("error: ")[2] for line in text if f"{name}: error: " in line] or text[-1:] or ["it said nothing"]
        raise RegionError(f"{name} ended with {f'signal {-code}' if code < 0 else f'code {code}'}: {'; '.join(told)}")


def _told(error: dict) -> str:
    where = f"{error['file']}{':' + str(error['line']) if 'line' in error else ''}: " if "file" in error else ""
    return where + error["message"]
