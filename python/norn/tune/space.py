# SPDX-License-Identifier: Apache-2.0
"""A space: which settings of a descriptor are searched, and within what. Rows are [dimensions] arrays of places
(dimensions.py); what stands in one is canonical: parameters whose condition does not hold stand at their middle."""
import json
from typing import Any, Iterable

import numpy as np

from .._files import JsonText
from .._words import did_you_mean
from ..errors import UsageError
from . import descriptor
from .dimensions import Dimension, Malformed, Whole, dimension
from .draws import Draws

KEYS = ("$schema", "Parameters")
MOST_LAYERS = MOST_PARAMETERS = 1000


class Space:
    """Its dimensions, in the order of the file."""

    def __init__(self, dimensions: list[Dimension]):
        self.dimensions = dimensions
        self.categories = np.array([one.category for one in dimensions], dtype=bool)
        self._middles = np.array([one.middle for one in dimensions])
        self._number = {one.path: number for number, one in enumerate(dimensions)}
        self._order = self._parents_first()
        self._conditions = [[(self._number[path], [self.dimensions[self._number[path]].place(value) for value in values])
                             for path, values in one.condition.items()] for one in dimensions]  # [(a parent, its places)] of each

    def __len__(self) -> int:
        return len(self.dimensions)

    @property
    def counted(self) -> bool:
        """Whether there are so few points that the same one could be met twice."""
        return all(one.size is not None for one in self.dimensions)

    def _parents_first(self) -> list[int]:
        order: list[int] = []
        while len(order) < len(self):
            ready = [n for n, one in enumerate(self.dimensions)
                     if n not in order and all(self._number[path] in order for path in one.condition)]
            if not ready:
                raise Malformed("conditions lead round in a circle")
            order += ready
        return order

    def active(self, rows: np.ndarray) -> np.ndarray:
        """[rows x dimensions] whether each parameter is there."""
        found = np.ones(rows.shape, dtype=bool)
        for number in self._order:
            for parent, places in self._conditions[number]:
                found[:, number] &= found[:, parent] & np.isin(rows[:, parent], places)
        return found

    def settle(self, rows: np.ndarray) -> np.ndarray:
        """What is not there goes to its middle."""
        return np.where(self.active(rows), rows, self._middles)

    def spread(self, cube: np.ndarray) -> np.ndarray:
        """Rows for points of the unit cube."""
        return self.settle(np.column_stack([one.spread(cube[:, n]) for n, one in enumerate(self.dimensions)]))

    def moved(self, rows: np.ndarray, scale: float, draws: Draws) -> np.ndarray:
        """Rows nearby: of each at least one parameter differs, of the others about three in ten."""
        count, width = rows.shape
        which = draws.uniform(count, width) < max(1.0 / width, 0.3)
        which[np.arange(count), draws.below(width, count)] = True
        other = np.column_stack([one.moved(rows[:, n], scale, draws) for n, one in enumerate(self.dimensions)])
        return self.settle(np.where(which, other, rows))

    def settings(self, row: Iterable[float]) -> dict[str, Any]:
        """{path: value} of what is there."""
        places, there = [float(place) for place in row], [True] * len(self)
        for number in self._order:  # as active(), of which numpy's calls would take the most for one row
            there[number] = all(there[parent] and places[parent] in permitted for parent, permitted in self._conditions[number])
        return {one.path: one.value(place) for one, place, here in zip(self.dimensions, places, there) if here}

    def row(self, settings: dict[str, Any]) -> np.ndarray | None:
        """The row of settings, of another study for example; None where one of them is no value of this space."""
        row = self._middles.copy()
        for path, value in settings.items():
            if path in self._number:
                place = self.dimensions[self._number[path]].place(value)
                if place is None:
                    return None
                row[self._number[path]] = place
        there = self.active(row[None, :])[0]
        missing = [one.path for n, one in enumerate(self.dimensions) if there[n] and one.path not in settings]
        return None if missing else self.settle(row[None, :])[0]

    def corners(self) -> list[np.ndarray]:
        """The middle, each end of each dimension with all others in the middle, and all lowest, all highest: what is planned before
        anything is trained."""
        rows = [self._middles]
        for number, one in enumerate(self.dimensions):
            for end in one.ends():
                row = self._middles.copy()
                row[number] = end
                # Where it is there under a condition alone, the condition is made to hold.
                self._permit(row, number)
                rows.append(row)
        for end in (0, -1):
            rows.append(np.array([one.middle if one.category else one.ends()[end] for one in self.dimensions]))
        unique = {tuple(row): row for row in self.settle(np.array(rows))}
        return list(unique.values())

    def _permit(self, row: np.ndarray, number: int) -> None:
        for path, values in self.dimensions[number].condition.items():
            parent = self._number[path]
            row[parent] = self.dimensions[parent].place(values[0])
            self._permit(row, parent)

    def product(self, most: int) -> np.ndarray | None:
        """Every row, the last dimension changing fastest; None where there are more than `most`, or too many to count."""
        if not self.counted or np.prod([float(one.size) for one in self.dimensions]) > most:
            return None
        sides = [one.spread((np.arange(one.size) + 0.5) / one.size) if not isinstance(one, Whole)
                 else one.scale.places(np.arange(one.low, one.high + 1, one.multiple).astype(np.float64)) for one in self.dimensions]
        rows = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(self))
        return np.array(list({tuple(row): row for row in self.settle(rows)}.values()))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _counts(entry: Any) -> list[int]:
    """What a Count may be; none where the entry says no good ones, which it is told for itself."""
    kind = next((key for key in ("Whole", "Values", "Names") if isinstance(entry, dict) and key in entry), None)
    found = entry[kind] if kind else None
    if not isinstance(found, list) or not found or not all(_whole(count) and 1 <= count <= MOST_LAYERS for count in found):
        return []
    return list(range(found[0], found[-1] + 1)) if kind == "Whole" else found


class _Reader:
    """Makes a Space of its JSON and says all that is wrong with it, each with its line."""

    def __init__(self, value: Any, network: dict, where):
        self.value, self.network, self.where = value, network, where
        self.errors: list[str] = []

    def wrong(self, path: str | None, message: str) -> None:
        self.errors.append(f"{self.where(path)}: {message}" if path is None else f"{self.where(path)}: {path}: {message}")

    def read(self) -> Space:
        if not isinstance(self.value, dict) or not isinstance(self.value.get("Parameters"), dict):
            raise UsageError(f"{self.where(None)}: a space is an object with \"Parameters\": {{ path: what it may be, ... }}")
        for key in self.value:
            if key not in KEYS:
                self.wrong(key, f"is unknown.{did_you_mean(key, KEYS)} Expected {', '.join(KEYS)}")
        entries = self.value["Parameters"]
        if not entries:
            self.wrong("Parameters", "is empty; name at least one setting to search")
        if len(entries) > MOST_PARAMETERS:
            raise UsageError(f"{self.where('Parameters')}: Parameters: are {len(entries)}, and {MOST_PARAMETERS} are the most; search "
                             "those that matter")
        copies = self._copies(entries)
        dimensions = []
        for path, entry in entries.items():
            try:
                condition = {**self._implied(path, copies), **self._condition(entry, entries)}
                self._check_path(path, copies)
                made = dimension(path, entry, condition)
                self._check_count(path, made)
                dimensions.append(made)
            except (Malformed, descriptor.PathError) as error:
                self.wrong(path, str(error))
        if not self.errors:
            self._check_conditions({one.path: one for one in dimensions})
        if self.errors:
            raise UsageError("\n".join(self.errors))
        try:
            return Space(dimensions)
        except Malformed as error:
            raise UsageError(f"{self.where(None)}: {error}; remove an If") from error

    def _names(self) -> list[str]:
        return [descriptor.name_of(layer) for layer in descriptor.layers_of(self.network)]

    def _copies(self, entries: dict) -> dict[str, tuple[str, list[int]]]:
        """{name of a copy: (path of its Count, the counts with which it is there)}."""
        found = {}
        for path, entry in entries.items():
            try:
                name, keys = descriptor.split(path, self._names())
            except descriptor.PathError:
                continue
            if name is None or len(keys) != 1 or keys[0].casefold() != descriptor.COUNT.casefold():
                continue
            counts = _counts(entry)
            written = next(n for n in self._names() if n.casefold() == name.casefold())
            found.update({descriptor.copy_name(written, k): (path, [count for count in counts if count >= k])
                          for k in range(2, max(counts, default=1) + 1)})
        return found

    def _copy_of(self, path: str, copies: dict) -> tuple[str, list[int]] | None:
        try:
            descriptor.split(path, self._names())
            return None
        except descriptor.PathError:
            name, _ = descriptor.split(path, [*self._names(), *copies])
            return copies[next(copy for copy in copies if copy.casefold() == name.casefold())]

    def _implied(self, path: str, copies: dict) -> dict[str, list]:
        """A setting of the third copy of a layer is there where there are three."""
        of = self._copy_of(path, copies)
        return {} if of is None else dict([of])

    def _check_path(self, path: str, copies: dict) -> None:
        name, keys = descriptor.split(path, [*self._names(), *copies])
        if name is None and len(keys) == 1 and isinstance(descriptor.get(self.network, keys[0]), (dict, list)):
            raise Malformed(f"is a whole part of the descriptor; name a key in it: {path}.KEY")
        if name is not None and len(keys) == 1 and keys[0].casefold() == "name":
            raise Malformed("is what paths and sources call the layer by; search another key of it")
        if name is not None and name not in self._names() and len(keys) == 1 and keys[0].casefold() == descriptor.COUNT.casefold():
            raise Malformed("counts copies of a copy; count those of the layer itself")
        same = [other for other in self.value["Parameters"] if other.casefold() == path.casefold()]
        if len(same) > 1:
            raise Malformed(f"is given twice, as {' and '.join(same)}")

    def _check_count(self, path: str, made: Dimension) -> None:
        of_layers = path.rpartition(".")[2].casefold() == descriptor.COUNT.casefold() and path.casefold().startswith("layers.")
        if not of_layers and path.casefold() != "training.epochs":
            return
        values, most = [made.low, made.high] if isinstance(made, Whole) else getattr(made, "values",
                                                                                     [0.5]), MOST_LAYERS if of_layers else 2**31
        if not all(_whole(value) and 1 <= value <= most for value in values):
            raise Malformed(f"counts {'layers' if of_layers else 'epochs'}; expected Whole or Values of whole numbers from 1 to {most}")

    def _condition(self, entry: Any, entries: dict) -> dict[str, list]:
        found = entry.get("If", {}) if isinstance(entry, dict) else {}
        if not isinstance(found, dict):
            raise Malformed(f"If is {json.dumps(found)}; expected {{ path: value, or a list of values }}")
        for path in found:
            if path not in entries:
                raise Malformed(f"If names \"{path}\", which is not among the parameters.{did_you_mean(path, entries)}")
        return {path: value if isinstance(value, list) else [value] for path, value in found.items()}

    def _check_conditions(self, by_path: dict[str, Dimension]) -> None:
        for one in by_path.values():
            for path, values in one.condition.items():
                if by_path[path].size is None:
                    self.wrong(one.path, f"If names \"{path}\", which is a Range; conditions need Values, Names or Whole")
                    continue
                strange = [value for value in values if by_path[path].place(value) is None]
                if strange or not values:
                    self.wrong(one.path, f"If: {json.dumps(strange[0]) if strange else 'no value'} is no value of \"{path}\"")


def read_space(path: str, network: dict) -> tuple[Space, dict]:
    """(the space, its JSON) of a file for that descriptor."""
    text = JsonText(path)
    def where(key: str | None) -> str:
        return f"{path}:{text.line(key)}" if key is not None else f"{path}:1"
    return _Reader(text.value, network, where).read(), text.value


def space_of(value: dict, network: dict, name: str) -> Space:
    """Of JSON that was read before; `name` is the file that it stands in now."""
    return _Reader(value, network, lambda key: name).read()
