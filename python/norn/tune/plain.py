# SPDX-License-Identifier: Apache-2.0
"""The plain recipe: what the trainer makes of a study's descriptor as it is. It is trained once, and the best trial is kept only where
it is better on the held-out examples than chance among so many trials would have brought (docs/developer/decisions/0027)."""
import math
import pathlib
from typing import Any

from ..errors import Error
from ..report.runs import METRICS

SURE = 0.95  # of each end of the interval, for all trials at once
RESAMPLES, MOST_RESAMPLES = 2000, 20_000  # of one trial, and of many, beyond whose ends are few of them
VALUES = "run/validation_values.tsv"      # of a training's folder
TRIAL, PLAIN_RECIPE, NEITHER = "trial", "plain", "no difference"
_MEANS = {name.casefold() for one in METRICS if one["mean"] for name in (one["name"], one["title"])}


def has_examples(objective: str) -> bool:
    """Whether each held-out example has a value of it."""
    return objective.partition("@")[0].casefold() in _MEANS


def compare(trainer, trial: pathlib.Path, plain: pathlib.Path, trials: int) -> dict[str, Any]:
    """The folder of the best of so many trials with that of the plain recipe. What is sure is so for all trials at once (Bonferroni): the
    best was chosen among them by the same examples."""
    beyond = (1.0 - SURE) / trials  # of each end: the question has one side
    said = trainer.compare((plain / VALUES).parent, (trial / VALUES).parent, 1.0 - 2.0 * beyond, min(MOST_RESAMPLES, RESAMPLES * trials))
    [found] = [one for name, one in said["differences"][0].items() if name != "K"]
    low, high = found["low"], found["high"]
    known = all(isinstance(end, (int, float)) and math.isfinite(end) for end in (low, high))
    verdict = NEITHER if not known or low <= 0.0 <= high else TRIAL if low > 0.0 else PLAIN_RECIPE
    return {"verdict": verdict, "kept": TRIAL if verdict == TRIAL else PLAIN_RECIPE, "value": found["other"], "plain": found["model"],
            "difference": found["difference"], "low": low if known else None, "high": high if known else None,
            "p": min(1.0, trials * (found["p"] / 2.0 if found["difference"] > 0.0 else 1.0)), "level": SURE, "trials": trials,
            "examples": said["examples"]}


def text_of(objective: str, trial: int, one: dict[str, Any]) -> str:
    """no difference: ndcg@10 0.331 of trial 12, ..."""
    ends = "too few examples for an interval" if one["low"] is None else (
        f"each end {100 * one['level']:g} % sure for the best of {one['trials']}: {one['low']:+.4g} to {one['high']:+.4g}")
    what = {NEITHER: NEITHER, TRIAL: "better than the plain recipe", PLAIN_RECIPE: "worse than the plain recipe"}[one["verdict"]]
    kept = "trial " + str(trial) if one["kept"] == TRIAL else "the plain recipe"
    return (f"{what}: {objective} {one['value']:.4g} of trial {trial}, {one['plain']:.4g} of the plain recipe, difference "
            f"{one['difference']:+.4g} ({ends}), kept {kept}")


def compared(trainer, trial: pathlib.Path, plain: pathlib.Path, trials: int, warn) -> dict[str, Any] | None:
    """The same; None where it cannot be, which is said."""
    try:
        return compare(trainer, trial, plain, trials)
    except Error as error:
        warn(f"warning: the best trial is not compared with the plain recipe: {error}")
        return None
