# SPDX-License-Identifier: Apache-2.0
"""Why items are recommended: what leaving out each entry of a user's input does to their scores."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _core
from ._labels import pairs_of
from ._units import is_series, units_of
from .errors import UsageError

if TYPE_CHECKING:
    from ._labels import Labels
    from ._types import Array, Floats, Ids
    from .network import Network


class Explanation(NamedTuple):
    """What `Recommender.explain` says of many users: the entries that each score depends on most, the largest effects first.

    ids: int32 [users, N], or [users, items, N], units of an Input layer that the user has; -1 where there are fewer.
    effects: float32 of the same shape, the item's score less its score without this entry; nan where there are fewer.
    scores: float32 [users], or [users, items], the item's score with all that the user has; nan of no item, -1.
    inputs: int32 of the shape of ids, which of the network's Input layers, from 0, has the entry; -1 where there are fewer.
    """

    ids: Ids
    effects: Floats
    scores: Floats
    inputs: Ids


class Asked(NamedTuple):
    """Units that are asked about."""

    units: Array  # int64 [users, items], -1 for none
    of_basket: bool  # there is one user
    one_each: bool


def asked_units(item: Any, users: int | None, width: int, labels: Labels | None) -> Asked:
    """Of one unit, or one for each user, or a row for each, whose -1 stand for none; users: None: one basket, of which several may be
    asked. Raises UsageError naming the first that is no unit."""
    if isinstance(item, str) or not isinstance(item, Iterable):
        return Asked(np.repeat(units_of(item, "item", width, labels), 1 if users is None else users)[:, None], users is None, True)
    if users is None:
        return Asked(units_of(item, "item", width, labels)[None], True, False)
    units = _rows_of(np.asarray(item) if is_series(item) else item, width, labels)
    if units.ndim not in (1, 2) or len(units) != users:
        raise UsageError(f"`item`: has the shape {units.shape}, expected one unit, one for each of {users} users, or a row for each, such "
                         "as the ids that `recommend` returns")
    return Asked(units[:, None] if units.ndim == 1 else units, False, units.ndim == 1)


def _rows_of(given: Any, width: int, labels: Labels | None) -> Array:
    """Of numbers or labels; -1 stays."""
    try:
        array: Array = given if isinstance(given, np.ndarray) else np.asarray(list(given))
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind in "UO" and all(isinstance(unit, str) for unit in array.flat):
        return units_of(array.ravel().tolist(), "item", width, labels).reshape(array.shape)
    if array.dtype.kind not in "iu" and array.size:
        raise UsageError(f"`item`: expected units by number, or all by label, in rows of one length, not {given!r:.60}")
    units = np.full(array.shape, -1, np.int64)
    asked = array != -1
    units[asked] = units_of(array[asked], "item", width, labels)
    return units


def explained(network: Network, sets: list[Any], asked: Asked, most: int, layer: str
              ) -> Explanation | list[tuple[str | int, float]] | list[list[tuple[str | int, float]]]:
    """`most` entries of each unit that is asked about; sets: of examples, none where there are none."""
    shape = (*asked.units.shape, most)
    found: tuple[Any, Any, Any, Any] = (np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.int32), np.empty(0, np.float32))
    if sets and asked.units.size:
        found = _core.explain(network.model, sets, np.ascontiguousarray(asked.units).ravel(), most, layer)
    ids, effects, inputs = (array.reshape(shape) for array in found[:3])
    scores = found[3].reshape(asked.units.shape)
    if asked.of_basket:
        labels = network.labels(network.layers("Input")[0]["Name"])
        lists = [pairs_of(labels, *both) for both in zip(ids[0], effects[0])]
        return lists[0] if asked.one_each else lists
    arrays = (ids, effects, scores, inputs)
    return Explanation(*(array[:, 0] for array in arrays)) if asked.one_each else Explanation(*arrays)
