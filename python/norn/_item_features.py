# SPDX-License-Identifier: Apache-2.0
"""Features of items on their way to the engine: `fit(..., item_features=)` and `add_items`."""
from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from . import _core
from ._arrays import memory_set
from .data.matrices import csr_of, matrix_of
from .errors import DataError, UsageError

_log = logging.getLogger("norn")

NAME = "item_features"  # of the data set


class Table(NamedTuple):
    """CSR [items, features], and what features are called, as a Dataset has them."""

    matrix: Any
    feature_labels: Sequence[str] | None


class Named:
    """Features by name: those that there are, or where there are none yet as they come."""

    def __init__(self, names: Iterable[str] | None = None):
        self.numbers = {name: number for number, name in enumerate(names or ())}
        self.fixed = names is not None
        self.unknown: list[str] = []

    def number(self, name: str) -> int | None:
        if self.fixed and name not in self.numbers:
            self.unknown.append(name)
            return None
        return self.numbers.setdefault(name, len(self.numbers))


def settings_with(native: dict[str, Any], item_features: Any, wanted: Any) -> dict[str, Any]:
    """The settings of a run whose items, the columns of what is wanted, have these features."""
    if item_features is None:
        return native
    if isinstance(wanted, Mapping):
        raise UsageError("`item_features`: the network has several data sets, and features are of the items of one; name them in its "
                         "\"Features\", and train with files")
    table = table_of(item_features, getattr(wanted, "feature_labels", None), matrix_of(wanted).shape[1], "item_features")
    if not table.matrix.nnz:
        raise DataError("`item_features`: no item of the data has a feature")
    return native | {"sets": [*native["sets"], memory_set(NAME, _Set(table), NAME)], "item_features": NAME}


class _Set:
    """A table as data are given."""

    def __init__(self, table: Table):
        self.matrix = table.matrix
        self.feature_labels = _core.Labels(list(table.feature_labels)) if table.feature_labels is not None else None


def table_of(given: Any, labels: Iterable[Any] | None, items: int, argument: str) -> Table:
    """Features of `items` items with these labels. A dictionary goes by label, or number where there are none: items that do not exist
    are named and counted, and left out; those that are missing have no features, as who uses the table tells. Of a Dataset rows go by
    their labels, too."""
    numbers = {str(label): number for number, label in enumerate(range(items) if labels is None else labels)}
    if isinstance(given, Mapping):
        names = Named()
        table = Table(by_name(given, numbers, names, argument), list(names.numbers))
    else:
        table = _by_row(given, None if labels is None else numbers, items, argument)
    return table


def _by_row(given: Any, numbers: Mapping[str, int] | None, items: int, argument: str) -> Table:
    matrix = matrix_of_items(given, argument)
    words, rows = getattr(given, "feature_labels", None), getattr(given, "example_labels", None)
    if numbers is not None and rows is not None:
        known = np.array([row for row, label in enumerate(rows) if label in numbers], dtype=np.int64)
        _tell_of_items([label for label in rows if label not in numbers], argument)
        to = np.array([numbers[rows[row]] for row in known], dtype=np.int64)
        turn = scipy.sparse.csr_matrix((np.ones(len(known), np.float32), (to, known)), shape=(items, len(rows)))
        return Table((turn @ matrix).tocsr(), words)
    if matrix.shape[0] != items:
        raise UsageError(f"`{argument}`: has {matrix.shape[0]} rows, and there are {items} items; give a row for each, or a dictionary by "
                         "labels")
    return Table(matrix, words)


def matrix_of_items(given: Any, argument: str = "item_features") -> Any:
    """CSR [items, features] of what is a matrix. Raises UsageError for what is none."""
    if hasattr(given, "columns") and not hasattr(given, "matrix"):
        raise UsageError(f"`{argument}`: rows of a table of type {type(given).__name__} say nothing of the items that they are of; give a "
                         "dictionary from items to features, or norn.Dataset.from_table(table, ITEM, FEATURE) of a column of items and one "
                         "of features, a row for each feature of an item")
    if not hasattr(given, "matrix") and getattr(given, "ndim", 0) != 2:
        raise UsageError(f"`{argument}`: expected a matrix [items, features], a Dataset, or a dictionary from items to features, not "
                         f"{type(given).__name__}")
    return csr_of(given, argument)


def by_name(given: Mapping[Any, Any], rows: Mapping[str, int], names: Named, argument: str = "item_features") -> Any:
    """CSR [len(rows), features] of a dictionary from items to lists of features, or to dictionaries from them to numbers. What is no item
    and what is no feature is told."""
    _tell_of_items([str(item) for item in given if str(item) not in rows], argument)
    entries: list[tuple[int, int, float]] = []
    missing = 0
    for item, of_item in given.items():
        if str(item) not in rows:
            continue
        for feature, value in _features_of(item, of_item, argument):
            if _is_missing(feature):
                missing += 1
                continue
            number = names.number(str(feature))
            if number is not None:
                entries.append((rows[str(item)], number, value))
    if missing:
        _log.warning("`%s`: %d features are None or NaN, and left out", argument, missing)
    _tell_of_features(names)
    parts = [np.array(part) for part in zip(*entries, strict=True)] or [np.empty(0, np.int64)] * 3
    return scipy.sparse.csr_matrix((parts[2].astype(np.float32), (parts[0], parts[1])), shape=(len(rows), len(names.numbers)))


def _features_of(item: Any, of_item: Any, argument: str) -> list[tuple[Any, float]]:
    """Those of one item, each once. Raises UsageError for what is no list of features, and a value that is no number."""
    if isinstance(of_item, str) or not isinstance(of_item, Iterable):
        raise UsageError(f"`{argument}`: of \"{item}\" expected a list of features, or a dictionary from them to numbers, not "
                         f"{of_item!r}")
    if not isinstance(of_item, Mapping):
        return [(feature, 1.0) for feature in {(_is_missing(one), str(one)): one for one in of_item}.values()]  # 1 and "1" are one
    found = []
    for feature, value in of_item.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if not np.isfinite(number):
            raise UsageError(f"`{argument}`: of \"{item}\" the feature \"{feature}\" has {value!r:.60}, expected a finite number; a word "
                             "is a feature of its own, in a list of them")
        found.append((feature, number))
    return found


def _is_missing(feature: Any) -> bool:
    """As pandas and others say that there is none."""
    return feature is None or type(feature).__name__ == "NAType" or feature != feature  # NaN and NaT are not themselves


def in_columns(given: Any, matrix: Any, names: Sequence[str] | None, features: int) -> Any:
    """Features of new items in the columns of those that known items have: by name where both have some. Raises UsageError where columns
    are not as many, and nothing says which they are."""
    labels = getattr(given, "feature_labels", None)
    if labels is None or names is None:
        if matrix.shape[1] != features:
            raise UsageError(f"`item_features`: has {matrix.shape[1]} columns, and the model's items have {features} features; give a "
                             "column for each, in their order")
        return matrix
    named = Named(names)
    columns = np.array([-1 if (number := named.number(str(label))) is None else number for label in labels], dtype=np.int64)
    _tell_of_features(named)
    kept = np.flatnonzero(columns >= 0)
    turn = scipy.sparse.csr_matrix((np.ones(len(kept), np.float32), (kept, columns[kept])), shape=(len(labels), features))
    return (matrix @ turn).tocsr()


def tell_of_missing(table: Table, labels: Iterable[Any] | None, argument: str) -> None:
    """Items without features, of a table that the engine does not get: it tells of its own."""
    rows = np.flatnonzero(np.asarray((table.matrix != 0).sum(axis=1)).ravel() == 0)
    if len(rows):
        named = None if labels is None else list(labels)
        _log.warning("`%s`: %d items have none: %s", argument, len(rows), _shown([str(row if named is None else named[row])
                                                                                 for row in rows[:4]]))


def tell_of_empty(matrix: Any, labels: Sequence[str] | None) -> None:
    """New items of which nothing is known."""
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if len(empty):
        names = [str(row) if labels is None else str(labels[row]) for row in empty[:4]]
        _log.warning("`item_features`: %d items have none, and get what all items have in common: %s", len(empty), _shown(names))


def _tell_of_items(unknown: list[str], argument: str) -> None:
    if unknown:
        _log.warning("`%s`: %d items do not exist, and are left out: %s", argument, len(unknown), _shown(unknown))


def _tell_of_features(names: Named) -> None:
    unknown = sorted(set(names.unknown))
    if unknown:
        _log.warning("`item_features`: %d features are not those of items that the model knows, and are left out: %s", len(unknown),
                     _shown(unknown))


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
