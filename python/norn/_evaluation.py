# SPDX-License-Identifier: Apache-2.0
"""Metrics of held-out units, as a mapping and as a table."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from . import _bootstrap
from ._words import choice
from .errors import UsageError

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    from ._types import Facts


class Evaluation(Mapping[str, float]):
    """The evaluator's numbers, a mapping from names such as "ndcg@10" to float. `Recommender.evaluate` makes it.

    Beside them it has the attributes `examples` (with held-out units), `skipped` (examples without), `units` (of the
    catalogue), `hidden` (held-out units that were left out as seen) and `cost` (mean over the examples). `per_example` has, where
    it was asked for, by the same names float64 [users], nan for users without held-out units; of metrics that are no means nothing.
    `confusion`, where it was asked for, is int64 [classes, classes]: examples by their true class (row) and the one that was ranked
    first (column).
    """

    def __init__(self, report: Facts):
        self._metrics: dict[str, float] = report["metrics"]
        self.cost: float = report["cost"]
        self.units: int = report["units"]
        self.examples: int = report["examples"]
        self.skipped: int = report["skipped"]
        self.hidden: int = report["hidden"]
        self.confusion: NDArray[np.int64] | None = report.get("confusion")
        self.per_example: dict[str, NDArray[np.float64]] | None = report.get("per_example")

    def __getitem__(self, name: str) -> float:
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def interval(self, metric: str, level: float = 0.95) -> tuple[float, float]:
        """How far the mean of a metric depends on which users there were: (low, high), by a bootstrap over them, always the same.

        metric: such as "ndcg@20".
        level: the share of the resampled means that lie between.

        Raises UsageError where evaluate() was called without `per_example`.
        """
        return _bootstrap.interval(self._found(metric), _level(level))

    def difference(self, other: Evaluation, metric: str, level: float = 0.95) -> tuple[float, float]:
        """How much more this has of a metric than another evaluation: (low, high), by a paired bootstrap over the users of both. With
        0 between them the two may be as good.

        other: of the same users and held-out units, and another model or other settings.
        metric, level: as of `interval`.

        Raises UsageError where evaluate() was called without `per_example`, or for other users.
        """
        ours, theirs = self._values(metric), other._values(metric)
        if ours.shape != theirs.shape or not np.array_equal(np.isnan(ours), np.isnan(theirs)):
            raise UsageError("`other`: is of other users; evaluate both on the same held-out units")
        return _bootstrap.interval(self._found(metric) - other._found(metric), _level(level))

    def _values(self, metric: str) -> NDArray[np.float64]:
        if self.per_example is None:
            raise UsageError("the values of single users are not there: call evaluate(..., per_example=True)")
        return self.per_example[choice("metric", metric, [*self.per_example])]

    def _found(self, metric: str) -> NDArray[np.float64]:
        """Of users with held-out units."""
        values = self._values(metric)
        return values[~np.isnan(values)]

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
        lines += [f"{metric:14}" + "".join(f"{values.get(k, float('nan')):10.4f}" for k in columns) for metric, values in rows.items()]
        return "\n".join(lines + [f"{self.examples:,} examples, {self.units:,} units"])

    def _repr_html_(self) -> str:
        rows = self.table()
        columns = sorted({k for values in rows.values() for k in values})
        head = "".join(f"<th>@{k}</th>" for k in columns)
        body = "".join(f"<tr><th>{m}</th>" + "".join(f"<td>{v.get(k, float('nan')):.4f}</td>" for k in columns) + "</tr>"
                       for m, v in rows.items())
        return f"<table><tr><th></th>{head}</tr>{body}</table><p>{self.examples:,} examples, {self.units:,} units</p>"


def _level(level: float) -> float:
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise UsageError(f"`level` {level!r}: expected a number between 0 and 1, such as 0.95")
    return level
