# SPDX-License-Identifier: Apache-2.0
"""A study whose trainings are curves that are drawn from their settings: the real coordinator, journal and search, and workers of random
speeds that lose work. Their time is simulated, so thousands of trainings take seconds."""
import heapq
import json
import math
import pathlib
from typing import NamedTuple

import numpy as np

import tuner_case  # noqa: F401  (where the package is)
from tuner_case import NETWORK
from programs import BIN
from norn.tune import trial
from norn.tune.coordinator import Coordinator
from norn.tune.executors import Attempt, Place
from norn.tune.executors.pool import ENDED, LOST, UNBEGUN
from norn.tune.facts import TRIES, Facts
from norn._files import write_json
from norn.tune.journal import Journal
from norn.tune.program import Price, Trainer
from norn.tune.sampler import Sampler
from norn.tune.study import ALGORITHM, FORMAT, Study

PARAMETERS = {"Training.Alpha": {"Range": [1e-4, 1e-1], "Scale": "log"}, "Training.Batch": {"Values": [32, 64, 128, 256]},
              "Layers.Hidden.N": {"Whole": [64, 1024], "Multiple": 64}, "Layers.Hidden.Activation": {"Names": ["Tanh", "Relu"]}}
EPOCHS, RUNGS, EXAMPLES = 18, (2, 6), 1000


class Curves:
    """value(settings, epoch), seconds an epoch and failures, all of the settings alone; a trainer as far as the coordinator asks one."""

    def __init__(self, seed):
        self.seed = seed

    def _luck(self, network, what):
        training, hidden = network["Training"], next(layer for layer in network["Layers"] if layer["Name"] == "Hidden")
        of = [round(math.log(training["Alpha"]) * 1e6) + 2**40, training["Batch"], hidden["N"], len(hidden["Activation"])]
        return np.random.default_rng([self.seed, what, *of]).uniform(), training, hidden

    def value(self, network, epoch):
        luck, training, hidden = self._luck(network, 1)
        best = 1.0 - 0.1 * (math.log(training["Alpha"] / 3e-3)) ** 2 - 0.2 * abs(math.log2(hidden["N"] / 512))
        best -= 0.1 * (training["Batch"] > 100)
        return round(best - (0.3 + 0.3 * luck) / epoch, 9)

    def breaks(self, network):
        """The epoch at which it diverges."""
        luck, training, _ = self._luck(network, 2)
        return 2 if training["Alpha"] > 0.05 and luck < 0.5 else math.inf

    def epoch_seconds(self, network):
        luck, training, hidden = self._luck(network, 3)
        return hidden["N"] / 500.0 * (1.0 + 16.0 / training["Batch"]) * (0.8 + 0.4 * luck)

    def plan(self, config):
        network = json.loads(config.read_text())
        hidden = next(layer for layer in network["Layers"] if layer["Name"] == "Hidden")
        fits = hidden["N"] < 1024 or network["Training"]["Batch"] < 256
        return Price(fits, EXAMPLES / self.epoch_seconds(network), 1)

    def examples(self, network, epoch):
        """The value of each example that was held out."""
        luck = np.random.default_rng([self.seed, 4, epoch])
        return [self.value(network, epoch) + one for one in luck.uniform(-0.5, 0.5, EXAMPLES // 20)]

    def command(self, until, seed, threads, examples=False):
        return ["train", str(until), *(["--validation-values"] if examples else [])]

    def compare(self, *asked):
        """As the real evaluator says it."""
        return Trainer(BIN / "trainer", [], [], [], "ndcg@20", None, 1).compare(*asked)


class Work(NamedTuple):
    """An attempt that runs, to the end of epoch `until` from that of `known`."""

    attempt: Attempt
    network: dict
    known: int
    until: int
    begun: float
    examples: bool
    stopped: bool = False


class Workers:
    """A pool of them, each with a speed of its own for each attempt, which differ by `noise`. What they have made before they were lost
    stays made, as by a checkpoint. At each look up to `together` have ended."""

    def __init__(self, curves, count, chance, loss=0.0, together=1, noise=0.05):
        self.curves, self.chance, self.loss, self.together, self.noise = curves, chance, loss, together, noise
        self.places = [Place(f"worker {number}") for number in range(count)]
        self.now, self.begun, self.last_proposal = 0.0, 0, 0.0
        self.spans = []  # (trial, epoch from which, until which, begin, end) of what was trained
        self._ends, self._known, self._begun, self._losses = [], set(), set(), {}
        self._entry, self._stopped = {}, set()

    def members(self, place):
        return {}

    def submit(self, attempt):
        self._known.add(attempt)
        self._begun.add(attempt)
        self.begun += 1
        network = json.loads((attempt.folder / "net.json").read_text())
        wish = json.loads((attempt.folder / trial.ATTEMPT).read_text())
        until, examples = wish["until"], "--validation-values" in wish["command"]
        done = attempt.folder / "epochs"
        known = int(done.read_text()) if done.exists() else 0
        self.last_proposal = self.now if known == 0 else self.last_proposal
        seconds = max(until - known, 0) * self.curves.epoch_seconds(network) * self.chance.lognormvariate(0, self.noise)
        self._entry[attempt] = (self.now + seconds, self.begun, Work(attempt, network, known, until, self.now, examples))
        heapq.heappush(self._ends, self._entry[attempt])

    def lose(self, chance):
        """Half of what runs is gone; what a tuner finds is either at its end or gone."""
        for attempt in sorted(self._known, key=lambda one: self._entry[one][1]):
            if not self._unlucky(attempt, chance, 0.5):
                self._make(self._entry[attempt][2])
        self._ends, self._known = [], set()

    def _unlucky(self, attempt, chance, loss):
        """Whether it is lost: not so often in a row that its trial would count as failed."""
        lost = chance.random() < loss and self._losses.get(attempt.folder, 0) < TRIES - 2
        self._losses[attempt.folder] = self._losses.get(attempt.folder, 0) + 1 if lost else 0
        return lost

    def stop(self, attempt):
        """It ends at its next step, and its last whole epoch stays."""
        if attempt in self._known and attempt not in self._stopped:
            self._stopped.add(attempt)
            end, number, work = self._entry[attempt]
            whole = math.floor((work.until - work.known) * (self.now - work.begun) / (end - work.begun)) if end > work.begun else 0
            heapq.heappush(self._ends, (self.now, number, work._replace(until=work.known + whole, stopped=True)))

    def ended(self, attempts):
        """The next ones in simulated time; those that another tuner began are lost with it."""
        if len(attempts) != len(self._known):  # another tuner began some
            strange = [attempt for attempt in attempts if attempt not in self._known]
            return {attempt: self._end(attempt) for attempt in strange}
        return dict(self._next() for _ in range(min(self.together, len(self._known))))

    def _next(self):
        while True:
            end, _, work = heapq.heappop(self._ends)
            if work.attempt in self._known:  # else it was stopped before
                break
        self.now = end
        self._known.discard(work.attempt)
        if self._unlucky(work.attempt, self.chance, self.loss):
            return work.attempt, LOST
        self.spans.append((work.attempt.folder.name, work.known, work.until, work.begun, self.now))
        self._make(work)
        return work.attempt, ENDED

    def useful(self, decided):
        """Share of the workers' time until the last proposal in which they trained epochs that the search's decisions take, for the first
        time."""
        reached = {f"{event['trial']:04d}": event["epochs"] for event in decided["tell"]}
        used = sum(min(end, self.last_proposal) - min(begin, self.last_proposal)
                   for name, known, _, begin, end in self.spans if known < reached.get(name, 0))
        return used / (len(self.places) * self.last_proposal)

    def _make(self, work):
        attempt, network, until = work.attempt, work.network, work.until
        broken = self.curves.breaks(network) <= until
        values = {epoch: self.curves.value(network, epoch) for epoch in range(1, until + 1)}
        (attempt.folder / "epochs").write_text(str(until))
        checksum = f"{hash(tuple(values.items())) & (2**64 - 1):016x}"
        found = {"attempt": attempt.number, "code": 6 if broken else 75 if work.stopped else 0, "seconds": 1.0, "values": values,
                 "errors": [], "checksum": checksum}
        (attempt.folder / trial.RESULT).write_text(json.dumps(found))
        (attempt.folder / "model.nc").write_text(checksum)
        if work.examples and found["code"] == 0:
            (attempt.folder / "run").mkdir(exist_ok=True)
            lines = [f"{number}\t{float(one)!r}\n" for number, one in enumerate(self.curves.examples(network, until))]
            (attempt.folder / "run/validation_values.tsv").write_text("example\tndcg@20\n" + "".join(lines))

    def _end(self, attempt):
        path = attempt.folder / trial.RESULT
        if path.exists() and json.loads(path.read_text())["attempt"] == attempt.number:
            return ENDED
        return LOST if attempt in self._begun else UNBEGUN

    def wait(self, seconds):
        assert self._ends, "nothing runs, and the coordinator waits"


class Silence:
    """Says nothing of all that happens."""

    def __getattr__(self, name):
        return lambda *_, **__: None


def begin(folder: pathlib.Path, sampler="random", clock=8, start=10, seed=1, rungs=RUNGS) -> Study:
    folder.mkdir(parents=True, exist_ok=True)
    network = json.loads(json.dumps(NETWORK))
    network["Training"].update(Alpha=0.01, Batch=64, Epochs=EPOCHS)
    network["Layers"][1].update(N=64, Activation="Tanh")
    identity = {"format": FORMAT, "algorithm": ALGORITHM, "study": "simulated", "descriptor": network, "space": {"Parameters": PARAMETERS},
                "seed": seed,
                "clock": clock, "sampler": sampler, "start": start, "halving": 2, "rungs": list(rungs), "ranks": 1, "objective": "ndcg@20",
                "epochs": None,
                "inputs": [], "outputs": [], "options": [], "machine": None, "made_of": {"examples": EXAMPLES, "seed": 1}}
    write_json(folder / "study.json", identity)
    return Study.open(folder)


def run(study, workers, trials, confirm=0, **budget):
    """To the end, from what stands in the journal; (its decisions by kind, facts)."""
    journal = Journal(study.folder)
    try:
        facts = Facts(journal)
        facts.note("open", {"budget": {"trials": trials, "epochs": None, "seconds": None, "confirm": confirm, "seeds": 2, **budget},
                            "stage": not facts.stages})
        one = study.identity
        coordinator = Coordinator(study, facts, workers.curves, workers, Sampler(study.space, one["sampler"], one["seed"], one["start"]),
                                  None, 1, Silence())
        facts.note("end", coordinator.run())
        return facts.decided, facts
    finally:
        journal.close()
