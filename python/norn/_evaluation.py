# SPDX-License-Identifier: Apache-2.0
"""Metrics of held-out units, as a mapping and as a table."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

    from ._types import Facts


class Evaluation(Mapping[str, float]):
    """The evaluator's numbers, a mapping from names such as "ndcg@10" to float. `Recommender.evaluate` makes it.

    Beside them it has the attributes `examples` (with held-out units), `skipped` (examples without), `units` (of the
    catalogue), `hidden` (held-out units that were left out as seen) and `cost` (mean over the examples).
    """

    def __init__(self, report: Facts):
        self._metrics: dict[str, float] = report["metrics"]
        self.cost: float = report["cost"]
        self.units: int = report["units"]
        self.examples: int = report["examples"]
        self.skipped: int = report["skipped"]
        self.hidden: int = report["hidden"]

    def __getitem__(self, name: str) -> float:
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

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
        body = "".join(f"<tr><th>{m}</th>" + "".join(f"<td>{v.get(k, float('nan')):.4f}</td>" for k in columns) + "</tr>" for m, v in rows.items())
        return f"<table><tr><th></th>{head}</tr>{body}</table><p>{self.examples:,} examples, {self.units:,} units</p>"
