# SPDX-License-Identifier: Apache-2.0
"""What a run came to, epoch by epoch."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


class History(list[dict[str, float]]):
    """A dictionary for each epoch: epoch, step, rate, cost, seconds, examples; where it was validated also
    validation_cost, the metrics ("ndcg@10") and whether it was the best so far."""

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame of pandas, indexed by epoch."""
        import pandas

        frame = pandas.DataFrame(list(self))
        return frame.set_index("epoch") if len(frame) else frame

    @property
    def best(self) -> dict[str, float] | None:
        """The epoch that was the best by what was watched."""
        found = [epoch for epoch in self if epoch.get("best")]
        return found[-1] if found else None

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """By name, (epoch, value): the cost, and what was validated."""
        names = dict.fromkeys(name for epoch in self for name in epoch if name == "cost" or name == "validation_cost" or "@" in name)
        return {name: [(int(epoch["epoch"]), epoch[name]) for epoch in self if name in epoch] for name in names}


def add_report(history: History, kind: str, report: dict[str, Any]) -> None:
    """Takes what the engine reported; once more of the same changes nothing."""
    if kind == "epoch":
        if history and history[-1]["epoch"] >= report["epoch"]:  # a run that trains on everything at last begins anew
            del history[report["epoch"] - history[0]["epoch"] :]
        history.append({key: report[key] for key in ("epoch", "step", "rate", "cost", "regularization", "seconds", "examples")})
    elif kind == "validation":
        for epoch in history:
            if epoch["epoch"] == report["epoch"]:
                epoch.update(validation_cost=report["cost"], best=report["best"], **report["metrics"])
