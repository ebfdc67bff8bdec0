# SPDX-License-Identifier: Apache-2.0
"""Units that arguments name: by label, by number or by a mask."""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ._words import integer
from .errors import UsageError

if TYPE_CHECKING:
    from ._labels import Labels
    from ._types import Array

_log = logging.getLogger("norn")
_MOST_LOOKED_AT = 100  # integers of an argument


def is_series(given: Any) -> bool:
    """Whether it is a column of pandas or polars."""
    return hasattr(given, "to_numpy") and len(getattr(given, "shape", ())) == 1


def is_basket(given: Any) -> bool:
    """Whether it is one user's units, in place of a matrix."""
    return isinstance(given, (list, tuple, set, frozenset, str)) or (isinstance(given, np.ndarray) and given.ndim == 1) or is_series(given)


def units_of(given: Any, argument: str, width: int, labels: Labels | None) -> Array:
    """Units' numbers as int64, of numbers, labels or a mask. Raises UsageError naming the first that is none."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    listed: Any = given if isinstance(given, np.ndarray) else np.asarray(given) if is_series(given) else list(given)
    kind = listed.dtype.kind if isinstance(listed, np.ndarray) else ""
    if len(listed) == 0:
        return np.empty(0, np.int64)
    if kind == "b":
        return _of_mask(listed, argument, width)
    if kind in ("i", "u"):
        return _of_numbers(listed.astype(np.int64).ravel(), argument, width, labels)
    if isinstance(listed[0], (list, tuple, set, frozenset)):
        raise UsageError(f"`{argument}`: {listed[0]!r:.60} stands in a list, which is one user's units; give one list after the other, or "
                         "a CSR matrix [users, units]")
    words = [unit for unit in listed if isinstance(unit, str)]
    if len(words) == len(listed):
        return _of_labels(words, argument, labels)
    if words:
        other = next(unit for unit in listed if not isinstance(unit, str))
        raise UsageError(f"`{argument}`: {words[0]!r} is a label and {other!r} is none; give all units by label, which are text, or all by "
                         "number")
    return _of_numbers(np.asarray([max(-2**63, min(integer(argument, unit), 2**63 - 1)) for unit in listed], np.int64), argument, width,
                       labels)


def _of_mask(mask: Array, argument: str, width: int) -> Array:
    if mask.shape != (width,):
        raise UsageError(f"`{argument}`: a mask of the shape {mask.shape}, expected one bool for each of {width} units")
    return np.flatnonzero(mask)


def _of_labels(words: list[str], argument: str, labels: Labels | None) -> Array:
    if labels is None:
        raise UsageError(f"`{argument}`: {words[0]!r}: the model has no labels; name units by their numbers")
    numbers = np.asarray(labels.find(map(str, words)), np.int64)
    if (numbers < 0).any():
        raise UsageError(f"`{argument}`: the model has no unit {words[int((numbers < 0).argmax())]!r}")
    return numbers


def _of_numbers(numbers: Array, argument: str, width: int, labels: Labels | None) -> Array:
    wrong = (numbers < 0) | (numbers >= width)
    if wrong.any():
        unit = str(numbers[int(wrong.argmax())])
        is_label = labels is not None and labels.has_words() and unit in labels
        meant = f"; did you mean the label {unit!r}? Labels are text" if is_label else ""
        raise UsageError(f"`{argument}`: unit {unit} is out of range, expected 0 to {width - 1}{meant}")
    _warn_of_labels(numbers, argument, labels)
    return numbers


def _warn_of_labels(numbers: Array, argument: str, labels: Labels | None) -> None:
    """Says once where integers could be taken for labels: they are numbers of units."""
    if labels is None or labels.warned or not labels.has_words():
        return
    looked_at = numbers[:_MOST_LOOKED_AT].tolist()
    for unit, labelled in zip(looked_at, labels.find([str(unit) for unit in looked_at])):
        if labelled not in (-1, unit):
            labels.warned = True
            _log.warning('`%s`: %d is taken as the unit number, the unit "%s"; the label is "%d", as text', argument, unit, labels[unit],
                         unit)
            return


def basket_of(given: Any, argument: str, width: int, labels: Labels | None) -> sp.csr_matrix:
    """[1, units]: what one user has. A unit that is there again counts once: a basket has no values."""
    listed = units_of(given, argument, width, labels)
    units = np.unique(listed).astype(np.int32)
    if isinstance(given, np.ndarray) and len(units) < len(listed) == width and set(units.tolist()) <= {0, 1} and given.dtype.kind in "iu":
        raise UsageError(f"`{argument}`: {width} numbers, as many as there are units, each 0 or 1: a row of a matrix has two dimensions, "
                         "row[None]")
    return sp.csr_matrix((np.ones(len(units), np.float32), units, np.array([0, len(units)])), shape=(1, width))


def allowed_of(items: Any, filter_items: Any, width: int, labels: Labels | None) -> Array | None:
    """uint8 [units], 1 for those that may be recommended; None: all may."""
    if items is None and filter_items is None:
        return None
    allowed = np.full(width, items is None, np.uint8)
    if items is not None:
        allowed[units_of(items, "items", width, labels)] = 1
    if filter_items is not None:
        allowed[units_of(filter_items, "filter_items", width, labels)] = 0
    return allowed
