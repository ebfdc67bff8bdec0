# SPDX-License-Identifier: Apache-2.0
"""Runs a day's steps, so many at a time. It holds nothing that is not in the folders, so it may be killed at any moment: steps that
outlive it hold their locks, and the next runner's wait for them and find what they have made."""
import graphlib
import os
import socket
import sys
import time
from typing import Any

from .._files import read_json, write_json
from .._script import called_as
from ..errors import CommunicationError, RegionError, Stopped
from .days import MADE, STEPS, Day, Lock
from .graph import Node, graph_of
from .plan import Plan
from .regions import Regions
from .serving import CURRENT, Service
from .status import PUBLISHED, state_of

TRIES = 4  # of a step that is killed from outside
STOP_SECONDS = 120.0
SHORTEST_WAIT, LONGEST_WAIT = 0.02, 0.3
REST = "recommend"  # with the model in service, whatever became of today's


class Runner:
    """Of the regions `names`; `command` are the words that a step is called with, before --region and --step; `executor` runs them: Local
    of slots.py, or Queued of queued.py."""

    def __init__(self, regions: Regions, day: Day, plan: Plan, names: list[str], command: list[str], executor: Any, stop: Any, quiet: bool,
                 until: str = STEPS[-1]):
        self.regions, self.day, self.names, self.command = regions, day, names, command
        self.executor, self.stop, self.quiet = executor, stop, quiet
        self._until = until
        self._graph = graph_of(regions, plan, names, until)
        self._order = {node: number for number, node in enumerate(graphlib.TopologicalSorter(self._graph).static_order())}
        self._running: dict[Node, float] = {}  # {step: when it began}
        self._tries: dict[Node, int] = {}
        self._failed: set[str] = set()

    def run(self) -> int:
        """0: all regions are published, or as far as they were to come; RegionError.exit_code."""
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
                time.sleep(wait)
        if self._until != STEPS[-1]:
            return RegionError.exit_code if self._failed else 0
        states = {name: state_of(self.regions, self.day, name) for name in self.names}
        return 0 if all(one.state == PUBLISHED for one in states.values()) else RegionError.exit_code

    def _is_idle(self, node: Node) -> bool:
        """A step whose region has gone no further, but for what the model in service can do."""
        return node.region in self._failed and (node.step != REST or Service(self.regions.serving, node.region).target(CURRENT) is None)

    def _submit(self, ready: list[Node]) -> list[Node]:
        """Begins as many as there is a slot for; the others."""
        waiting = []
        for node in ready:
            if not self.executor.has_room(node):
                waiting.append(node)
                continue
            self.day.region(node.region).outcome(node.step).unlink(missing_ok=True)
            self._running[node] = time.monotonic()
            self.executor.submit(node, [*self.command, "--region", node.region, "--step", node.step])
        return waiting

    def _collect(self) -> list[tuple[Node, bool]]:
        """Steps that have ended, and whether they are to be begun again."""
        return [(node, self._ended(node, self._running.pop(node), again)) for node, again in self.executor.ended().items()]

    def _ended(self, node: Node, begun: float, blameless: bool) -> bool:
        """Says what came of it; True: it is to be begun again, which does not count where it was `blameless`."""
        path = self.day.region(node.region).outcome(node.step)
        outcome = read_json(path) if path.exists() else None
        if outcome is not None and outcome["state"] == MADE:
            self._say(f"{node.region}: {node.step} ({time.monotonic() - begun:.1f} s)")
            return False
        if outcome is None and blameless:
            return True
        self._tries[node] = self._tries.get(node, 0) + 1
        if outcome is None and self._tries[node] < TRIES:
            return True
        self._failed.add(node.region)
        fault = f"it was killed {TRIES} times, or is at fault: {self.executor.output(node)} has what it said"
        why = outcome["message"] if outcome else fault
        print(f"{called_as('daily')}: {node.region}: {node.step}: {why}", file=sys.stderr, flush=True)
        return False

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(f"{called_as('daily')}: {text}", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        self.executor.stop()
        deadline = time.monotonic() + STOP_SECONDS
        while self._running and time.monotonic() < deadline:
            self._collect()
            time.sleep(SHORTEST_WAIT)
        self.stop.check()
        raise Stopped("stopped; the same command goes on")


def hold(day: Day, stop: Any) -> Lock:
    """The lock of a day's runner. CommunicationError: another one has it."""
    lock, owner = Lock(day.own / "runner.lock", stop.check), day.own / "runner.json"
    if lock.try_once():
        write_json(owner, {"host": socket.gethostname(), "pid": os.getpid()})
        return lock
    known = read_json(owner) if owner.exists() else {"pid": "unknown", "host": "this host"}
    raise CommunicationError(f"{day.folder}: another daily is at work on this day, process {known['pid']} on {known['host']}; wait for it, "
                             "or stop it")
