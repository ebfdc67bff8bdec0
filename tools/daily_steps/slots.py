# SPDX-License-Identifier: Apache-2.0
"""Where steps run: so many at a time on this machine, or one on each GPU (or on each part of one). What came of a step is said by its
folder alone, so that whatever else can start a command could stand here."""
import fcntl
import os
import pathlib
import signal
import subprocess
import time
from typing import NamedTuple

from tuning import trial
from tuning.executors.local import gpu_places

from .programs import Programs

WAITING, RUNNING, GONE = "waiting", "running", "gone"


class Slot(NamedTuple):
    """`gpu`: its number or name, with the part of it behind a dot; empty: the CPU."""

    name: str
    gpu: str = ""

    @property
    def words(self) -> list[str]:
        """That a step is called with besides."""
        return ["--gpus", self.gpu] if self.gpu else []


def slots_of(count: int, gpus: str | None) -> list[Slot]:
    if gpus:
        return [Slot(place.name, place.gpus[0]) for place in gpu_places(gpus)]
    return [Slot(f"slot {number}") for number in range(count)]


def on_gpu(gpu: str, programs: Programs) -> None:
    """The step's programs see that GPU alone, and hold its lock: while one of them is there nobody else takes it."""
    file = os.open(trial.gpu_lock_path(gpu), os.O_RDWR | os.O_CREAT, 0o666)
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            programs.stop.check()
            time.sleep(trial.WAIT_SECONDS)
    programs.locks.append(file)
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu.partition(".")[0]


class Local:
    """Starts steps as processes of their own, which go on when their runner is killed."""

    def __init__(self, output: pathlib.Path):
        self._output = output
        self._started: dict[str, subprocess.Popen] = {}

    def submit(self, words: list[str], slot: Slot) -> str:
        """Its handle."""
        with open(self._output, "ab") as output:
            process = subprocess.Popen([*words, *slot.words], start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._started[str(process.pid)] = process
        return str(process.pid)

    def poll(self, handles: list[str]) -> dict[str, str]:
        return {handle: RUNNING if self._started[handle].poll() is None else GONE for handle in handles}

    def stop(self, handle: str) -> None:
        if self._started[handle].poll() is None:
            self._started[handle].send_signal(signal.SIGUSR1)
