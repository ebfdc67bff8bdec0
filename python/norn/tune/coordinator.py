# SPDX-License-Identifier: Apache-2.0
"""Runs a study: writes down what the search decides, gives trainings to the executor, and tells the search what came of them. It
holds nothing that is not in the journal or in the trials' folders, so it may be killed at any moment."""
import math
import os
import pathlib
import shutil
import signal
import time
from typing import Iterable, Sequence

import numpy as np

from .._files import read_json, write_json
from ..errors import CommunicationError, DataError, DeviceError, DivergenceError, Error, Killed, Stopped, UsageError, error_of
from . import program, trial
from .executors import Attempt, FreePlaces, Place
from .executors.pool import LOST, UNBEGUN, Pool
from .facts import PLAIN, Facts, Training, best_until
from .finish import Finish
from .known import Known
from .sampler import Sampler
from .search import DIVERGED, FAILED, INFEASIBLE, STUCK_AFTER, Decision, Plan, Search
from .study import Study

STOP_SECONDS = 120.0
SHORTEST_WAIT, LONGEST_WAIT = 0.01, 0.5
REST = 4.0           # after looking at what runs, in the time that this took: with thousands of attempts that is not nothing
SWEPT_A_PASS = 20    # folders; a study that goes on has one for each of its trials


class Coordinator:
    """Of one study, while it runs; after `hours` nothing more is proposed."""

    def __init__(self, study: Study, facts: Facts, trainer: program.Trainer, pool: Pool, sampler: Sampler, hours: float | None,
                 threads: int, voice, known: Known | None = None):
        self.study, self.facts, self.trainer, self.pool, self.sampler = study, facts, trainer, pool, sampler
        self.threads, self.voice, self.known = threads, voice, known
        self.search = Search(study.rules, self._propose, self._plan, trials=0)
        self._stage = -1
        self.finish = Finish(study, facts, facts.budget["confirm"], facts.budget["seeds"], facts.budget.get("plain", False))
        self.running: dict[Training, Attempt] = {}
        self._free = FreePlaces(pool.places)
        self._training_of: dict[Attempt, Training] = {}  # of what runs
        self._useless: set[Training] = set()    # whose models nobody needs, while they run
        self._swept_next: list[Training] = []   # and when they do not
        self._written: set[Training] = set()    # whose descriptor this process has written
        self._mine: set[Training] = set()       # whose newest attempt is this process's
        self.signal: int | None = None
        self.deadline = time.monotonic() + 3600.0 * hours if hours else None
        self._waited, self._rest = SHORTEST_WAIT, 0.0

    # The search's questions. What was answered before stands in the journal.

    def _propose(self, number: int, results: Sequence, pending: Iterable) -> np.ndarray | None:
        known = self.facts.decided["propose"]
        if number < len(known):
            return np.array(known[number]["row"], dtype=np.float64)
        self.facts.journal.touch()
        return self.sampler.propose(number, results, pending)

    def _plan(self, number: int, row: np.ndarray) -> Plan:
        known = self.facts.decided["plan"]
        if number < len(known):
            return Plan(known[number]["fits"], known[number]["epoch_seconds"], known[number]["epochs"])
        network = self.study.network_of(self.study.space.settings(row))
        config = self._write_network(Training(number), network)
        try:
            price = self.trainer.plan(config)
        except program.Failed as failed:
            if failed.code == DeviceError.exit_code:
                return Plan(False, 0.0, 0)
            raise failed.as_error(f"trials/{number:04d}/net.json: {failed.said}; the space permits what the trainer does not: "
                                                 f"begin a study with another space (an If, or a smaller range)") from failed
        return program.plan_of(price, network, self.study.identity["made_of"]["examples"])

    def _write_network(self, training: Training, network: dict) -> pathlib.Path:
        folder = self.study.trial_folder(training.folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "net.json", network, lasting=False)  # written anew by each tuner, and after each loss
        self._written.add(training)
        return folder / "net.json"

    # The loop.

    def run(self) -> dict:
        """To the end of the study; the result. Stopped: by a signal."""
        self._adopt()
        while True:
            wanted = self._missing()
            if self.signal is not None:
                self._stop()
            self._submit(wanted)
            self._sweep()
            if not self.running and not wanted:
                break
            self.voice.at_work(self)
            self._collect()
        if self.search.stuck:
            raise UsageError(f"{self.study.folder}: {STUCK_AFTER} proposals in a row do not fit into the memory of the planned machine; "
                             f"begin a study with a smaller space, or plan for another --machine")
        self._sweep(len(self._swept_next))
        return self.finish.conclude(self.search, self.trainer, self.voice.warn)

    def handle(self, number: int, _frame) -> None:
        """Of a signal: the first asks all trials for a checkpoint; with the second they go on alone, and the next tuner finds them."""
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number

    def _advance(self) -> None:
        last = self._stage == len(self.facts.stages) - 1
        if self.deadline is not None and time.monotonic() > self.deadline and last and self.search.limit > len(self.search.trials):
            self.facts.note("limit", {"stage": self._stage, "trials": len(self.search.trials)})
            self.search.limit = len(self.search.trials)
        news = True
        while news:
            decisions = self.search.advance()
            for decision in decisions:
                self._decide(decision)
            # In a study that goes on, values of what has just been proposed may be known.
            fresh = [decision.members["trial"] for decision in decisions if decision.event == "propose"]
            news = any([self._feed(number) for number in fresh]) or self._next_stage()

    def _next_stage(self) -> bool:
        """A higher budget counts when the search is done with the one before: so it does not matter when it was given."""
        if not self.search.done or self._stage == len(self.facts.stages) - 1:
            return False
        self._stage += 1
        self.search.extend(**{key: value for key, value in self.facts.stages[self._stage].items() if key != "cut"})
        return True

    def _feed(self, number: int) -> bool:
        """Tells the search what is known of a trial and it has not been told; True: something."""
        one, training, news = self.search.trials[number], Training(number), False
        for stop in one.stops:
            if stop not in one.values and self._reached(training, stop):
                self.search.value(number, stop, self.facts.best_value(training, stop))
                news = True
        broken = self.facts.broken.get(training)
        if broken is not None and one.broken is None:
            self.search.broke(number, broken)
            news = True
        return news

    def _reached(self, training: Training, epoch: int) -> bool:
        """Whether it was trained to the end of that epoch."""
        return any(at >= epoch for at in self.facts.checksums.get(training, {}))

    def _decide(self, decision: Decision) -> None:
        members = dict(decision.members)
        training = Training(members["trial"])
        if decision.event == "propose":
            members["settings"] = self.study.space.settings(members["row"])
        if decision.event == "tell":
            members["checksum"] = self.facts.checksums.get(training, {}).get(members["epochs"])
        new = self.facts.decide(decision.event, members)
        if decision.event == "tell":
            if new:
                self.voice.told(self, members)
            for number in self.finish.ended(self.search.trials[training.trial]):
                self._discard(Training(number))
            if training in self.running:  # it went on while its verdict was not known
                self.pool.stop(self.running[training])

    def _discard(self, training: Training) -> None:
        """Models stay of those that may be the best, checkpoints of none that has ended; records stay of all."""
        if training in self.running:
            self._useless.add(training)
        elif training in self.facts.attempts:
            self._swept_next.append(training)

    def _sweep(self, most: int = SWEPT_A_PASS) -> None:
        """The newest first: behind them may be all that ended before this tuner began."""
        if self._swept_next:
            self.facts.journal.sync()
        for _ in range(min(most, len(self._swept_next))):
            training = self._swept_next.pop()
            if training in self.running:  # since an earlier tuner began it
                self._useless.add(training)
                continue
            folder = self.study.trial_folder(training.folder)
            for name in os.listdir(folder) if folder.exists() else ():
                if name.startswith("model") and name.endswith(".nc"):
                    (folder / name).unlink(missing_ok=True)

    def _wanted(self) -> list[tuple[Training, int]]:
        """Trainings to make that nobody makes yet, and to which epoch, the most urgent first; one for each free place at most."""
        if self.search.done:
            return [one for one in self.finish.wanted(self.search) if one[0] not in self.running]
        found = [(Training(segment.trial), segment.epoch) for segment in self.search.wanted(most=max(1, len(self._free)))]
        # Nothing waits for it before the end, so it goes where there is a place to spare.
        spare = len(found) < len(self._free) and PLAIN not in self.running
        return found + (self.finish.plain_wanted() if spare else [])

    def _missing(self) -> list[tuple[Training, int]]:
        """The same, when all is taken that was made before: what was taken may want more."""
        while True:
            self._advance()
            wanted = self._wanted()
            if not any([self._take(training, epoch) for training, epoch in wanted]):
                return wanted

    def _take(self, training: Training, epoch: int) -> bool:
        """What came of the same training before counts as if it were trained now. No place is needed, and no time but the planned one
        passes."""
        if self.known is None or epoch in self.facts.checksums.get(training, {}):  # it is known, and trained for its model
            return False
        key = self._key(training, epoch, self.known.made if self.pool.is_here else self.facts.made)
        found = self.known.find(key) if key is not None else None
        if found is None:
            return False
        values = {int(at): value for at, value in found.members.get("values", {}).items()}
        if self.facts.differing(training, values) is not None:
            self.known.doubt(key, f"trials/{training.folder}", found)
            return False
        self.facts.note(found.event, {**training.members, **found.members, "seconds": 0.0, "key": key, "taken": found.origin})
        if training.seed is None:
            self._feed(training.trial)
        else:
            self.voice.took(training, found.origin)
        return True

    def _key(self, training: Training, epoch: int, made: str | None) -> str | None:
        """Of a training to the end of that epoch by what `made` stands for; None: that is not known."""
        if self.known is None or made is None or training == PLAIN:
            return None
        return self.known.key(training, self.facts.decided["propose"][training.trial]["settings"], epoch, made)

    def _made(self, training: Training, result: dict) -> dict[str, str]:
        """For others, who may want the same."""
        key = self._key(training, self.facts.open[training]["until"], result.get("made"))
        return {"key": key, "made": result["made"]} if key is not None else {}

    def _submit(self, wanted: list[tuple[Training, int]]) -> None:
        begun = [training for (training, epoch), place in zip(wanted, self._free.first(len(wanted))) if self._begin(training, epoch, place)]
        if not begun:
            return
        self.facts.journal.sync()  # what came of the attempts before, and what begins now
        for training in begun:
            folder = self.study.trial_folder(training.folder)
            for name in (trial.STOP, trial.RESULT):
                (folder / name).unlink(missing_ok=True)
            self.pool.submit(self.running[training])

    def _runs(self, training: Training, attempt: Attempt) -> None:
        self.running[training] = attempt
        self._training_of[attempt] = training
        self._free.take(attempt.place)
        if training.of_search:
            self.search.take(training.trial)

    def _rests(self, attempt: Attempt) -> Training:
        training = self._training_of.pop(attempt)
        del self.running[training]
        self._free.give_back(attempt.place)
        if training.of_search:
            self.search.give_back(training.trial)
        if training in self._useless:
            self._useless.discard(training)
            self._swept_next.append(training)
        return training

    def _begin(self, training: Training, epoch: int, place: Place) -> bool:
        """Makes an attempt ready; False: not yet."""
        folder = self.study.trial_folder(training.folder)
        attempt = self.facts.attempts.get(training, -1) + 1
        if training not in self._mine and self._attempt_in(folder) >= attempt:
            if not self._begin_anew(folder):
                return False
            self._written.discard(training)
        self._mine.add(training)
        if training not in self._written or training in self.facts.lost_in_row:
            settings = {} if training == PLAIN else self.facts.decided["propose"][training.trial]["settings"]
            self._write_network(training, self.study.network_of(settings))
        examples = self.finish.asks_examples(training, epoch, self.search)
        # First: an earlier attempt that comes to its turn only now ends.
        write_json(folder / trial.ATTEMPT, {"attempt": attempt, "until": epoch, **self.pool.members(place),
                                            "command": self.trainer.command(epoch, training.seed, self.threads, examples)}, indent=None,
                                            lasting=False)
        self.facts.note("submit", {**training.members, "attempt": attempt, "until": epoch, "place": place.name,
                                   **({"examples": True} if examples else {})})
        self._runs(training, self._attempt(training, attempt, place))
        self._waited = SHORTEST_WAIT
        return True

    @staticmethod
    def _attempt_in(folder: pathlib.Path) -> float:
        """The number of the newest attempt there; -1: none."""
        if not (folder / trial.ATTEMPT).exists():
            return -1
        try:
            return read_json(folder / trial.ATTEMPT)["attempt"]
        except DataError:  # a power cut left a piece of it
            return math.inf

    def _attempt(self, training: Training, number: int, place: Place) -> Attempt:
        return Attempt(self.study.trial_folder(training.folder), number, self.study.identity["study"], place)

    def _begin_anew(self, folder: pathlib.Path) -> bool:
        """The folder is ahead of the journal: that is an older copy, or lines were removed. What is trained again has the same bits.
        False: somebody is at work there still."""
        if trial.Lease(folder).held:
            (folder / trial.STOP).touch()
            return False
        shutil.rmtree(folder)
        return True

    def _adopt(self) -> None:
        """Attempts of an earlier tuner: they have ended, run still, or are gone."""
        self._advance()
        for training, event in self.facts.open.items():
            self._runs(training, self._attempt(training, event["attempt"], Place(event["place"])))

    def _collect(self) -> None:
        """Looks after what runs, and waits a little where nothing has ended."""
        if self.running and self._rest > SHORTEST_WAIT:
            self.pool.wait(self._rest)
        begun = time.thread_time()
        ended = self.pool.ended(self.running.values())
        self._rest = REST * (time.thread_time() - begun)
        for attempt, how in ended.items():
            training = self._rests(attempt)
            self._outcome(training, attempt, how)
            if training.of_search:
                self._feed(training.trial)
        if ended:
            self._waited = SHORTEST_WAIT
        else:
            self.facts.journal.touch()
            self.pool.wait(self._waited)
            self._waited = min(2 * self._waited, LONGEST_WAIT)

    def _outcome(self, training: Training, attempt: Attempt, how: str) -> None:
        if how == UNBEGUN:
            self._lost(training, CommunicationError.exit_code, "the attempt never began", 0.0, counts=False)
            return
        if how == LOST:
            self._lost(training, Killed.exit_code, "the attempt ended without a result", 0.0)
            return
        result = read_json(attempt.folder / trial.RESULT)
        code, seconds = result["code"], result["seconds"]
        values = {int(epoch): self.study.sign * value for epoch, value in result["values"].items()}
        said = "; ".join(error["message"] for error in result["errors"]) or f"exit code {code}"
        if training == PLAIN and code in (2, 3, DivergenceError.exit_code, DeviceError.exit_code):
            self._plain_failed(code, said, seconds)
        elif code == 0:
            self._trained(training, values, result)
        elif code == DivergenceError.exit_code:
            self.facts.note("broken", {**training.members, "state": DIVERGED, "why": said, "seconds": seconds,
                                       **self._made(training, result)})
        elif code == DeviceError.exit_code:
            self.facts.note("broken", {**training.members, "state": INFEASIBLE, "why": said, "seconds": seconds})
        elif code in (2, 3):
            self._lost(training, code, said, seconds, counts=False)
            raise error_of(f"trials/{training.folder}: {said}", code)
        else:
            self._lost(training, code, said, seconds, counts=code != Stopped.exit_code)

    def _plain_failed(self, code: int, said: str, seconds: float) -> None:
        """The search goes on without the comparison."""
        state = {DivergenceError.exit_code: DIVERGED, DeviceError.exit_code: INFEASIBLE}.get(code, FAILED)
        self.facts.note("broken", {**PLAIN.members, "state": state, "why": said, "seconds": seconds})
        self.voice.warn(f"warning: the plain recipe {state} ({said}); the best trial is not compared with it")

    def _trained(self, training: Training, values: dict[int, float], result: dict) -> None:
        try:
            self.facts.compare(training, values)
        except Error:
            self._lost(training, 0, "it gave another value than before", result["seconds"])
            raise
        until = self.facts.open[training]["until"]
        if best_until(values, until) is None:
            raise UsageError(f"trials/{training.folder}: nothing was validated up to epoch {until}; give a smaller --validate-every, or "
                             "later --rungs")
        self.facts.note("value", {**training.members, "attempt": result["attempt"], "values": {str(epoch): value for epoch, value in
                        sorted({**values, until: values.get(until, best_until(values, until))}.items())},
                        "checksum": result["checksum"], "seconds": result["seconds"], **self._made(training, result)})

    def _lost(self, training: Training, code: int, why: str, seconds: float, counts: bool = True) -> None:
        members = {**training.members, "attempt": self.facts.attempts[training], "code": code, "why": why, "seconds": seconds,
                   "counts": counts}
        again = not counts or self.facts.tries_left(training, code)
        self.facts.note("lost", members)
        if not again:
            self.facts.note("broken", {**training.members, "state": FAILED, "why": why, "seconds": 0.0})
        if counts:
            self.voice.lost(training, why, again)

    def _stop(self) -> None:
        """Every trial writes a checkpoint; what has ended is written down."""
        for attempt in self.running.values():
            self.pool.stop(attempt)
        deadline = time.monotonic() + STOP_SECONDS
        while self.running and time.monotonic() < deadline:
            self._collect()
        raise Stopped(f"{self.study.folder}: stopped by {signal.Signals(self.signal).name}; the same command goes on")

    def give_up(self) -> None:
        """Nothing more is to be trained: every trial writes a checkpoint and ends."""
        self.signal = signal.SIGTERM
        try:
            self._stop()
        except Stopped:
            pass
