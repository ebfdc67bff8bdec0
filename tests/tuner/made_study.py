# SPDX-License-Identifier: Apache-2.0
"""Studies without a trainer: the search is the real one, values come from a formula."""
import datetime
import json
import math
import pathlib

import numpy as np

from tuner_case import NETWORK, PARAMETERS
from norn.tune.draws import Draws, START
from norn.tune.facts import Facts, Training
from norn.tune.journal import Journal
from norn.tune.sampler import Sampler
from norn.tune.search import DIVERGED, Plan, Search
from norn.tune.study import ALGORITHM, FORMAT, Study

BEGINNING = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
EPOCHS, RUNGS = 30, (2, 6, 18)


def identity(parameters=None, network=None, **more):
    return {"format": FORMAT, "algorithm": ALGORITHM, "study": "0-0", "descriptor": network or NETWORK,
            "space": {"Parameters": parameters or PARAMETERS},
            "config_digest": "", "space_digest": "", "seed": 1, "clock": 4, "sampler": "gp", "start": 10, "halving": 2,
            "rungs": list(RUNGS),
            "objective": "ndcg@20", "epochs": EPOCHS, "ranks": 1, "inputs": ["train.nc"], "outputs": [],
            "options": ["--validation-split", "0.1"],
            "machine": None, "machine_digest": None, "sources": [],
            "made_of": {"binary": "1", "version": "0.1.0", "device": "cpu", "device_name": "a processor", "precision": "fp32",
                        "examples": 1000,
                        "seed": 1, "sets": [], "validation_sets": []}, **more}


class Made:
    """A study of so many trials that `workers` have made, up to its end or until `values` values are known."""

    def __init__(self, folder: pathlib.Path, trials: int, workers: int = 3, values: float = math.inf, diverging: float = 0.0,
                 sampler: str | None = None,
                 confirm: int = 3, seconds: float = 1.0, **more):
        folder.mkdir(parents=True)
        one = identity(**more)
        (folder / "study.json").write_text(json.dumps(one))
        self.study = Study(folder, one)
        self.journal = Journal(folder)
        self.facts = Facts(self.journal)
        self.left, self.diverging, self.workers = values, diverging, workers
        self.times: list[float] = []
        kept = self.journal.append
        self.now = 0.0
        self.journal.append = lambda event, members: (self.times.append(self.now), kept(event, members))[1]
        self.scale = seconds
        source = Sampler(self.study.space, sampler or one["sampler"], one["seed"], one["start"])
        self.search = Search(self.study.rules, source.propose, lambda n, row: Plan(True, seconds * (1.0 + float(row[0])), EPOCHS),
                             trials=trials)
        self.note("open", {"budget": {"trials": trials, "epochs": None, "seconds": None, "confirm": confirm, "seeds": 3}, "stage": True,
                           "pid": 1, "host": "a",
                           "places": workers})
        self.run()
        if self.search.done and self.left > 0:
            self.end(confirm)
        self.journal.close()
        self.write_times(folder / "journal.jsonl")

    def note(self, event, members):
        self.facts.note(event, members)

    def run(self):
        while True:
            for decision in self.search.advance():
                members = dict(decision.members)
                if decision.event == "propose":
                    members["settings"] = self.study.space.settings(np.array(members["row"]))
                if decision.event == "tell":
                    members["checksum"] = "0"
                self.facts.decide(decision.event, members)
            wanted = self.search.wanted()
            if not wanted or self.left <= 0:
                return
            batch = [(worker, Training(segment.trial), segment.epoch) for worker, segment in enumerate(wanted[:self.workers])]
            self.train(batch)
            for segment in wanted[:self.workers]:
                for epoch in self.search.trials[segment.trial].stops:
                    value = self.facts.best_value(Training(segment.trial), epoch)
                    if epoch <= segment.epoch and value is not None and Training(segment.trial) not in self.facts.broken:
                        self.search.value(segment.trial, epoch, value)

    def train(self, batch):
        """[(worker, training, until)] side by side."""
        ends = []
        for worker, training, until in batch:
            attempt = self.facts.attempts.get(training, -1) + 1
            known = max(self.facts.values.get(training, {}), default=0)
            self.note("submit", {**training.members, "attempt": attempt, "until": until, "place": f"worker {worker}"})
            ends.append((self.now + (until - known) * self.search.trials[training.trial].plan.epoch_seconds, training, until, known,
                         attempt))
        for end in sorted(ends):
            self.left -= 1
            if self.left <= 0:
                return
            self.now = end[0]
            self.outcome(*end[1:])

    def outcome(self, training, until, known, attempt):
        trial = self.search.trials[training.trial]
        draws = Draws(7, START, 1000 * training.trial + (training.seed or 0))
        if draws.uniform(1)[0] < self.diverging and training.seed is None:
            self.note("broken", {**training.members, "state": DIVERGED, "why": 'layer "<b>&</b>": not finite', "seconds": 3.0})
            self.search.broke(training.trial, DIVERGED)
            return
        peak = 0.5 - float(((np.array(trial.row) / np.maximum(1, [one.size or 2
                                                                  for one in self.study.space.dimensions]) - 0.37) ** 2).sum()) * 0.1
        noise = draws.normal(until + 1) * 0.002
        values = {str(epoch): self.study.sign * max(0.01, peak * (1 - math.exp(-epoch / 6)) + float(noise[epoch]))
                  for epoch in range(known + 1, until + 1)}
        self.note("value", {**training.members, "attempt": attempt, "values": values, "checksum": "0",
                            "seconds": (until - known) * self.scale})

    def end(self, confirm):
        done = sorted((t for t in self.search.finished if t.state == "done"), key=lambda t: -t.values[t.stops[-1]])
        if not done:
            return
        wanted = [(Training(one.number, seed), EPOCHS) for one in done[:confirm] for seed in (2, 3, 4)]
        for at in range(0, len(wanted), self.workers):
            self.train([(worker, *one) for worker, one in enumerate(wanted[at:at + self.workers])])
        best = done[0]
        self.note("end", {"best": best.number, "value": self.study.shown(best.values[best.stops[-1]]),
                          "settings": self.facts.decided["propose"][best.number]["settings"], "confirmed": []})

    def write_times(self, path):
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for event, time in zip(events, self.times, strict=True):
            event["time"] = (BEGINNING + datetime.timedelta(seconds=time)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        path.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events), encoding="utf-8")
