# SPDX-License-Identifier: Apache-2.0
"""The search as a simulation in logical time that asks for values. Workers supply them, in any order and number.

A trial's epoch takes its planned seconds on one of `slots` logical slots. A slot that falls free at logical time t proposes a trial
from the results that ended by t; trials that run at t count as pending. At a rung a trial is compared with those
that reached it before. So what is proposed and stopped follows from the rules and from the values alone: one worker or
sixty-four, in any order of finishing, killed or not, make the same study (Chandy and Misra 1979 call it conservative)."""
import bisect
import hashlib
import heapq
import json
import math
import statistics
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np

REACH, FREE = 0, 1  # kinds of logical events; at the same time those that reach a rung come first
DONE, HALVED, DIVERGED, INFEASIBLE, FAILED = "done", "halved", "diverged", "infeasible", "failed"
STUCK_AFTER = 100   # proposals in a row that do not fit


@dataclass(frozen=True)
class Rules:
    """What the order of a search follows from, beside its values."""

    slots: int                   # trials at a time, in logical time
    rungs: tuple[int, ...] = ()  # epochs after which trials are compared; none: no halving
    keep: int = 2                # of so many trials at a rung one goes on


class Plan(NamedTuple):
    """What is known of a trial before it is trained."""

    fits: bool
    epoch_seconds: float
    epochs: int


class Decision(NamedTuple):
    """What the search has come to: a line of the journal."""

    event: str  # propose, plan, rung or tell
    members: dict[str, Any]


class Segment(NamedTuple):
    """What is to be trained: that trial to the end of that epoch."""

    trial: int
    epoch: int


@dataclass
class Trial:
    number: int
    row: np.ndarray
    plan: Plan
    slot: int
    start: float
    stops: tuple[int, ...]  # epochs at which it is looked at; the last is its last
    passed: int = 0         # how many of them in logical time
    end: float | None = None
    state: str | None = None
    values: dict[int, float] = field(default_factory=dict)  # {epoch: best value up to it}
    broken: str | None = None                               # how it ended before its time: DIVERGED, FAILED, INFEASIBLE

    def time_of(self, stop: int) -> float:
        return self.start + self.plan.epoch_seconds * self.stops[stop]

    @property
    def reached(self) -> int:
        """Its epochs in logical time."""
        return self.stops[self.passed - 1] if self.passed else 0

    @property
    def known(self) -> bool:
        """Whether what it ended with is known."""
        return self.broken is not None or self.state != DONE or self.stops[-1] in self.values


class Result(NamedTuple):
    """Of a trial that has ended: what a proposal may know."""

    trial: int
    row: np.ndarray
    value: float  # larger is better; nan: it failed


class Results(Sequence):
    """Of the trials that a proposal may know, by number. They are put together when the first one is asked for: a proposal that stands in
    the journal asks for none."""

    def __init__(self, make: Callable[[], list[Result]]):
        self._make = make
        self._made: list[Result] | None = None

    def _all(self) -> list[Result]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, at):
        return self._all()[at]


class Known:
    """Trials that proposals may know, in the order in which they came to be known."""

    def __init__(self, rungs: int):
        self._trials: list[Trial] = []
        self._steps: list[list[float]] = [[] for _ in range(rungs)]  # sorted: what trials gained from each rung to their next stop
        self._digest = hashlib.sha256()

    def add(self, trial: Trial) -> None:
        # Only what it came to in logical time: more may be known, by chance.
        found = [trial.values.get(stop) for stop in trial.stops[:trial.passed]]
        self._trials.append(trial)
        self._digest.update(json.dumps([trial.number, trial.state, [repr(value) for value in found]]).encode())
        for stage, (before, after) in enumerate(zip(found, found[1:])):
            if before is not None and after is not None:
                bisect.insort(self._steps[stage], after - before)

    def digest(self, number: int, pending: Iterable[str]) -> str:
        """Of all that a proposal is computed from, beside the study's own rules; `pending` are the numbers of the trials that run."""
        whole = self._digest.copy()
        whole.update(f"[{number}, [{', '.join(pending)}]]".encode())
        return whole.hexdigest()[:16]

    def results(self) -> list[Result]:
        """By number. What was halved counts with what the others gained, in the median, from that rung to their end: it would be
        taken for a bad one otherwise only because it was short."""
        gains = [statistics.median(steps) if steps else 0.0 for steps in self._steps]
        found = []
        for trial in sorted(self._trials, key=lambda t: t.number):
            value = trial.values.get(trial.reached, math.nan) if trial.state in (DONE, HALVED) else math.nan
            if trial.state == HALVED:
                value += sum(gains[stage] for stage in range(trial.passed - 1, len(trial.stops) - 1))
            found.append(Result(trial.number, trial.row, value))
        return found


class Wants:
    """What is to be trained, kept in order while trials come, go on and are taken by workers: none of it is gone through."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[bool, float, int, int]] = {}  # {trial: (whether it is a guess, its logical time, trial, epoch)}
        self._free: list[tuple[bool, float, int, int]] = []     # sorted: of those that nobody trains
        self._taken: set[int] = set()

    def put(self, trial: int, want: tuple[bool, float, int, int] | None) -> None:
        """Instead of what was wanted of that trial; None: nothing more."""
        old = self._of.pop(trial, None)
        if want is not None:
            self._of[trial] = want
        if old == want or trial in self._taken:
            return
        if old is not None:
            self._remove(old)
        if want is not None:
            bisect.insort(self._free, want)

    def take(self, trial: int) -> None:
        if trial in self._of and trial not in self._taken:
            self._remove(self._of[trial])
        self._taken.add(trial)

    def give_back(self, trial: int) -> None:
        if trial in self._of and trial in self._taken:
            bisect.insort(self._free, self._of[trial])
        self._taken.discard(trial)

    def _remove(self, want: tuple[bool, float, int, int]) -> None:
        del self._free[bisect.bisect_left(self._free, want)]

    def first(self, most: int | None, guesses: bool) -> list[Segment]:
        end = len(self._free) if guesses else bisect.bisect_left(self._free, (True,))
        return [Segment(number, epoch) for _, _, number, epoch in self._free[:end if most is None else min(most, end)]]


class Search:
    """`propose(number, results, pending)` gives a row, or None when there are no more; `plan(number, row)` what is known of it.
    `limits`: trials, epochs and planned seconds, each a number or infinite, after which nothing more is proposed."""

    def __init__(self, rules: Rules, propose: Callable[[int, Sequence[Result], Iterable[Trial]], np.ndarray | None],
                 plan: Callable[[int, np.ndarray], Plan], trials: float = math.inf, epochs: float = math.inf, seconds: float = math.inf):
        self.rules, self._propose, self._plan = rules, propose, plan
        self.trials: list[Trial] = []
        self.limit, self.epoch_limit, self.second_limit = trials, epochs, seconds
        self.spent_epochs, self.spent_seconds = 0, 0.0
        self.finished: list[Trial] = []             # told, in the order of their ends
        self._events = [(0.0, FREE, slot) for slot in range(rules.slots)]
        self._untold: list[tuple[float, int]] = []  # heap of (end, trial)
        self._pending: dict[int, Trial] = {}        # without a result that proposals may know, by number
        self._pending_texts: dict[int, str] = {}    # their numbers
        self._wants = Wants()
        self._changed: set[int] = set()             # trials of which something else may be wanted
        self._ripe = Known(len(rules.rungs))
        self._at_rung: dict[int, list[float]] = {rung: [] for rung in rules.rungs}  # values of those that came there, sorted
        self._now = 0.0
        self._infeasible = 0
        self.exhausted = False

    @property
    def done(self) -> bool:
        """Nothing is to be proposed any more, and everything is told."""
        return not self._events and not self._untold

    @property
    def stuck(self) -> bool:
        """Whether so many proposals in a row did not fit that the search has given up."""
        return self._infeasible >= STUCK_AFTER

    def extend(self, trials: float = math.inf, epochs: float = math.inf, seconds: float = math.inf) -> None:
        """Higher limits, once it is done with the lower ones: what was compared at the end must stay. All slots begin again at one
        time."""
        assert self.done
        self.limit, self.epoch_limit, self.second_limit = trials, epochs, seconds
        self._events = [(self._now, FREE, slot) for slot in range(self.rules.slots)]

    def value(self, trial: int, epoch: int, value: float) -> None:
        """A fact: the best value of that trial up to that epoch."""
        self.trials[trial].values[epoch] = value
        self._changed.add(trial)

    def broke(self, trial: int, how: str) -> None:
        """A fact: it goes no further than the values that are known."""
        self.trials[trial].broken = how
        self._changed.add(trial)

    def take(self, trial: int) -> None:
        """Somebody trains it: meanwhile it is not wanted."""
        self._wants.take(trial)

    def give_back(self, trial: int) -> None:
        """Nobody trains it any more."""
        self._wants.give_back(trial)

    def advance(self) -> list[Decision]:
        """Goes on as far as the known values allow; what was decided, in order within each kind of event."""
        decisions: list[Decision] = []
        while True:
            decisions += self._tell()
            if not self._events:
                return decisions
            time, kind, number = self._events[0]
            self._now = time
            found = self._reach(time, number) if kind == REACH else self._free(time, number)
            if found is None:
                return decisions
            if kind == REACH:
                self._changed.add(number)
            decisions += found

    def wanted(self, speculate: bool = True, most: int | None = None) -> list[Segment]:
        """What is to be trained next and nobody trains, the most urgent first; one segment of each trial, and of `most` trials. After what
        the search waits for come parts of trials whose verdict is not known yet: it may be that they are not needed."""
        for number in self._changed:
            self._wants.put(number, self._want(self.trials[number]))
        self._changed.clear()
        return self._wants.first(most, speculate)

    @staticmethod
    def _want(trial: Trial) -> tuple[bool, float, int, int] | None:
        if trial.broken is not None or trial.state not in (None, DONE):
            return None
        stop = next((n for n, epoch in enumerate(trial.stops) if epoch not in trial.values), None)
        return None if stop is None else (stop > trial.passed, trial.time_of(stop), trial.number, trial.stops[stop])

    def _tell(self) -> list[Decision]:
        """Trials that have ended in logical time, in the order of their ends, as far as their results are known."""
        told = []
        while self._untold and self.trials[self._untold[0][1]].known:
            trial = self.trials[heapq.heappop(self._untold)[1]]
            if trial.broken is not None and trial.state != HALVED and trial.stops[-1] not in trial.values:
                trial.state = trial.broken
            self.finished.append(trial)
            if trial.plan.fits:
                self._ripe.add(trial)
                del self._pending[trial.number], self._pending_texts[trial.number]
            best = trial.values.get(trial.reached) if trial.state in (DONE, HALVED) else None
            told.append(Decision("tell", {"trial": trial.number, "state": trial.state, "epochs": trial.reached, "value": best}))
        return told

    def _end(self, trial: Trial, time: float, state: str) -> None:
        trial.end, trial.state = time, state
        heapq.heappush(self._untold, (time, trial.number))

    def _reach(self, time: float, number: int) -> list[Decision] | None:
        """A trial comes to a rung, or to its last epoch: its slot is free then, whatever its value."""
        trial = self.trials[number]
        epoch = trial.stops[trial.passed]
        last = trial.passed == len(trial.stops) - 1
        if not last and epoch not in trial.values and trial.broken is None:
            return None
        heapq.heappop(self._events)
        self._spend(trial, epoch)
        trial.passed += 1
        if not last and epoch not in trial.values:
            self._at_rung[epoch].insert(0, -math.inf)
            self._end(trial, time, trial.broken)
        elif last:
            self._end(trial, time, DONE)
        else:
            decision, halved = self._compare(trial, epoch)
            if halved:
                self._end(trial, time, HALVED)
                heapq.heappush(self._events, (time, FREE, trial.slot))
            else:
                heapq.heappush(self._events, (trial.time_of(trial.passed), REACH, number))
            return [decision]
        heapq.heappush(self._events, (time, FREE, trial.slot))
        return []

    def _spend(self, trial: Trial, epoch: int) -> None:
        self.spent_epochs += epoch - trial.reached
        self.spent_seconds += (epoch - trial.reached) * trial.plan.epoch_seconds

    def _compare(self, trial: Trial, epoch: int) -> tuple[Decision, bool]:
        """Among those that have reached the rung, one of `keep` goes on; the first ones do."""
        value, others = trial.values[epoch], self._at_rung[epoch]
        better = len(others) - bisect.bisect_right(others, value)
        halved = len(others) >= self.rules.keep and better * self.rules.keep >= len(others) + 1
        bisect.insort(others, value)
        return Decision("rung", {"trial": trial.number, "epoch": epoch, "value": value, "among": len(others) - 1, "better": better,
                                 "decision": HALVED if halved else "goes on"}), halved

    def _free(self, time: float, slot: int) -> list[Decision] | None:
        """A slot proposes its next trial. None: results that it may know are not known yet."""
        over = (len(self.trials) >= self.limit or self.spent_epochs >= self.epoch_limit or self.spent_seconds >= self.second_limit)
        if over or self.exhausted or self.stuck:
            heapq.heappop(self._events)
            return []
        if self._untold:
            return None
        number = len(self.trials)
        row = self._propose(number, Results(self._ripe.results), self._pending.values())
        heapq.heappop(self._events)
        if row is None:
            self.exhausted = True
            return []
        return self._begin(number, row, slot, time, self._ripe.digest(number, self._pending_texts.values()))

    def _begin(self, number: int, row: np.ndarray, slot: int, time: float, digest: str) -> list[Decision]:
        plan = self._plan(number, row)
        stops = (*(rung for rung in self.rules.rungs if rung < plan.epochs), plan.epochs)
        trial = Trial(number, row, plan, slot, time, stops)
        self.trials.append(trial)
        made = [Decision("propose", {"trial": number, "row": [float(x) for x in row], "from": digest}),
                Decision("plan", {"trial": number, "fits": plan.fits, "epoch_seconds": plan.epoch_seconds, "epochs": plan.epochs})]
        if plan.fits:
            self._infeasible = 0
            self._pending[number], self._pending_texts[number] = trial, str(number)
            self._changed.add(number)
            heapq.heappush(self._events, (trial.time_of(0), REACH, number))
        else:
            # Known at once: the next proposal of the same moment may learn from it.
            self._infeasible += 1
            self._end(trial, time, INFEASIBLE)
            self._ripe.add(trial)
            heapq.heappush(self._events, (time, FREE, slot))
        return made
