# SPDX-License-Identifier: Apache-2.0
"""What other studies know: of other regions, of yesterday. What they have in common is expected of a row before this study knows anything;
its own process models the rest (the stacked residuals of Google Vizier, Golovin and others, KDD 2017)."""
import functools
import math
import os
import pathlib
from typing import Any, Callable, NamedTuple

import numpy as np

from ..errors import UsageError
from .acquisition import EARLY, FIT_LIMIT, NoPrior, chosen_points, ranked, targets
from .facts import Facts, Training
from .journal import read_events
from .shared import SharedProcess
from .space import Space
from .study import Study

LEAST = 3  # results of a source that say anything
OWN = 2.3  # what a study has for itself has a tenth of the variance of what all have in common, at least: few sources say little of that


class Source(NamedTuple):
    """What a study found, in rows of this study's space; values are larger for better."""

    name: str
    rows: np.ndarray
    values: np.ndarray


class Stack:
    """Expects b times what the sources have in common; b is fitted to this study's values, and is 1 before there are any. The sources are
    fitted when they are first asked: a study that goes on may stand at its end."""

    def __init__(self, space: Space, sources: list[Source]):
        self.sources, self._categories = sources, space.categories
        most = max(LEAST, FIT_LIMIT // len(sources))
        self._fitted = [chosen_points(source.values, most) for source in sources]
        self._values = [source.values[chosen] for source, chosen in zip(sources, self._fitted)]

    @functools.cached_property
    def _common(self) -> SharedProcess:
        return SharedProcess(np.vstack([source.rows[chosen] for source, chosen in zip(self.sources, self._fitted)]),
                             np.concatenate([targets(of, ranks=True) for of in self._values]),
                             np.repeat(np.arange(len(self.sources)), [len(of) for of in self._values]), self._categories)

    @functools.cached_property
    def spread(self) -> float:
        return 0.5 * float(np.median([ranked(of, ranks=True).std() for of in self._values]))

    def __len__(self) -> int:
        return len(self.sources)

    def best(self) -> np.ndarray:
        return np.array([source.rows[int(np.nanargmax(source.values))] for source in self.sources])

    def hyper(self, results: int) -> np.ndarray | None:
        """Lengths and noise of the sources; a residual varies less than what it is left of."""
        common = self._common
        return np.r_[common.hyper[:common.width], max(common.own, common.common - OWN), common.noise] if results <= EARLY else None

    def expected(self, rows: np.ndarray) -> np.ndarray:
        return self._common.mean(rows)

    def residual(self, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        if not len(rows):
            return values, self.expected
        expected = self.expected(rows)
        middle = float(expected.mean())
        deviation = expected - middle
        # Least squares, drawn to 1 as by one more half of a point.
        factor = max(0.0, (float(deviation @ (values - values.mean())) + 0.5) / (float(deviation @ deviation) + 0.5))
        return values - factor * deviation, lambda other: factor * (self.expected(other) - middle)


def read_sources(folders: list[str], study: Study) -> list[dict[str, Any]]:
    """What those studies have found, as this study keeps it: it must not change when they go on."""
    found = []
    for folder in folders:
        path = pathlib.Path(os.path.abspath(folder))
        if not (path / "study.json").exists():
            raise UsageError(f"--from {folder}: holds no study; give the folder of one")
        other = Study.open(path, any_algorithm=True)
        if other.objective.casefold() != study.objective.casefold():
            raise UsageError(f"--from {folder}: that study is of {other.objective}, this one of {study.objective}; they must be the same")
        facts = Facts.read_only(path / "journal.jsonl", read_events(path / "journal.jsonl")[0])
        rows, values = known_results(other, facts, study.space)
        if len(rows) < LEAST:
            raise UsageError(f"--from {folder}: {len(rows)} of its {len(facts.decided['tell'])} results lie within this space, and "
                             f"{LEAST} are needed; give the same parameters and ranges, or leave the study out")
        found.append({"study": other.identity["study"], "folder": str(path), "rows": rows, "values": values})
    return found


def known_results(other: Study, facts: Facts, space: Space) -> tuple[list[list[float]], list[float | None]]:
    """(rows, values) of what has ended there and is a point of this space. What was halved has the value that it came to."""
    rows, values = [], []
    for event in facts.decided["tell"]:
        settings = facts.decided["propose"][event["trial"]]["settings"]
        row = space.row({**_fixed(other, space), **settings})
        if row is None or event["state"] == "infeasible":
            continue
        rows.append([float(place) for place in row])
        values.append(whole_value(other, facts, event))
    return rows, values


def whole_value(other: Study, facts: Facts, event: dict) -> float | None:
    """Of a trial that was halved: with what the others gained in the median from that epoch to their end."""
    if event["value"] is None or event["state"] == "done":
        return event["value"]
    gains = [end["value"] - before for end in facts.decided["tell"] if end["state"] == "done"
             and (before := facts.best_value(Training(end["trial"]), event["epochs"])) is not None]
    return event["value"] + (float(np.median(gains)) if gains else 0.0)


def _fixed(other: Study, space: Space) -> dict[str, Any]:
    """Parameters of this space that the other study did not search: what its descriptor says."""
    from . import descriptor
    searched, found = {one.path for one in other.space.dimensions}, {}
    for one in space.dimensions:
        if one.path in searched:
            continue
        try:
            name, keys = descriptor.split(one.path, [descriptor.name_of(layer) for layer in descriptor.layers_of(other.network)])
        except descriptor.PathError:
            continue
        where = other.network if name is None else next(l for l in descriptor.layers_of(other.network)
                                                        if descriptor.name_of(l).casefold() == name.casefold())
        for key in keys:
            where = descriptor.get(where, key) if isinstance(where, dict) else None
        found[one.path] = where
    return found


def prior_of(study: Study) -> NoPrior | Stack:
    sources = [Source(one["folder"], np.array(one["rows"], dtype=np.float64),
                      np.array([math.nan if value is None else value for value in one["values"]]))
               for one in study.identity.get("sources", [])]
    sources = [source for source in sources if np.isfinite(source.values).any()]
    return Stack(study.space, sources) if sources else NoPrior()
