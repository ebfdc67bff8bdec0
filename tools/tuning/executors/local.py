# SPDX-License-Identifier: Apache-2.0
"""Trials on this machine: so many at a time on the CPU, or one on each GPU (or on each part of one)."""
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

from ..errors import UsageError
from ..trial import is_free

TRIAL = pathlib.Path(__file__).resolve().parents[1] / "trial.py"


class Place(NamedTuple):
    """Where one trial runs at a time."""

    name: str
    gpus: tuple[str, ...] = ()               # locks to take
    environment: tuple[tuple[str, str], ...] = ()


def gpu_places(text: str) -> list[Place]:
    """"0,1*5,GPU-a0223334": GPUs by number or name; five trials share the second."""
    places = []
    for part in text.split(","):
        gpu, star, count = part.strip().partition("*")
        if not gpu or star and not (count.isdigit() and int(count) > 0):
            raise UsageError(f"--gpus: \"{part}\" is no GPU; write numbers or names with commas between, and 0*5 for five trials that share GPU 0")
        for share in range(int(count or 1)):
            lock = gpu if not star else f"{gpu}.{share}"
            places.append(Place(f"gpu {lock}", (lock,), (("CUDA_VISIBLE_DEVICES", gpu),)))
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        raise UsageError(f"--gpus: \"{text}\" names a GPU twice; write 0*2 for two trials that share GPU 0")
    return places


def cpu_places(workers: int) -> list[Place]:
    return [Place(f"worker {number}") for number in range(workers)]


class Local:
    """Starts trial.py for each attempt; one that outlived its tuner is adopted."""

    def __init__(self, places: list[Place]):
        self.places = places
        self._started: dict[pathlib.Path, subprocess.Popen] = {}

    def submit(self, folder: pathlib.Path, attempt: int) -> None:
        # A session of its own: control-C at the terminal is for the tuner, which asks each trial to stop.
        self._started[folder] = subprocess.Popen([sys.executable, "-B", str(TRIAL), str(folder), str(attempt)], start_new_session=True,
                                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                 env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def gone(self, folder: pathlib.Path) -> bool:
        """Neither the attempt nor its trainer is there any more; the folder says what came of it."""
        process = self._started.get(folder)
        if process is not None and process.poll() is None:
            return False
        if not is_free(folder):
            return False
        self._started.pop(folder, None)
        return True

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
