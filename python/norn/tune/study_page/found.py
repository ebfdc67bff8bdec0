# SPDX-License-Identifier: Apache-2.0
"""What a study has found so far, in the units of its objective, as its page shows it. The study may be running."""
import datetime
import math
import os
import pathlib
import socket
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._files import read_json
from ...errors import DataError
from ..acquisition import chosen_points, targets
from ..borders import Border, at_the_end
from ..facts import Facts, Training
from ..gp import GaussianProcess
from ..journal import LEASE_SECONDS, read_events
from ..search import DONE, HALVED
from ..study import Study
from ..transfer import whole_value

LEAST_RESULTS = 4  # that a surrogate is fitted to
RESAMPLES, BAND = 400, (0.1, 0.9)
DRAWS_SEED = 20  # of the band: the same page each time
ON_THE_WAY = ("waiting", "running", "paused", "interrupted")
MOST_SHOWN = 1000  # trials that are drawn one by one: a browser takes no more
BLIND = ("random", "grid")  # samplers that do not look at results


@dataclass
class Shown:
    """A trial. `value` is as the metric has it; of one that was halved what it had come to."""

    number: int
    state: str  # of its tell event; before one of ON_THE_WAY
    epochs: int
    value: float | None
    whole: float | None  # the same; of one that was halved with what the others gained from there to their end
    seconds: float
    planned: float  # seconds that its epochs were planned to take
    row: list[float]
    settings: dict[str, Any]
    drawn: bool     # proposed without a look at results
    origin: dict[str, Any] | None  # where its end was taken from; None: it was trained


class Found:
    """Of one study's folder; `name` is shown."""

    def __init__(self, folder: pathlib.Path, name: str | None = None):
        self.folder, self.name = folder, name or folder.name
        self.study = Study.open(folder, any_algorithm=True)
        self.events = read_events(folder / "journal.jsonl")[0]
        self.facts = Facts.read_only(folder / "journal.jsonl", self.events)
        self.objective, self.sign = self.study.objective, self.study.sign
        self.status = "ended" if self.facts.ended else "running" if is_running(folder) else "stopped"
        self.told = {event["trial"]: event for event in self.facts.decided["tell"]}
        self.trials = [self._trial(event) for event in self.facts.decided["propose"]]
        # In the order of their ends in logical time.
        self.ended = [self.trials[number] for number in self.told]
        self.best = self._best()

    def _trial(self, event: dict) -> Shown:
        number, training = event["trial"], Training(event["trial"])
        end = self.told.get(number)
        known = max(self.facts.values.get(training, {}), default=0)
        state = end["state"] if end else self._on_the_way(training)
        epochs = end["epochs"] if end else known
        value = end["value"] if end else self.facts.best_value(training, known)
        plans = self.facts.decided["plan"]
        price = plans[number]["epoch_seconds"] if number < len(plans) else 0.0
        drawn = self.study.identity["sampler"] in BLIND or number < self.study.identity["start"]
        whole = whole_value(self.study, self.facts, end) if end else value
        return Shown(number, state, epochs, self.study.shown(value), self.study.shown(whole), self.facts.seconds.get(training, 0.0),
                     price * epochs,
                     event["row"], event["settings"], drawn, self.facts.origin(training, epochs) if end else None)

    def _on_the_way(self, training: Training) -> str:
        """At a rung a trial waits for its turn, or for others' values."""
        if training not in self.facts.attempts and training not in self.facts.values:
            return "waiting"
        return "paused" if training not in self.facts.open else "running" if self.status == "running" else "interrupted"

    def _best(self) -> Shown | None:
        if self.facts.ended:
            return self.trials[self.facts.ended["best"]]
        done = [one for one in self.trials if one.state == DONE]
        return max(done, key=lambda one: (self.sign * one.value, -one.number), default=None)

    @property
    def borders(self) -> list[Border]:
        return at_the_end(self.study, self.facts, self.best.number) if self.best else []

    def shown(self) -> list[Shown]:
        """The trials that are drawn: all, or the best of very many, by number."""
        def rank(one: Shown) -> tuple:
            return one.whole is None, -self.sign * (one.whole or 0.0), one.number
        return sorted(sorted(self.trials, key=rank)[:MOST_SHOWN], key=lambda one: one.number)

    def counts(self) -> dict[str, int]:
        """{state: trials}, the usual ones first."""
        order = {DONE: 0, HALVED: 1}
        states = sorted({one.state for one in self.trials}, key=lambda state: (order.get(state, 2), state))
        return {state: sum(one.state == state for one in self.trials) for state in states}

    def best_so_far(self, weigh) -> list[tuple[float, float]]:
        """(what trials had cost until then, the best value), at each better one and at the end. `weigh(trial)` is a trial's cost."""
        points: list[tuple[float, float]] = []
        spent, best = 0.0, -math.inf
        for one in self.ended:
            spent += weigh(one)
            if one.state == DONE and self.sign * one.value > best:
                best = self.sign * one.value
                points.append((spent, one.value))
        if points and spent > points[-1][0]:
            points.append((spent, points[-1][1]))
        return points

    def random_band(self, weigh) -> list[tuple[float, float, float]]:
        """(cost, low, high): where the best value of a search at random would stand, four times in five: from the trials that were
        proposed before results had a say, drawn again with replacement."""
        drawn = [one for one in self.ended if one.drawn]
        values = np.array([self.sign * one.value if one.state == DONE else -math.inf for one in drawn])
        if len(drawn) < LEAST_RESULTS or not np.isfinite(values).any():
            return []
        costs = np.array([weigh(one) for one in drawn], dtype=np.float64)
        order = np.random.default_rng(DRAWS_SEED).integers(len(drawn), size=(RESAMPLES, len(drawn)))
        best, spent = np.maximum.accumulate(values[order], axis=1), np.cumsum(costs[order], axis=1)
        band = []
        for cost in np.linspace(costs.sum() / len(drawn), costs.sum(), min(40, len(drawn))):
            reached = (spent <= cost * (1 + 1e-9)).sum(axis=1)
            at = np.where(reached > 0, best[np.arange(RESAMPLES), np.maximum(reached - 1, 0)], -math.inf)
            low, high = np.quantile(at, BAND, method="lower")
            if np.isfinite(low):
                band.append((float(cost), *sorted((self.sign * float(low), self.sign * float(high)))))
        return band

    def importances(self) -> list[float]:
        """Of each parameter its share of the sum of inverse length scales of a process that is fitted to all results: where little
        changes over a long way, it matters little. Empty where there are too few results."""
        events = [event for event in self.facts.decided["tell"] if event["state"] != "infeasible"]
        wholes = [self.trials[event["trial"]].whole for event in events]
        values = np.array([math.nan if value is None else self.sign * value for value in wholes])
        if np.isfinite(values).sum() < LEAST_RESULTS or np.nanstd(values) == 0.0:
            return []
        rows = np.array([self.trials[event["trial"]].row for event in events], dtype=np.float64)
        kept = chosen_points(values)
        process = GaussianProcess(rows[kept], targets(values[kept]), self.study.space.categories)
        inverse = 1.0 / process.lengths
        return [float(share) for share in inverse / inverse.sum()]

    def confirmed(self) -> list[dict]:
        """Rows of --confirm: trial, value in the search, values with other seeds, their mean and spread."""
        found: dict[int, list[float]] = {}
        for training in sorted(one for one in self.facts.values if one.seed is not None):
            last = self.trials[training.trial].epochs
            value = self.facts.best_value(training, last)
            if value is not None:
                found.setdefault(training.trial, []).append(self.study.shown(value))
        rows = [{"trial": trial, "value": self.trials[trial].value, "values": values, "mean": float(np.mean(values)),
                 "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None} for trial, values in found.items()]
        return sorted(rows, key=lambda row: -self.sign * row["mean"])

    def taken(self) -> dict[str, int]:
        """{folder of another study: trainings that were taken from it}, those with other seeds too."""
        found: dict[str, int] = {}
        for origins in self.facts.taken.values():
            origin = origins[max(origins)]
            found[str(origin.get("folder"))] = found.get(str(origin.get("folder")), 0) + 1
        return dict(sorted(found.items()))

    def curves(self) -> dict[int, list[tuple[int, float]]]:
        """{trial: its values by epoch}."""
        return {one.number: [(epoch, self.study.shown(value)) for epoch, value in
                             sorted(self.facts.values.get(Training(one.number), {}).items()) if math.isfinite(value)]
                for one in self.shown()}

    def failures(self) -> list[dict]:
        """What went wrong, by kind: how often, in which trials, and what was said last."""
        rows: dict[tuple[str, str], dict] = {}
        for event in self.events:
            if event["event"] == "lost" and event.get("counts", True):
                kind = ("lost, and begun again", str(event.get("code", "")))
            elif event["event"] == "broken":
                kind = (event["state"], {"diverged": "6", "infeasible": "4"}.get(event["state"], ""))
            elif event["event"] == "plan" and not event["fits"]:
                kind = ("planned, and does not fit", "")
            else:
                continue
            row = rows.setdefault(kind, {"what": kind[0], "code": kind[1], "count": 0, "trials": [], "said": ""})
            row["count"] += 1
            row["trials"].append(event.get("trial", "plain"))
            row["said"] = event.get("why", row["said"])
        return sorted(rows.values(), key=lambda row: -row["count"])

    def work(self) -> tuple[list[str], list[dict]]:
        """(places, what each did when): seconds of running, pauses between two tuners left out."""
        clock, places, bars = Clock(self.events), [], []
        begun: dict[Training, dict] = {}
        for event in self.events:
            training = Training(event.get("trial", -1), event.get("seed"))
            if event["event"] == "submit":
                begun[training] = event
                if event["place"] not in places:
                    places.append(event["place"])
            elif event["event"] in ("value", "lost", "broken") and training in begun:
                start = begun.pop(training)
                bars.append(self._bar(start, clock.at(event["n"]), event["event"], clock))
        if self.status == "running":
            bars += [self._bar(start, clock.now, "running", clock) for start in begun.values()]
        return sorted(places, key=_natural), bars

    @staticmethod
    def _bar(start: dict, end: float, how: str, clock: "Clock") -> dict:
        return {"place": start["place"], "from": clock.at(start["n"]), "to": end, "trial": start.get("trial", "plain"),
                "seed": start.get("seed"), "until": start["until"], "how": how}


class Clock:
    """Seconds of running by the numbers of events: a tuner that begins goes on where the one before stopped."""

    def __init__(self, events: list[dict]):
        self._at, spent, last = {}, 0.0, None
        for event in events:
            moment = _seconds(event["time"])
            if last is not None and event["event"] != "open":
                spent += max(0.0, moment - last)
            last = moment
            self._at[event["n"]] = spent
        self.now = spent + (max(0.0, time.time() - last) if last is not None else 0.0)

    def at(self, number: int) -> float:
        return self._at[number]


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _natural(name: str) -> list[tuple]:
    """Worker 2 before worker 10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.replace(".", " ").split(" ")]


def is_running(folder: pathlib.Path) -> bool:
    """Whether a tuner is at work on the study, as far as its lease says."""
    try:
        lease, touched = read_json(folder / "lease.json"), (folder / "lease.json").stat().st_mtime
        if lease["host"] != socket.gethostname():
            return time.time() - touched < LEASE_SECONDS
        os.kill(int(lease["pid"]), 0)
        return True
    except PermissionError:
        return True  # another user's
    except (OSError, DataError, KeyError, TypeError, ValueError):
        return False
