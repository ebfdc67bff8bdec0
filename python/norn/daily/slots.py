# SPDX-License-Identifier: Apache-2.0
"""Where steps run: so many at a time on this machine, or one on each GPU (or on each part of one). What came of a step is said by its
folder alone, so that whatever else can start a command stands here, too (queued.py)."""
import fcntl
import os
import pathlib
import signal
import subprocess
import time
from typing import NamedTuple

from ..tune import trial
from ..tune.executors.local import gpu_places
from .graph import Node
from .programs import Programs


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


def see_gpu(gpu: str) -> None:
    """The step's programs see that GPU alone."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu.partition(".")[0]


def hold_gpu(gpu: str, programs: Programs) -> None:
    """The step's programs hold its lock: while one of them is there nobody else takes it."""
    file = os.open(trial.gpu_lock_path(gpu), os.O_RDWR | os.O_CREAT, 0o666)
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            programs.stop.check()
            time.sleep(trial.WAIT_SECONDS)
    programs.locks.append(file)


class Local:
    """Starts steps as processes of their own, which go on when their runner is killed."""

    def __init__(self, output: pathlib.Path, slots: list[Slot]):
        self._output, self._slots = output, slots
        self._started: dict[Node, tuple[Slot, subprocess.Popen]] = {}

    def has_room(self, _node: Node) -> bool:
        return len(self._started) < len(self._slots)

    def submit(self, node: Node, words: list[str]) -> None:
        taken = {slot for slot, _ in self._started.values()}
        self.start(node, words, next(slot for slot in self._slots if slot not in taken))

    def start(self, node: Node, words: list[str], slot: Slot) -> None:
        with open(self._output, "ab") as output:
            process = subprocess.Popen([*words, *slot.words], start_new_session=True, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output)
        self._started[node] = slot, process

    def ended(self) -> dict[Node, bool]:
        """{step that has ended: whether it only has to be begun again}"""
        found = {node: False for node, (_, process) in self._started.items() if process.poll() is not None}
        for node in found:
            del self._started[node]
        return found

    def stop(self) -> None:
        for _, process in self._started.values():
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)

    def output(self, _node: Node) -> pathlib.Path:
        """What the step has said."""
        return self._output

    def close(self) -> None:
        """At the end; what runs goes on."""
