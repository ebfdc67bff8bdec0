# SPDX-License-Identifier: Apache-2.0
"""Steps as work of the tuner's executors: each is an attempt as a trial is one, with its lease, in a folder of its own (.daily/steps of the
day). What a queue loses is submitted anew; what it doubles ends at once; an attempt that an earlier runner has left there is waited for.

A search is a process of this machine, whose trials go to the queue: it waits most of the time, and would keep a slot from what it waits
for. So few slots are no deadlock, however many regions are searched at once."""
import argparse
import pathlib
import re
import sys
import unicodedata
from typing import Any, NamedTuple

from .._files import JsonText, read_json, write_json
from .._script import called_as
from ..errors import Stopped, UsageError
from ..tune import trial
from ..tune.executors import Attempt, Place
from ..tune.executors.pool import ENDED, LOST, Pool
from ..tune.executors.settings import Settings, make
from .days import ON_GPU, Day, digest_of
from .graph import Node
from .slots import Local, Slot
from .step import is_made

SEARCH = "tune"
NAME_LETTERS = 20
HERE = Slot("this machine")


class Running(NamedTuple):
    """An attempt, and the pool that it is in."""

    attempt: Attempt
    pool: Pool


def pools_of(wish: argparse.Namespace) -> dict[bool, Pool]:
    """{whether a step uses a GPU: a pool}"""
    def warn(text: str) -> None:
        print(f"{called_as('daily')}: {text}", file=sys.stderr, flush=True)
    if wish.gpus:
        raise UsageError("--gpus: are those of this machine; give Gpus, how many a step and a trial have, in a file for --executor "
                         f"{wish.executor} (--executor-file)")
    text = JsonText(wish.executor_file) if wish.executor_file else None
    pools = {}
    for on_gpu in (True, False):
        settings = Settings(wish.executor, 1, text)
        if not on_gpu:
            settings["Gpus"] = settings["GpuNames"] = None
        pools[on_gpu] = Pool(make(settings), [Place(wish.executor)], settings, warn)
    return pools


def name_of(node: Node) -> str:
    """As every queue takes it: a region has blanks and other letters in its name."""
    plain = unicodedata.normalize("NFKD", node.region).encode("ascii", "ignore").decode().lower()
    return f"{re.sub('[^a-z0-9]+', '', plain)[:NAME_LETTERS]}-{digest_of(node.region)[:6]}-{node.step}"


class Queued:
    """Steps in a queue, at most `slots` at a time; `search_words`: what a search is called with besides, for its trials; `work_of` gives
    what a step works with."""

    def __init__(self, day: Day, pools: dict[bool, Pool], slots: int, search_words: list[str], work_of: Any):
        self._day, self._pools, self._slots = day, pools, slots
        self._search_words, self._work_of = search_words, work_of
        self._here = Local(day.own / "steps.txt", [])
        self._running: dict[Node, Running] = {}
        self._made: set[Node] = set()  # before they were submitted
        self._mine: set[Node] = set()  # whose newest attempt is this runner's, or was looked after by it
        self._id = digest_of(str(day.folder))[:8]

    def has_room(self, node: Node) -> bool:
        return node.step == SEARCH or len(self._running) < self._slots

    def submit(self, node: Node, words: list[str]) -> None:
        if is_made(node.step, self._work_of(node)):
            self._made.add(node)
        elif node.step == SEARCH:
            self._here.start(node, [*words, *self._search_words], HERE)
        else:
            self._queue(node, words)

    def _queue(self, node: Node, words: list[str]) -> None:
        folder, pool = self._folder(node), self._pools[node.step in ON_GPU]
        folder.mkdir(parents=True, exist_ok=True)
        wish = {**pool.members(pool.places[0]), "executor": pool.settings.executor, "command": words}
        known = read_json(folder / trial.ATTEMPT) if (folder / trial.ATTEMPT).exists() else {"attempt": -1}
        attempt = Attempt(folder, known["attempt"], self._id, pool.places[0])
        left = node not in self._mine and known == {"attempt": attempt.number, **wish} and not (folder / trial.STOP).exists()
        self._mine.add(node)
        if left and self._code(attempt) is None:  # by an earlier runner; a pool looks after it as after its own
            self._running[node] = Running(attempt, pool)
            return
        attempt = attempt._replace(number=known["attempt"] + 1)
        write_json(folder / trial.ATTEMPT, {"attempt": attempt.number, **wish})  # first: an earlier one that comes late ends
        for name in (trial.STOP, trial.RESULT):
            (folder / name).unlink(missing_ok=True)
        self._running[node] = Running(attempt, pool)
        pool.submit(attempt)

    def _folder(self, node: Node) -> pathlib.Path:
        return self._day.own / "steps" / name_of(node)

    @staticmethod
    def _code(attempt: Attempt) -> int | None:
        """That it has ended with."""
        path = attempt.folder / trial.RESULT
        result = read_json(path) if path.exists() else {"attempt": None}
        return result["code"] if result["attempt"] == attempt.number else None

    def ended(self) -> dict[Node, bool]:
        """{step that has ended: whether it only has to be begun again: it never began, or was preempted}"""
        found = {**self._here.ended(), **dict.fromkeys(self._made, False)}
        self._made.clear()
        for pool in self._pools.values():
            of = {one.attempt: node for node, one in self._running.items() if one.pool is pool}
            for attempt, how in pool.ended(of).items():
                found[of[attempt]] = how != LOST and (how != ENDED or self._code(attempt) == Stopped.exit_code)
                del self._running[of[attempt]]
        return found

    def stop(self) -> None:
        self._here.stop()
        for attempt, pool in self._running.values():
            pool.stop(attempt)

    def output(self, node: Node) -> pathlib.Path:
        """What the step has said."""
        return self._here.output(node) if node.step == SEARCH else self._folder(node) / trial.ERRORS

    def close(self) -> None:
        """At the end; what runs goes on."""
        for pool in self._pools.values():
            pool.executor.close()
