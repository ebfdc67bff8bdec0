# SPDX-License-Identifier: Apache-2.0
"""Samplers of Optuna (--sampler tpe, cmaes), which must be installed. They keep what they have learned in the process: a study that goes on
tells them its results anew, and they may then propose other rows than they would have."""
import importlib
import math
from types import ModuleType
from typing import Any, Sequence

import numpy as np

from ..errors import UsageError
from .dimensions import Choice, Dimension, Ordered
from .search import Result
from .space import Space

PACKAGES = {"tpe": ("optuna",), "cmaes": ("optuna", "cmaes")}


def _load(kind: str) -> ModuleType:
    for name in PACKAGES[kind]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UsageError(f"--sampler {kind}: the Python package {name} is missing; install it (pip install "
                             f"{' '.join(PACKAGES[kind])}), or take --sampler gp, which needs none") from error
    return importlib.import_module("optuna")


class OptunaSampler:
    """Proposes rows of a space. Optuna sees places, not values: scales and multiples are the space's own."""

    def __init__(self, space: Space, kind: str, seed: int):
        self._optuna, self.space = _load(kind), space
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        sampler = {"tpe": "TPESampler", "cmaes": "CmaEsSampler"}[kind]
        self._study = self._optuna.create_study(direction="maximize", sampler=getattr(self._optuna.samplers, sampler)(seed=seed % 2**32))
        self._distributions = {one.path: self._distribution(one) for one in space.dimensions}
        self._asked: dict[int, Any] = {}  # {trial: Optuna's}
        self._told: set[int] = set()

    def _distribution(self, one: Dimension) -> Any:
        of = self._optuna.distributions
        if isinstance(one, Choice):
            return of.CategoricalDistribution(list(range(one.size)))
        return of.IntDistribution(0, one.size - 1) if isinstance(one, Ordered) else of.FloatDistribution(0.0, 1.0)

    def propose(self, number: int, results: Sequence[Result]) -> np.ndarray:
        for result in results:
            if result.trial not in self._told:
                self._tell(result)
        trial = self._study.ask(self._distributions)
        self._asked[number] = trial
        places = [trial.params[one.path] / max(1, one.size - 1) if isinstance(one, Ordered) else float(trial.params[one.path])
                  for one in self.space.dimensions]
        snapped = np.array([float(one.snap(np.array([place]))[0]) for one, place in zip(self.space.dimensions, places)])
        return self.space.settle(snapped[None, :])[0]

    def _tell(self, result: Result) -> None:
        self._told.add(result.trial)
        state = self._optuna.trial.TrialState
        failed = not math.isfinite(result.value)
        if result.trial in self._asked:
            self._study.tell(self._asked.pop(result.trial), None if failed else result.value,
                             state=state.FAIL if failed else state.COMPLETE)
        elif not failed:
            self._study.add_trial(self._optuna.trial.create_trial(params=self._params(result.row), distributions=self._distributions,
                                                                  value=result.value))

    def _params(self, row: np.ndarray) -> dict[str, float]:
        return {one.path: int(round(place * (one.size - 1))) if isinstance(one, Ordered) else int(place) if isinstance(one, Choice)
                else float(place)
                for one, place in zip(self.space.dimensions, row)}
