# SPDX-License-Identifier: Apache-2.0
"""Which row is tried next: by a model of the results, at random, or in order."""
import math
from typing import Callable, Iterable, Sequence

import numpy as np

from ..errors import UsageError
from . import acquisition
from .search import Result, Trial
from .space import Space

SAMPLERS = ("gp", "random", "grid", "tpe", "cmaes")
REPEATABLE = ("gp", "random", "grid")  # whose proposals are functions of the study alone
GRID_LIMIT = 100_000
ALONE_EVERY = 3


class Sampler:
    """A function of its arguments: `propose` gives the same row for the same results. The first `start` rows fill the space
    evenly, before a model has anything to go by."""

    def __init__(self, space: Space, kind: str, seed: int, start: int, prior=acquisition.NoPrior()):
        self.space, self.kind, self.seed, self.start, self.prior = space, kind, seed, start, prior
        self._propose: Callable = {"gp": self._model, "random": self._random, "grid": self._next}.get(kind, self._ask)
        self._grid = None
        if kind not in REPEATABLE:
            from .optuna_samplers import OptunaSampler
            self._optuna = OptunaSampler(space, kind, seed)
        if kind == "grid":
            self._grid = space.product(GRID_LIMIT)
            if self._grid is None:
                ranges = [one.path for one in space.dimensions if one.size is None]
                raise UsageError(f"--sampler grid: {ranges[0]} is a Range, which has no end of values; give it Values" if ranges else
                                 f"--sampler grid: the space has more than {GRID_LIMIT} points; give shorter lists, or take another "
                                 "sampler")

    def propose(self, number: int, results: Sequence[Result], pending: Iterable[Trial]) -> np.ndarray | None:
        return self._propose(number, results, pending)

    def _random(self, number: int, results: Sequence[Result], pending: Iterable[Trial]) -> np.ndarray:
        return acquisition.random_row(self.space, self.seed, number)

    def _next(self, number: int, results: Sequence[Result], pending: Iterable[Trial]) -> np.ndarray | None:
        return self._grid[number] if number < len(self._grid) else None

    def _ask(self, number: int, results: Sequence[Result], pending: Iterable[Trial]) -> np.ndarray:
        return acquisition.start_row(self.space, self.seed, number) if number < self.start else self._optuna.propose(number, results)

    def _model(self, number: int, results: Sequence[Result], pending: Iterable[Trial]) -> np.ndarray:
        known = [result for result in results if math.isfinite(result.value)]
        if number < self.start or (not known and not len(self.prior)):
            return acquisition.start_row(self.space, self.seed, number)
        width = len(self.space)
        rows = np.array([result.row for result in results]).reshape(-1, width)
        values = np.array([result.value for result in results])
        running = np.array([trial.row for trial in pending]).reshape(-1, width)
        # Others may be wrong about a dimension that is then never varied: now and then this study's own results have the say.
        alone = len(known) >= acquisition.FEW and number % ALONE_EVERY == ALONE_EVERY - 1
        return acquisition.model_row(self.space, rows, values, running, self.seed, number, acquisition.NoPrior() if alone else self.prior)
