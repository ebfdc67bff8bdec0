# SPDX-License-Identifier: Apache-2.0
"""What a parameter of a space may be. A `place` is where a value stands in its dimension: from 0 to 1, rounded to nine decimals so
that no last bit of a logarithm matters; of a Choice the number of its name. Columns are float64 arrays of places."""
import functools
import json
import math
import sys
from abc import ABC, abstractmethod
from typing import Any, Callable

import numpy as np

from .draws import Draws

DECIMALS = 9


def _rounded(column: np.ndarray) -> np.ndarray:
    return np.round(column, DECIMALS) + 0.0  # -0 is 0


class Dimension(ABC):
    """One parameter: its path, and `condition`, {path: permitted values} under which it is there at all."""

    category = False
    size: int | None = None  # how many values there are; None where there are too many to count

    def __init__(self, path: str, condition: dict[str, list]):
        self.path = path
        self.condition = condition

    @property
    def middle(self) -> float:
        """Where it stands while its condition does not hold."""
        return float(self.snap(np.array([0.5]))[0])

    @abstractmethod
    def snap(self, column: np.ndarray) -> np.ndarray:
        """The nearest places that values have."""

    def spread(self, column: np.ndarray) -> np.ndarray:
        """Places for numbers from 0 to 1, without 1: each value has its share of them."""
        return self.snap(column)

    def moved(self, column: np.ndarray, scale: float, draws: Draws) -> np.ndarray:
        """Other places nearby, `scale` of the whole range away."""
        return self.snap(column + scale * draws.normal(len(column)))

    @abstractmethod
    def value(self, place: float) -> Any:
        """As the descriptor has it."""

    @abstractmethod
    def place(self, value: Any) -> float | None:
        """None where it is no value of this dimension."""

    def ends(self) -> list[float]:
        """The places that bound it."""
        return [0.0, 1.0]


class Scale:
    """Linear or logarithmic, from `low` to `high`."""

    def __init__(self, low: float, high: float, log: bool):
        self.log = log
        self.low, self.high = (math.log(low), math.log(high)) if log else (low, high)

    def places(self, values: np.ndarray) -> np.ndarray:
        return _rounded(((np.log(values) if self.log else values) - self.low) / (self.high - self.low))

    def values(self, places: np.ndarray) -> np.ndarray:
        found = self.low + places * (self.high - self.low)
        return np.exp(found) if self.log else found


class Real(Dimension):
    """Any number of a range, to six digits."""

    def __init__(self, path: str, condition: dict[str, list], low: float, high: float, log: bool):
        super().__init__(path, condition)
        self.low, self.high, self.scale = low, high, Scale(low, high, log)

    def snap(self, column: np.ndarray) -> np.ndarray:
        return _rounded(np.clip(column, 0.0, 1.0))

    def value(self, place: float) -> float:
        found = float(f"{float(self.scale.values(np.array([place]))[0]):.6g}")
        return min(max(found, self.low), self.high)

    def place(self, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high:
            return None
        return float(self.scale.places(np.array([float(value)]))[0])


class Whole(Dimension):
    """Whole numbers of a range that are multiples of `multiple`."""

    def __init__(self, path: str, condition: dict[str, list], low: int, high: int, log: bool, multiple: int):
        super().__init__(path, condition)
        self.low, self.high, self.multiple = -(-low // multiple) * multiple, high // multiple * multiple, multiple
        self.scale = Scale(self.low, self.high, log) if self.high > self.low else None
        half = multiple / 2
        self._wide = Scale(self.low - half if not log or self.low > half else self.low / 2, self.high + half, log)
        self.size = (self.high - self.low) // multiple + 1

    def _nearest(self, values: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(self.multiple * np.rint(values / self.multiple), self.low), self.high)

    def snap(self, column: np.ndarray) -> np.ndarray:
        return self.scale.places(self._nearest(self.scale.values(np.clip(column, 0.0, 1.0))))

    def spread(self, column: np.ndarray) -> np.ndarray:
        return self.scale.places(self._nearest(self._wide.values(column)))

    def moved(self, column: np.ndarray, scale: float, draws: Draws) -> np.ndarray:
        by = scale * draws.normal(len(column))
        found, here = self.snap(column + by), self._nearest(self.scale.values(column))
        beside = self.scale.places(np.clip(here + np.where(by < 0, -1, 1) * self.multiple, self.low, self.high))
        return np.where(found == column, beside, found)

    def value(self, place: float) -> int:
        return int(self._nearest(self.scale.values(np.array([place])))[0])

    def place(self, value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high or value % self.multiple:
            return None
        return float(self.scale.places(np.array([float(value)]))[0])


class Listed(Dimension):
    """A list of values."""

    def __init__(self, path: str, condition: dict[str, list], values: list):
        super().__init__(path, condition)
        self.values = values
        self.size = len(values)

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {json.dumps(found, sort_keys=True): number for number, found in enumerate(self.values)}

    def _number(self, value: Any) -> int | None:
        # 1 and 1.0 are one value, 1 and true are two.
        same = self._places.get(json.dumps(value, sort_keys=True))
        if same is not None:
            return same
        return next((i for i, found in enumerate(self.values) if found == value and isinstance(found, bool) == isinstance(value, bool)),
                    None)


class Ordered(Listed):
    """Values in an order that means something: neighbours are alike."""

    def snap(self, column: np.ndarray) -> np.ndarray:
        last = max(1, self.size - 1)
        return _rounded(np.rint(np.clip(column, 0.0, 1.0) * last) / last if self.size > 1 else np.zeros(len(column)))

    def spread(self, column: np.ndarray) -> np.ndarray:
        return _rounded(np.floor(column * self.size) / max(1, self.size - 1))

    def moved(self, column: np.ndarray, scale: float, draws: Draws) -> np.ndarray:
        by, last = scale * draws.normal(len(column)), max(1, self.size - 1)
        steps = np.where(by < 0, -1, 1) * np.maximum(1, np.rint(np.abs(by) * last))
        return self.snap(column + steps / last)

    def value(self, place: float) -> Any:
        return self.values[int(round(place * (self.size - 1)))]

    def place(self, value: Any) -> float | None:
        number = self._number(value)
        return None if number is None else float(_rounded(np.array([number / max(1, self.size - 1)]))[0])

    def ends(self) -> list[float]:
        return [0.0, 1.0] if self.size > 1 else [0.0]


class Choice(Listed):
    """Names without an order: any two are as different as any other two."""

    category = True

    @property
    def middle(self) -> float:
        return 0.0

    def snap(self, column: np.ndarray) -> np.ndarray:
        return np.clip(np.floor(column), 0, self.size - 1)

    def spread(self, column: np.ndarray) -> np.ndarray:
        return np.floor(column * self.size)

    def moved(self, column: np.ndarray, scale: float, draws: Draws) -> np.ndarray:
        return draws.below(self.size, len(column)).astype(np.float64)

    def value(self, place: float) -> Any:
        return self.values[int(place)]

    def place(self, value: Any) -> float | None:
        number = self._number(value)
        return None if number is None else float(number)

    def ends(self) -> list[float]:
        return [float(number) for number in range(self.size)]


class Malformed(Exception):
    """What is wrong with an entry of a space, without file, line and path."""


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _range(entry: dict, key: str, fits: Callable[[Any], bool], what: str) -> tuple:
    found = entry[key]
    if not isinstance(found, list) or len(found) != 2 or not all(fits(one) for one in found):
        raise Malformed(f"{key} is {json.dumps(found)}; expected [lowest, highest], two {what}")
    low, high = found
    if low > high:
        raise Malformed(f"{key} {json.dumps(found)} is empty: {low} is more than {high}; write the lower one first")
    if low == high:
        raise Malformed(f"{key} {json.dumps(found)} holds one value; write {low} into the descriptor instead")
    scale = entry.get("Scale", "linear")
    if scale not in ("linear", "log"):
        raise Malformed(f"Scale is {json.dumps(scale)}; expected \"linear\" or \"log\"")
    if scale == "log" and low <= 0:
        raise Malformed(f"{key} {json.dumps(found)} begins at {low}, and Scale \"log\" needs more than 0")
    return low, high, scale == "log"


def _whole(path: str, condition: dict, entry: dict) -> Whole:
    low, high, log = _range(entry, "Whole", lambda x: isinstance(x, int) and not isinstance(x, bool) and abs(x) < 2**53, "whole numbers")
    multiple = entry.get("Multiple", 1)
    if not isinstance(multiple, int) or isinstance(multiple, bool) or multiple < 1:
        raise Malformed(f"Multiple is {json.dumps(multiple)}; expected a whole number of at least 1")
    if high // multiple * multiple <= -(-low // multiple) * multiple:
        raise Malformed(f"Whole [{low}, {high}] holds fewer than two multiples of {multiple}; widen it, or give a smaller Multiple")
    return Whole(path, condition, low, high, log, multiple)


def _listed(kind: type, path: str, condition: dict, entry: dict, key: str) -> Listed:
    values = entry[key]
    if not isinstance(values, list) or not values:
        raise Malformed(f"{key} is {json.dumps(values)}; expected a list of values")
    try:
        texts = [json.dumps(value, sort_keys=True, allow_nan=False) for value in values]
    except ValueError as error:
        raise Malformed(f"{key} holds a number that is not finite; remove it") from error
    seen = set[str]()
    double = next((text for text in texts if text in seen or seen.add(text)), None)
    if double is not None:
        raise Malformed(f"{key} holds {double} twice; remove one of the two")
    return kind(path, condition, values)


_EXTRA = {"Range": {"Scale"}, "Whole": {"Scale", "Multiple"}, "Values": set(), "Names": set()}


def dimension(path: str, entry: Any, condition: dict[str, list]) -> Dimension:
    """Of an entry of "Parameters"; Malformed says what is wrong with it."""
    kinds = [key for key in _EXTRA if isinstance(entry, dict) and key in entry]
    if len(kinds) != 1:
        raise Malformed(f"has {' and '.join(kinds) or 'none of them'}; expected one of {', '.join(_EXTRA)}")
    kind = kinds[0]
    for key in entry:
        if key not in _EXTRA[kind] | {kind, "If"}:
            raise Malformed(f"\"{key}\" means nothing beside {kind}; expected {', '.join(sorted(_EXTRA[kind] | {'If'}))}")
    if kind == "Range":
        low, high, log = _range(entry, "Range", _number, "numbers")
        if not math.isfinite(float(high) - float(low)):
            raise Malformed(f"Range {json.dumps(entry['Range'])} is wider than a number can be; narrow it")
        return Real(path, condition, float(low), float(high), log)
    if kind == "Whole":
        return _whole(path, condition, entry)
    return _listed(Ordered if kind == "Values" else Choice, path, condition, entry, kind)
