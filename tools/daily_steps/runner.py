# SPDX-License-Identifier: Apache-2.0
"""Runs a day's steps, so many at a time, on what the tuner runs trials on: a step is an attempt in a folder of its own. It holds nothing
that is not in the folders, so it may be killed at any moment; steps that outlive it are found by the next one."""
import graphlib
import os
import pathlib
import socket
import sys
import time
from typing import Any

from tuning import trial
from tuning.errors import ExecutorError, Stopped
from tuning.files import read_json, write_json

from .days import Day, Lock
from .errors import SOME_NOT_PUBLISHED
from .graph import Node, graph_of
from .plan import Plan
from .regions import Regions
from .serving import Service
from .status import FAILED, HELD_BACK, PUBLISHED, state_of

TRIES = 4  # of a step that is killed from outside
STOP_SECONDS = 120.0
SHORTEST_WAIT, LONGEST_WAIT = 0.02, 0.5
STOPPED = 75
REST = "recommend"  # with the model in service, whatever became of today's


class Runner:
    """Of the regions `names`; `command` are the words that a step is called with, before --region and --step."""

    def __init__(self, regions: Regions, day: Day, plan: Plan, names: list[str], command: list[str], executor: Any, stop: Any, quiet: bool):
        self.regions, self.day, self.names, self.command = regions, day, names, command
        self.executor, self.stop, self.quiet = executor, stop, quiet
        self._graph = graph_of(regions, plan, names)
        self._order = {node: number for number, node in enumerate(graphlib.TopologicalSorter(self._graph).static_order())}
        self._running: dict[Node, tuple[str, int]] = {}  # {step: (place, attempt)}
        self._tries: dict[Node, int] = {}
        self._begun: dict[Node, float] = {}
        self._failed: set[str] = set()

    def run(self) -> int:
        """0: all regions are published; SOME_NOT_PUBLISHED."""
        sorter = graphlib.TopologicalSorter(self._graph)
        sorter.prepare()
        ready: list[Node] = []
        wait = SHORTEST_WAIT
        while sorter.is_active():
            if self.stop.number is not None:
                self._stop()
            ready = sorted([*ready, *sorter.get_ready()], key=self._order.get)
            for node in [one for one in ready if self._is_idle(one)]:
                ready.remove(node)
                sorter.done(node)
            ready = self._submit(ready)
            ended = self._collect()
            for node, again in ended:
                if again:
                    ready.append(node)
                else:
                    sorter.done(node)
            wait = SHORTEST_WAIT if ended else min(2 * wait, LONGEST_WAIT)
            if self._running and not ended:
                self.executor.wait(wait)
        states = {name: state_of(self.regions, self.day, name) for name in self.names}
        return 0 if all(one.state == PUBLISHED for one in states.values()) else SOME_NOT_PUBLISHED

    def _is_idle(self, node: Node) -> bool:
        """A step whose region has gone no further, but for what the model in service can do."""
        return node.region in self._failed and (node.step != REST or Service(self.regions.serving, node.region).current() is None)

    def _folder(self, node: Node) -> pathlib.Path:
        return self.day.own / "jobs" / node.region / node.step

    def _submit(self, ready: list[Node]) -> list[Node]:
        """Begins as many as there is a place for; the others."""
        taken = {place for place, _ in self._running.values()}
        free = [place for place in self.executor.places if place.name not in taken]
        for node, place in zip(ready, free):
            self._begin(node, place)
        return ready[len(free):]

    def _begin(self, node: Node, place: Any) -> None:
        folder = self._folder(node)
        folder.mkdir(parents=True, exist_ok=True)
        known = read_json(folder / trial.ATTEMPT)["attempt"] if (folder / trial.ATTEMPT).exists() else -1
        self._begun[node] = time.monotonic()
        if known >= 0 and not trial.is_free(folder):  # it has outlived an earlier runner
            self._running[node] = place.name, known
            return
        for name in (trial.STOP, trial.RESULT):
            (folder / name).unlink(missing_ok=True)
        write_json(folder / trial.ATTEMPT, {"attempt": known + 1, "command": [*self.command, "--region", node.region, "--step", node.step],
                                            "gpus": list(place.gpus), "environment": dict(place.environment)})
        self._running[node] = place.name, known + 1
        self.executor.submit(folder, known + 1)

    def _collect(self) -> list[tuple[Node, bool]]:
        """Steps that have ended, and whether they are to be begun again."""
        ended = []
        for node, (_, attempt) in list(self._running.items()):
            folder = self._folder(node)
            if not self.executor.gone(folder):
                continue
            del self._running[node]
            result = read_json(folder / trial.RESULT) if (folder / trial.RESULT).exists() else None
            code = result["code"] if result is not None and result["attempt"] == attempt else None
            ended.append((node, self._ended(node, code)))
        return ended

    def _ended(self, node: Node, code: int | None) -> bool:
        """Says what came of it; True: it is to be begun again."""
        seconds = f"{time.monotonic() - self._begun[node]:.1f} s"
        if code == 0:
            self._say(f"{node.region}: {node.step} ({seconds})")
            return False
        lost = code is None or code == STOPPED or code > 128
        self._tries[node] = self._tries.get(node, 0) + lost
        if lost and self._tries[node] < TRIES:
            return True
        self._failed.add(node.region)
        state = state_of(self.regions, self.day, node.region)
        known = state.state in (HELD_BACK, FAILED) and state.where == node.step
        why = state.why if known else self._last_words(node) or f"it ended with code {code}"
        print(f"daily: {node.region}: {node.step}: {why}", file=sys.stderr, flush=True)
        return False

    def _last_words(self, node: Node) -> str:
        try:
            lines = (self._folder(node) / trial.ERRORS).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1].removeprefix("daily: error: ") if lines else ""

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(f"daily: {text}", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        for node in self._running:
            (self._folder(node) / trial.STOP).touch()
        deadline = time.monotonic() + STOP_SECONDS
        while self._running and time.monotonic() < deadline:
            self._collect()
            self.executor.wait(LONGEST_WAIT)
        self.stop.check()
        raise Stopped("stopped; the same command goes on")


def hold(day: Day, stop: Any) -> Lock:
    """The lock of a day's runner. ExecutorError: another one has it."""
    lock, owner = Lock(day.own / "runner.lock", stop.check), day.own / "runner.json"
    if lock.try_once():
        write_json(owner, {"host": socket.gethostname(), "pid": os.getpid()})
        return lock
    known = read_json(owner) if owner.exists() else {"pid": "unknown", "host": "this host"}
    raise ExecutorError(f"{day.folder}: another daily is at work on this day, process {known['pid']} on {known['host']}; wait for it, or stop it")
