# SPDX-License-Identifier: Apache-2.0
"""Trials on this machine: so many at a time on the CPU, or one on each GPU (or on each part of one)."""
import os
import re
import subprocess
import sys

from ...errors import UsageError
from . import GONE, RUNNING, TRIAL, Attempt, Place


# As CUDA_VISIBLE_DEVICES takes them: a number, or a GPU's or a part's identifier, which may be cut short.
_GPU = re.compile(r"\d+|(GPU|MIG)-[0-9A-Za-z/-]+")


def gpu_places(text: str, ranks: int = 1) -> list[Place]:
    """"0,1*5,GPU-a0223334": GPUs by number or name; five trials share the second. A trial of several ranks takes as many in turn."""
    gpus = []
    for part in text.split(","):
        gpu, star, count = part.strip().partition("*")
        if not _GPU.fullmatch(gpu) or star and not (count.isdigit() and int(count) > 0):
            raise UsageError(f"--gpus: \"{part}\" is no GPU; write numbers or identifiers (GPU-a0223334) with commas between, and 0*5 for "
                             "five trials that share GPU 0")
        gpus += [gpu if not star else f"{gpu}.{share}" for share in range(int(count or 1))]
    if len(set(gpus)) < len(gpus):
        raise UsageError(f"--gpus: \"{text}\" names a GPU twice; write 0*2 for two trials that share GPU 0")
    if len(gpus) % ranks:
        raise UsageError(f"--gpus: \"{text}\" names {len(gpus)}, and a trial takes {ranks} (--ranks); give a multiple of that")
    groups = [tuple(gpus[at:at + ranks]) for at in range(0, len(gpus), ranks)]
    return [Place(f"gpu {'+'.join(group)}", group) for group in groups]


class Local:
    """Starts trial.py for each attempt; one outlives its tuner, and the next one finds it by its folder."""

    def __init__(self, _settings: dict):
        self._started: dict[str, subprocess.Popen] = {}

    def check(self) -> str:
        return f"this machine, cores: {os.cpu_count()}"

    def submit(self, attempt: Attempt) -> str:
        # A session of its own: control-C at the terminal is for the tuner, which asks each trial to stop.
        self._started[attempt.name] = subprocess.Popen(
            [sys.executable, "-B", str(TRIAL), str(attempt.folder), str(attempt.number)], start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        self._started = {name: process for name, process in self._started.items() if process.poll() is None}
        return {handle: RUNNING if handle in self._started else GONE for handle in handles}

    def stop(self, handle: str) -> None:
        pass  # it does not wait: its folder stops it

    def close(self) -> None:
        self.poll([])
