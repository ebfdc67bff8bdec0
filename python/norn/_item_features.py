# SPDX-License-Identifier: Apache-2.0
"""Features of items on their way to the engine: `fit(..., item_features=)`."""
from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse

from . import _core
from ._arrays import memory_set
from .data.matrices import has_entries, matrix_of
from .errors import DataError, UsageError

_log = logging.getLogger("norn")

NAME = "item_features"  # of the data set


def settings_with(native: dict[str, Any], item_features: Any, wanted: Any) -> dict[str, Any]:
    """The settings of a run whose items, the columns of what is wanted, have these features."""
    if item_features is None:
        return native
    if isinstance(wanted, Mapping):
        raise UsageError("`item_features`: the network has several data sets, and features are of the items of one; name them in its "
                         "\"Features\", and train with files")
    items = matrix_of(wanted).shape[1]
    if isinstance(item_features, Mapping):
        item_features = _rows_of(item_features, getattr(wanted, "feature_labels", None), items)
    elif not hasattr(item_features, "matrix") and getattr(item_features, "ndim", 0) != 2:
        raise UsageError("`item_features`: expected a matrix [items, features], a Dataset, or a dictionary from items to features, not "
                         f"{type(item_features).__name__}")
    rows = matrix_of(item_features).shape[0]
    if rows != items:
        raise UsageError(f"`item_features`: has {rows} rows, and there are {items} items; give a row for each, or a dictionary by labels")
    if not has_entries(matrix_of(item_features)):
        raise DataError("`item_features`: the matrix has no entries, so that no item has a feature")
    return native | {"sets": [*native["sets"], memory_set(NAME, item_features, NAME)], "item_features": NAME}


class _Rows:
    """A matrix whose columns have labels."""

    def __init__(self, matrix: Any, labels: list[str]):
        self.matrix = matrix
        self.feature_labels = _core.Labels(labels)


def _rows_of(given: Mapping[Any, Any], labels: Iterable[Any] | None, items: int) -> _Rows:
    """Items that do not exist are named and counted, and left out; those that are missing have no features."""
    numbers = {str(label): number for number, label in enumerate(range(items) if labels is None else labels)}
    unknown = [str(item) for item in given if str(item) not in numbers]
    if unknown:
        _log.warning("`item_features`: %d items do not exist, and are left out: %s", len(unknown), _shown(unknown))
    known = {str(item) for item in given} & set(numbers)
    missing = [label for label in numbers if label not in known]
    if missing:
        _log.warning("`item_features`: %d items have none: %s", len(missing), _shown(missing))
    features: dict[str, int] = {}
    entries: list[tuple[int, int, float]] = []
    for item, of_item in given.items():
        if str(item) not in known:
            continue
        if isinstance(of_item, str) or not isinstance(of_item, Iterable):
            raise UsageError(f"`item_features`: of \"{item}\" expected a list of features, or a dictionary from them to numbers, not "
                             f"{of_item!r}")
        valued = of_item.items() if isinstance(of_item, Mapping) else ((feature, 1.0) for feature in of_item)
        entries += [(numbers[str(item)], features.setdefault(str(feature), len(features)), float(value)) for feature, value in valued]
    if not entries:
        raise DataError("`item_features`: no item of the data has a feature")
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    matrix = scipy.sparse.csr_matrix((values.astype(np.float32), (rows, columns)), shape=(items, len(features)))
    return _Rows(matrix, list(features))


def _shown(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
