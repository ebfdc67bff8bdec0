# SPDX-License-Identifier: Apache-2.0
"""What goes on beside training: callables that are given an Environment.

A function is called after every epoch (`env.kind == "epoch"`) and after every validation ("validation"). Whatever it
raises stops the run and is raised by `fit`, but StopTraining, which ends the run there. A Callback is told of more, and
may bring settings of the engine with it.
"""
from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import UsageError


class StopTraining(Exception):
    """Raised in a callback: the run ends here, without an error, with the model as it stands."""


@dataclasses.dataclass
class Environment:
    """Where a run stands, or stood: every call has its own. The history alone is the run's and goes on."""

    kind: str  #: "begin", "step", "epoch", "validation", "checkpoint", "end"
    report: Mapping[str, Any]  #: all that the engine says of it
    history: list[dict]  #: a dictionary for each epoch so far
    epoch: int = 0  #: counted from 1
    epochs: int = 0
    step: int = 0
    cost: float | None = None  #: of training, of the epoch so far
    rate: float | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)  #: of the last validation, "ndcg@10"
    best: bool = False  #: whether that was the best


def listed(callbacks: Any) -> list[Callable]:
    """Of one callback or several. Raises UsageError for what cannot be called."""
    if callbacks is None:
        return []
    if not callable(callbacks) and not isinstance(callbacks, Iterable):
        raise UsageError(f"`callbacks` {callbacks!r}: expected a function, or a list of functions and callbacks of norn")
    found = [callbacks] if callable(callbacks) else list(callbacks)
    for one in found:
        if not callable(one):
            raise UsageError(f"`callbacks`: {one!r} cannot be called")
        if isinstance(one, type) and issubclass(one, Callback):
            raise UsageError(f"`callbacks`: {one.__name__} is a class; call it, as in norn.{one.__name__}(...)")
    return found


class Callback:
    """A callback with settings of its own."""

    #: Seconds between reports of steps; None: it wants none.
    step_seconds: float | None = None

    def settings(self) -> dict[str, Any]:
        """Settings of the run that it stands for."""
        return {}

    def rate(self, epoch: int, rate: float) -> float:
        """The learning rate of an epoch, counted from 1, in place of the schedule's."""
        return rate

    def __call__(self, env: Environment) -> None:
        pass


class early_stopping(Callback):
    """Ends the run when `metric` ("ndcg@20", "recall@10", "loss") has not become better for `patience` validations, and
    keeps the best model. It needs a validation: `fit(..., validation=0.1)`."""

    def __init__(self, metric: str, patience: int = 5, min_delta: float | None = None):
        self._settings = {"early_stop": metric, "patience": patience, "min_delta": min_delta}

    def settings(self) -> dict[str, Any]:
        return self._settings


class run_folder(Callback):
    """Records the run in a folder, as `trainer --run-dir` does: log, curves, what it takes to make it again."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = os.fspath(folder)

    def settings(self) -> dict[str, Any]:
        return {"run_dir": self.folder}


class checkpoints(Callback):
    """Writes the model to a file, and checkpoints beside it, from which a run that was killed goes on when it is started
    again."""

    def __init__(self, model: str | os.PathLike, epochs: int | None = None, minutes: float | None = None, keep: int | None = None):
        self._settings = {"model": os.fspath(model), "resume": "auto", "checkpoint_epochs": epochs, "checkpoint_minutes": minutes, "keep": keep}

    def settings(self) -> dict[str, Any]:
        return self._settings


class reset_rate(Callback):
    """Sets the learning rate of every epoch: a sequence with one for each, the last of which stays, or a function of the
    epoch, counted from 1, and the schedule's rate."""

    def __init__(self, rates: Sequence[float] | Callable[[int, float], float]):
        if not callable(rates) and len(rates) == 0:
            raise UsageError("`rates`: is empty, expected a rate for each epoch")
        self.rates = rates

    def rate(self, epoch: int, rate: float) -> float:
        if callable(self.rates):
            return self.rates(epoch, rate)
        return self.rates[min(epoch, len(self.rates)) - 1]


class progress(Callback):
    """Shows how far the run is on stderr: with tqdm where it is installed, else a line an epoch."""

    step_seconds = 0.2

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, env: Environment) -> None:
        if env.kind == "begin":
            self._begin(env)
        elif self._bar is not None:
            self._show(env)
        elif env.kind in ("epoch", "validation"):
            print(f"epoch {env.epoch} of {env.epochs}: {_words(env)}", file=sys.stderr)

    def _begin(self, env: Environment) -> None:
        self._examples = env.report["examples"]
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=env.epochs * self._examples, initial=env.report["first_examples"], unit=" examples", unit_scale=True)

    def _show(self, env: Environment) -> None:
        if env.kind == "end":
            self._bar.close()
            self._bar = None
            return
        done = env.epoch * self._examples
        if env.kind == "step":
            done += env.report["examples"] - self._examples
        self._bar.set_description(f"epoch {env.epoch} of {env.epochs}", refresh=False)
        self._bar.set_postfix_str(_words(env), refresh=False)
        self._bar.update(done - self._bar.n)


def _words(env: Environment) -> str:
    words = [] if env.cost is None else [f"cost {env.cost:.5g}"]
    return ", ".join(words + [f"{name} {value:.4f}" for name, value in list(env.metrics.items())[:3]])
