# SPDX-License-Identifier: Apache-2.0
"""Two models on the same examples: how much they differ, and whether that may be chance."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from . import _core
from ._evaluation import Evaluation, Resampling
from ._words import choice
from .errors import UsageError
from .network import width_of
from .recommender import Recommender

if TYPE_CHECKING:
    import pandas

    from ._types import Matrices, Matrix, Units

Verdict = Literal["a", "b", "no difference"]
_VERDICTS: dict[int, Verdict] = {-1: "a", 0: "no difference", 1: "b"}


@dataclasses.dataclass(frozen=True)
class Difference:
    """Of one metric: `a` and `b`, the means of both models, `difference`, that of b - a, and its interval from `low` to `high`; `p`, how
    often as large a difference comes of two models that are as good; `better`, "a", "b", or "no difference" where p is above 1 - level."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    better: Verdict


class Comparison(Mapping[str, Difference]):
    """What `norn.compare` found, a mapping from names such as "ndcg@10" to Difference; of metrics that are no means nothing.

    Beside them it has `a` and `b`, the Evaluations of both with `per_example`, and how examples were drawn: `level`, `resamples`, `seed`.
    """

    def __init__(self, a: Evaluation, b: Evaluation, level: float = 0.95, resamples: int = 2000, seed: int = 1):
        if a.per_example is None or b.per_example is None:
            raise UsageError("the values of single users are not there: call evaluate(..., per_example=True)")
        if list(a.per_example) != list(b.per_example):
            raise UsageError("`b`: has other metrics than `a`; evaluate both with the same `k`")
        drawn = Resampling.of(level, resamples, seed)
        self.a: Evaluation = a
        self.b: Evaluation = b
        self.level: float = drawn.level
        self.resamples: int = drawn.resamples
        self.seed: int = drawn.seed
        found = _core.paired_differences([*a.per_example.values()], [*b.per_example.values()], *drawn)
        self._found = {name: Difference(ours, theirs, theirs - ours, low, high, p, _VERDICTS[better])
                       for name, (ours, theirs, low, high, p, better) in zip(a.per_example, found)}

    def __getitem__(self, name: str) -> Difference:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def better(self, metric: str) -> Verdict:
        """Which has more of a metric: "a", "b", or "no difference" where chance may have brought it, as sure as `level` says.

        metric: such as "ndcg@20".

        Raises UsageError for a metric that there is not.
        """
        return self[choice("metric", metric, [*self])].better

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame of pandas: a row for each metric."""
        import pandas

        return pandas.DataFrame.from_dict({name: dataclasses.asdict(one) for name, one in self.items()}, orient="index")

    def __repr__(self) -> str:
        span = f"{100 * self.level:g} % of b - a"
        lines = [f"{'':18}{'a':>8}{'b':>9}{'b - a':>10}  {span:>20}{'p':>9}  better"]
        for name, one in self.items():
            ends = "-" if math.isnan(one.low) else f"{one.low:+.4f} .. {one.high:+.4f}"
            lines.append(f"{name:18}{one.a:8.4f}{one.b:9.4f}{one.difference:+10.4f}  {ends:>20}{one.p:9.4f}  {one.better}")
        return "\n".join(lines + [f"{self.a.examples:,} examples, {self.resamples:,} resamples, seed {self.seed}"])


def _ranked_units(model: Recommender, layer: str) -> int:
    """Units of the output layer that is evaluated; 0 where that is not known before."""
    outputs = [one for one in model.network_.layers("Output") if layer in ("", one["Name"])]
    return width_of(outputs[0]) if outputs else 0


def compare(a: Recommender, b: Recommender, user_items: Matrices | tuple[Matrices, Matrices], held_out: Matrices | None = None, *,
            k: int | Iterable[int] = (10, 20, 100), keep_seen: bool = False, layer: str = "", level: float = 0.95, resamples: int = 2000,
            seed: int = 1, also: str | Iterable[str] = (), trained_on: Matrix | None = None, items: Units | None = None) -> Comparison:
    """Evaluates two models on the same users, and says how much they differ and whether that may be chance: a bootstrap over the users for
    intervals of b - a, and a test in which the two change places for a random half of the users.

    a, b: models with the same units; those of other numbers of units are refused.
    user_items, held_out, k, keep_seen, layer, also, trained_on, items: as for `Recommender.evaluate`.
    level: the share of the resampled differences that lie in an interval, above 0 and below 1.
    resamples: how often users are drawn, for the intervals and for the test, at most 100,000. No p is below 1 / (resamples + 1).
    seed: of the draws; the same seed gives the same numbers.

    Returns a Comparison. Raises UsageError as `Recommender.evaluate` does.
    """
    for name, one in (("a", a), ("b", b)):
        if not isinstance(one, Recommender):
            raise UsageError(f"`{name}`: expected a Recommender, not {type(one).__name__}")
    ours, theirs = (_ranked_units(one, layer) for one in (a, b))
    if ours != theirs and 0 not in (ours, theirs):
        raise UsageError(f"`b`: ranks {theirs:,} units, and `a` {ours:,}; compare models of the same units, as both have after "
                         "`add_items` of the same items")
    drawn = Resampling.of(level, resamples, seed)
    lengths, names = list(k) if isinstance(k, Iterable) else k, also if isinstance(also, str) else list(also)
    both = [one.evaluate(user_items, held_out, k=lengths, keep_seen=keep_seen, per_example=True, layer=layer, also=names,
                         trained_on=trained_on, items=items) for one in (a, b)]
    return Comparison(both[0], both[1], *drawn)
