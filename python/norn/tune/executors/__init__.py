# SPDX-License-Identifier: Apache-2.0
"""What trials run on. An executor has check(), submit(), poll() and stop(), and knows nothing of studies. Queues forget work, do it
twice, and say of it what is not so: what they say is a hint. What came of an attempt is said by the folder of its trial alone (pool.py).

A handle is the attempt's name, known before it is submitted: nothing is lost between the two, and another tuner finds it."""
import bisect
import pathlib
import sys
from collections import Counter
from typing import Iterable, NamedTuple, Protocol

WAITING, RUNNING, GONE = "waiting", "running", "gone"
TRIAL = pathlib.Path(__file__).resolve().parents[1] / "trial.py"
JOB_OUTPUT = "job.txt"  # in a trial's folder: what its queue had to say


class Place(NamedTuple):
    """Where one trial runs at a time."""

    name: str
    gpus: tuple[str, ...] = ()  # names, each with its part behind a dot; the executor's own alone


class FreePlaces:
    """Places without an attempt, in their order. An earlier tuner may have had others."""

    def __init__(self, places: list[Place]):
        self._places = places
        self._number = {place.name: number for number, place in enumerate(places)}
        self._free = list(range(len(places)))
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._free)

    def first(self, most: int) -> list[Place]:
        return [self._places[number] for number in self._free[:most]]

    def take(self, place: Place) -> None:
        self._taken[place.name] += 1
        if self._taken[place.name] == 1 and place.name in self._number:
            del self._free[bisect.bisect_left(self._free, self._number[place.name])]

    def give_back(self, place: Place) -> None:
        self._taken[place.name] -= 1
        if not self._taken[place.name] and place.name in self._number:
            bisect.insort(self._free, self._number[place.name])


class Attempt(NamedTuple):
    """One try to train a trial to some epoch."""

    folder: pathlib.Path
    number: int
    study: str  # its id, or the beginning of that
    place: Place

    @property
    def name(self) -> str:
        return f"norn-{self.study[:8]}-{self.folder.name}-a{self.number}"


class Executor(Protocol):
    """All raise CommunicationError where what they speak to cannot be reached."""

    def check(self) -> str:
        """A line of what is there; raises where nothing could run."""

    def submit(self, attempt: Attempt) -> str:
        """Its handle. What is submitted twice begins once: the folder sees to that."""

    def poll(self, handles: list[str]) -> dict[str, str]:
        """WAITING, RUNNING or GONE of each, as far as is known; GONE only makes the folder count."""

    def stop(self, handle: str) -> None:
        """Takes out of the queue what has not begun. What has begun is stopped through its folder."""

    def close(self) -> None:
        """At the end; what runs goes on."""


def command_of(folder: pathlib.Path | str, number: int) -> list[str]:
    """That runs an attempt and ends with what started it."""
    return [sys.executable, "-B", str(TRIAL), str(folder), str(number), "--with-parent"]


def all_are(handles: Iterable[str], state: str) -> dict[str, str]:
    return dict.fromkeys(handles, state)
