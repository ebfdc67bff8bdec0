# SPDX-License-Identifier: Apache-2.0
"""From matrices of SciPy and NumPy to data sets of the engine, which read them where they stand."""
from __future__ import annotations

import logging
import weakref
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from . import _core
from ._labels import Labels, native_labels
from .data.matrices import csr_of, dense_floats, float32_of, floats_of, matrix_of, sparse_of, without_zeros
from .errors import DataError, Problem, UsageError

if TYPE_CHECKING:
    from ._types import Array

_log = logging.getLogger("norn")
# Of data, the engine's labels of those that they have
_MADE: weakref.WeakKeyDictionary[Any, tuple[Any, _core.Labels]] = weakref.WeakKeyDictionary()


def is_by_name(data: Any) -> bool:
    """Whether it is a dictionary of matrices; SciPy's DOK matrices are dictionaries of another kind."""
    return isinstance(data, Mapping) and not sp.issparse(data)


def named(data: Any, argument: str) -> Mapping[str, Any]:
    """A dictionary with names. Raises UsageError for all else."""
    if not is_by_name(data) or not all(isinstance(name, str) for name in data):
        raise UsageError(f"`{argument}`: expected a dictionary from names, not {data!r:.100}")
    return data  # type: ignore[no-any-return]


def held_out_parts(data: Any) -> str:
    """What to give of split data in place of all."""
    return " or ".join(f".{part}" for part in data.parts if part != "train")


def tell_of_parts(data: Any, argument: str) -> None:
    """A warning for split data given whole: what is held out is trained on, too."""
    if getattr(data, "is_split", False):
        _log.warning("`%s`: these data are split, and all of them are trained on, also what %s holds out; give .train", argument,
                     held_out_parts(data))


def tell_of_negative(data: Any, argument: str) -> None:
    """A warning for sparse targets with values below 0: targets have no values."""
    values = np.asarray(getattr(matrix_of(data), "data", ()) if sp.issparse(matrix_of(data)) else ())
    negative = int(np.count_nonzero(values < 0)) if values.dtype.kind in "if" else 0
    if negative:
        _log.warning("`%s`: %d of %d values are negative, and their units count as wanted as all others: which units there are is learned "
                     "and looked for, not their values; leave out what is not wanted", argument, negative, values.size)


def factors_of(given: Any, users: int) -> Any:
    """As CSR; of a dense array of [users, units], or of one for each unit, every value counts, also zeros."""
    if not isinstance(given, np.ndarray):
        return given
    rows = np.broadcast_to(given, (users, given.size)) if given.ndim == 1 else given
    rows = dense_floats(rows, "score_factors")
    columns = np.tile(np.arange(rows.shape[1], dtype=np.int32), len(rows))
    return sp.csr_matrix((rows.ravel(), columns, np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]), shape=rows.shape)


def require_users(given: Any, argument: str, users: int, width: int) -> None:
    """Raises UsageError where there is not a row for each user and a column for each unit."""
    if tuple(given.shape) != (users, width):
        raise UsageError(f"`{argument}`: has the shape {tuple(given.shape)}, expected {(users, width)}: a row for each user and a column "
                         "for each unit")


def set_of_each_user(given: Any, argument: str, users: int, width: int) -> _core.MemorySet | None:
    """What is said of each user's units, [users, units]: values, or of "filter_pairs" which ones."""
    if given is None:
        return None
    matrix = sparse_of(given, argument)
    require_users(matrix, argument, users, width)
    return memory_set(argument, matrix, argument, indicator=argument == "filter_pairs")


def labels_of(data: Any) -> _core.Labels | None:
    """The labels of a Dataset's features for the engine, made once; None where it has none."""
    labels = getattr(data, "feature_labels", None)
    if labels is None or isinstance(labels, (Labels, _core.Labels)):
        return None if labels is None else native_labels(labels)
    kept = _MADE.get(data) if isinstance(data, Hashable) else None
    if kept is None or kept[0] is not labels:
        kept = labels, _core.Labels(labels)
        if isinstance(data, Hashable):
            _MADE[data] = kept
    return kept[1]


def weights_of(weights: Any, examples: int) -> Array | None:
    """float32, one an example; that they are finite the engine looks."""
    if weights is None:
        return None
    try:
        given = np.asarray(weights, dtype=None if getattr(weights, "dtype", None) == np.float32 else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"`weights`: expected numbers, one for each example: {error}") from None
    array = float32_of(given, "weights", lambda example: f"the weight of example {example}")
    if array.shape != (examples,):
        raise UsageError(f"`weights`: has the shape {array.shape}, expected one for each of {examples} examples")
    negative = array < 0
    if negative.any():
        example = int(negative.argmax())
        raise DataError(f"`weights`: example {example}: its weight is {array[example]:g}, expected at least 0: it would be trained away "
                        "from")
    if examples > 0 and not array.any():
        raise DataError("`weights`: all are 0, so that there is nothing to learn; 1 counts an example once")
    return array


def memory_set(name: str, data: Any, argument: str, *, indicator: bool | None = None, weights: Any = None) -> _core.MemorySet:
    """The data set `name` over a matrix, without a copy where that can be; with `indicator` without its values, by default
    where all are one. With False zeros count, too. A dense matrix of NumPy is a dense set. What is not finite, the engine
    refuses."""
    if isinstance(data, _core.MemorySet):
        return data
    if isinstance(data, np.ndarray):
        return _core.MemorySet.dense(name, dense_floats(data, argument), weights=weights_of(weights, len(data)))
    matrix = csr_of(data, argument)
    if indicator is not False:
        matrix = without_zeros(matrix, argument)
    if matrix.shape[0] == 0:
        raise UsageError(f"`{argument}`: has no rows")
    end = matrix.indptr[-1]
    values = matrix.data[:end]
    if indicator is None:
        indicator = end == 0 or bool(values[0] == 1 and (values == 1).all())
    return _core.MemorySet.sparse(
        name,
        matrix.shape[1],
        matrix.indptr.astype(np.int64, copy=False),
        _columns(matrix, argument)[:end],
        None if indicator else floats_of(matrix, argument)[:end],
        labels=labels_of(data),
        weights=weights_of(weights, matrix.shape[0]),
    )


def _columns(matrix: Any, argument: str) -> Array:
    """int32 as it stands; int64 of wider matrices is copied once."""
    indices: Array = matrix.indices
    if indices.dtype == np.int32:
        return np.ascontiguousarray(indices)
    _log.debug("`%s`: %d indices are copied from %s to 32 bits", argument, indices.size, indices.dtype)
    if matrix.shape[1] > 2**32 - 1:
        raise UsageError(f"`{argument}`: {matrix.shape[1]} units are too many, at most {2**32 - 1} are possible")
    return indices.astype(np.uint32 if matrix.shape[1] > 2**31 else np.int32)


def float_arrays(arrays: Mapping[Any, Any]) -> dict[str, Array]:
    """By name arrays of float32 that the engine reads where they stand. Raises UsageError with all that are something else."""
    found = {str(name): np.asarray(given) for name, given in arrays.items()}
    problems: list[Problem] = [
        {"key": name, "message": f"`parameters`: \"{name}\" is {array.dtype} of {array.ndim} dimensions; expected float32 of one to five"}
        for name, array in found.items() if array.dtype != np.float32 or not 1 <= array.ndim <= 5]
    if problems:
        raise UsageError("\n".join(problem["message"] for problem in problems), problems=problems)
    return found
