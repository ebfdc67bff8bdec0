# SPDX-License-Identifier: Apache-2.0
"""Metrics of held-out units, as a mapping and as a table."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import _core
from ._words import choice, count
from .errors import UsageError

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    from ._types import Facts


class Resampling(NamedTuple):
    """How examples are drawn. level: the share of the resampled means that lie in an interval; resamples: how many there are; seed: of
    the draws."""

    level: float = 0.95
    resamples: int = 2000
    seed: int = 1

    @classmethod
    def of(cls, level: float, resamples: int, seed: int, name: str = "level") -> Resampling:
        """Raises UsageError naming what is out of range; `name`: that of the level."""
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
            raise UsageError(f"`{name}` {level!r}: expected a number between 0 and 1, such as 0.95")
        return cls(float(level), count("resamples", resamples, 1, 100_000), count("seed", seed, 0, 2**64 - 1))


def lengths_of(k: int | Iterable[int]) -> list[int]:
    """Lengths of lists, of one or several. Raises UsageError for what is none."""
    return [count("k", one) for one in (k if isinstance(k, Iterable) else [k])]


def asked_metrics(also: str | Iterable[str], trained_on: object, propensity: object) -> list[str]:
    """Names of metrics that are asked for. Raises UsageError where what they take is not there."""
    names = [also] if isinstance(also, str) else list(also)
    for name in names:
        choice("also", name, ("auc", "novelty", "diversity"))
    if trained_on is None:
        asked = [name for name in names if name != "auc"]
        if asked or propensity is not None:
            argument, metric = ("also", asked[0]) if asked else ("propensity", "psp")
            raise UsageError(f"`{argument}`: {metric} counts units in the training data: give them with `trained_on`")
    if propensity is not None and not (isinstance(propensity, (tuple, list)) and len(propensity) == 2
                                       and all(isinstance(one, (int, float)) and 0 < one < float("inf") for one in propensity)):
        raise UsageError(f"`propensity` {propensity!r}: expected two numbers above 0, such as (0.55, 1.5)")
    return names


class Evaluation(Mapping[str, float]):
    """The evaluator's numbers, a mapping from names such as "ndcg@10" to float. `Recommender.evaluate` makes it.

    Beside them it has the attributes `examples` (with held-out units), `skipped` (examples without), `units` (that are ranked: the
    catalogue, or `items`), `hidden` (held-out units that were left out as seen) and `cost` (mean over the examples). `per_example` has,
    where it was asked for, by the same names float64 [users], nan for users without held-out units; of metrics that are no means nothing.
    `confusion`, where it was asked for, is int64 [classes, classes]: examples by their true class (row) and the one that was ranked
    first (column). `intervals`, where it was asked for, has (low, high) by the names of `per_example`, nan with fewer than two examples.
    """

    def __init__(self, report: Facts, drawn: Resampling | None = None):
        self._metrics: dict[str, float] = report["metrics"]
        self.cost: float = report["cost"]
        self.units: int = report["units"]
        self.examples: int = report["examples"]
        self.skipped: int = report["skipped"]
        self.hidden: int = report["hidden"]
        self.confusion: NDArray[np.int64] | None = report.get("confusion")
        self.per_example: dict[str, NDArray[np.float64]] | None = report.get("per_example")
        self._drawn = drawn
        self.intervals: dict[str, tuple[float, float]] | None = None
        if drawn is not None and self.per_example is not None:
            self.intervals = dict(zip(self.per_example, _core.mean_intervals([*self.per_example.values()], *drawn)))

    def __getitem__(self, name: str) -> float:
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def interval(self, metric: str, level: float = 0.95, *, resamples: int = 2000, seed: int = 1) -> tuple[float, float]:
        """How far the mean of a metric depends on which users there were: (low, high), by a bootstrap over them; nan with fewer than two.

        metric: such as "ndcg@20".
        level: the share of the resampled means that lie between.
        resamples: how often users are drawn, at most 100,000.
        seed: of the draws; the same seed gives the same numbers.

        Raises UsageError where evaluate() was called without `per_example`.
        """
        return _core.mean_intervals([self._values(metric)], *Resampling.of(level, resamples, seed))[0]

    def difference(self, other: Evaluation, metric: str, level: float = 0.95, *, resamples: int = 2000,
                   seed: int = 1) -> tuple[float, float]:
        """How much more this has of a metric than another evaluation: (low, high), by a paired bootstrap over the users of both. With
        0 between them the two may be as good. `norn.compare` says more.

        other: of the same users and held-out units, and another model or other settings.
        metric, level, resamples, seed: as of `interval`.

        Raises UsageError where evaluate() was called without `per_example`, or for other users.
        """
        ours, theirs = self._values(metric), other._values(metric)
        if ours.shape != theirs.shape or not np.array_equal(np.isnan(ours), np.isnan(theirs)):
            raise UsageError("`other`: is of other users; evaluate both on the same held-out units")
        return _core.mean_intervals([ours - theirs], *Resampling.of(level, resamples, seed))[0]

    def _values(self, metric: str) -> NDArray[np.float64]:
        if self.per_example is None:
            raise UsageError("the values of single users are not there: call evaluate(..., per_example=True)")
        return self.per_example[choice("metric", metric, [*self.per_example])]

    def table(self) -> dict[str, dict[int, float]]:
        """As a dictionary by metric of dictionaries by K."""
        rows: dict[str, dict[int, float]] = {}
        for name, value in self.items():
            metric, k = name.split("@")
            rows.setdefault(metric, {})[int(k)] = value
        return rows

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame of pandas: a row for each metric, a column for each K."""
        import pandas

        return pandas.DataFrame.from_dict(self.table(), orient="index")

    def __repr__(self) -> str:
        rows = self.table()
        columns = sorted({k for values in rows.values() for k in values})
        lines = [f"{'':14}" + "".join(f"{f'@{k}':>10}" for k in columns)]
        for metric, values in rows.items():
            lines.append(f"{metric:14}" + "".join(f"{values.get(k, float('nan')):10.4f}" for k in columns))
            lines += [f"  {what:12}" + "".join(f"{ends.get(k, float('nan')):10.4f}" for k in columns) for what, ends in self._ends(metric)]
        lines.append(f"{self.examples:,} examples, {self.units:,} units")
        if self._drawn is not None:
            lines.append(f"from, to: {100 * self._drawn.level:g} % intervals, {self._drawn.resamples:,} resamples of the examples, seed "
                         f"{self._drawn.seed}")
        return "\n".join(lines)

    def _ends(self, metric: str) -> Iterator[tuple[str, dict[int, float]]]:
        """("from", low by K) and ("to", high by K) of a metric that has intervals."""
        named = ((name.split("@"), ends) for name, ends in (self.intervals or {}).items())
        found = {int(k): ends for (of, k), ends in named if of == metric}
        for at, what in enumerate(("from", "to") if found else ()):
            yield what, {k: ends[at] for k, ends in found.items()}

    def _repr_html_(self) -> str:
        rows = self.table()
        columns = sorted({k for values in rows.values() for k in values})
        head = "".join(f"<th>@{k}</th>" for k in columns)
        shown = [row for metric, values in rows.items() for row in ((metric, values), *self._ends(metric))]
        body = "".join(f"<tr><th>{m}</th>" + "".join(f"<td>{v.get(k, float('nan')):.4f}</td>" for k in columns) + "</tr>" for m, v in shown)
        return f"<table><tr><th></th>{head}</tr>{body}</table><p>{self.examples:,} examples, {self.units:,} units</p>"
