# SPDX-License-Identifier: Apache-2.0
"""Parameters whose best value stands at the end of their range: beyond it may be something better."""
import json
from typing import Any, NamedTuple

from .dimensions import Dimension, Real, Whole
from .facts import Facts
from .study import Study

EDGE = 0.02      # of a range: so near to an end it counts as there
LEAST_FACTOR = 2.0


class Border(NamedTuple):
    path: str
    value: Any
    upper: bool
    wider: str  # the entry of a space that goes further; or what to add to it


def at_the_end(study: Study, facts: Facts, trial: int) -> list[Border]:
    """Of that trial, where there is something beyond. Of a list of two values each is an end, and says nothing."""
    event, found = facts.decided["propose"][trial], []
    for one, place in zip(study.space.dimensions, event["row"]):
        if one.path in event["settings"] and not one.category and (one.size or 3) > 2 and not EDGE < place < 1.0 - EDGE:
            further = wider(one, place > 0.5)
            if further is not None:
                found.append(Border(one.path, event["settings"][one.path], place > 0.5, further))
    return found


def wider(one: Dimension, upper: bool) -> str | None:
    """A range that goes on by a third of its length, on its own scale. What is below 1 may be a share, and stays below; what begins at 0,
    or with the first multiple, has nothing before it: None."""
    if not isinstance(one, (Real, Whole)):
        return f"add a {'larger' if upper else 'smaller'} value to its list"
    moved = _moved(one, upper)
    made = _multiple(moved, one, upper) if isinstance(one, Whole) else float(f"{moved:.3g}")
    low, high = (one.low, max(made, one.high)) if upper else (min(made, one.low), one.high)
    if (low, high) == (one.low, one.high):
        return None
    entry: dict[str, Any] = {"Whole" if isinstance(one, Whole) else "Range": [low, high]}
    if one.scale.log:
        entry["Scale"] = "log"
    if isinstance(one, Whole) and one.multiple > 1:
        entry["Multiple"] = one.multiple
    return json.dumps(entry)


def _moved(one: Real | Whole, upper: bool) -> float:
    low, high = one.low, one.high
    if one.scale.log:
        factor = max(LEAST_FACTOR, (high / low) ** (1.0 / 3.0))
        moved = high * factor if upper else low / factor
    else:
        moved = high + (high - low) / 3 if upper else low - (high - low) / 3
        if low >= 0 > moved:
            moved = 0.0
    return (1.0 + high) / 2 if high < 1.0 <= moved else moved


def _multiple(moved: float, one: Whole, upper: bool) -> int:
    """At least one step further; what began above 0 stays there."""
    made = round(moved / one.multiple) * one.multiple
    if upper:
        return max(made, one.high + one.multiple)
    made = min(made, one.low - one.multiple)
    return made if one.low < 0 else max(made, min(one.low, one.multiple))
