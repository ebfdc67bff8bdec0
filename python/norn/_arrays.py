# SPDX-License-Identifier: Apache-2.0
"""From matrices of SciPy and NumPy to data sets of the engine, which read them where they stand."""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _core
from ._settings import integer
from .errors import DataError, UsageError

_log = logging.getLogger("norn")


def matrix_of(data: Any) -> Any:
    """The matrix of a Dataset, or the matrix itself."""
    return getattr(data, "matrix", data)


def sparse_of(data: Any, argument: str) -> Any:
    """A sparse matrix of SciPy; of a dense one of NumPy what is not zero. Raises UsageError for all else."""
    matrix = matrix_of(data)
    if isinstance(matrix, np.ndarray):
        _log.debug("`%s` is copied from a dense array to CSR", argument)
        return sp.csr_matrix(_dense_of(matrix, argument))
    if not sp.issparse(matrix):
        table = "; Dataset.from_table reads tables, and .to_numpy() makes a matrix of one that has a column for each unit"
        raise UsageError(f"`{argument}`: expected a sparse matrix of SciPy or a Dataset, not {type(data).__name__}{table if hasattr(data, 'columns') else ''}")
    return matrix


def _dense_of(array: np.ndarray, argument: str) -> np.ndarray:
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise UsageError(f"`{argument}`: an array of {array.ndim} dimensions and {array.dtype}, expected [examples, units] of float32")
    return array


def factors_of(given: Any, users: int) -> Any:
    """As CSR; of a dense array of [users, units], or of one for each unit, every value counts, also zeros."""
    if not isinstance(given, np.ndarray):
        return given
    rows = np.broadcast_to(given, (users, given.size)) if given.ndim == 1 else given
    rows = np.ascontiguousarray(_dense_of(rows, "score_factors"), dtype=np.float32)
    columns = np.tile(np.arange(rows.shape[1], dtype=np.int32), len(rows))
    return sp.csr_matrix((rows.ravel(), columns, np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]), shape=rows.shape)


def require_users(given: Any, argument: str, users: int, width: int) -> None:
    """Raises UsageError where there is not a row for each user, or more columns than units."""
    if given.shape[0] != users or given.shape[1] > width:
        raise UsageError(f"`{argument}`: has the shape {tuple(given.shape)}, expected {(users, width)}: a row for each user and a column for each unit")


def csr_of(data: Any, argument: str, *, zeros: bool = False) -> Any:
    """As CSR with ascending columns: the matrix itself where it is that, else a copy. Zeros that are stored are entries only
    where `zeros` says so."""
    matrix = sparse_of(data, argument)
    if matrix.format != "csr":
        _log.debug("`%s` is copied from %s to CSR", argument, matrix.format)
        matrix = matrix.tocsr()
    if matrix.ndim != 2:
        raise UsageError(f"`{argument}`: has {matrix.ndim} dimensions, expected examples x units")
    for name, array in (("indptr", matrix.indptr), ("indices", matrix.indices)):
        if array.dtype.kind not in "iu":
            raise UsageError(f"`{argument}`: {name} are {array.dtype}, expected int32")
    if matrix.data.dtype.kind not in "biuf":
        raise UsageError(f"`{argument}`: values are {matrix.data.dtype}, expected float32")
    _require_whole(matrix, argument)
    if matrix.data.size and not zeros and not matrix.data.all():
        _log.debug("`%s` is copied without its zeros", argument)
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if not matrix.has_sorted_indices:
        _log.debug("`%s` is copied to sort its columns", argument)
        matrix = matrix.sorted_indices()
    return matrix


def _require_whole(matrix: Any, argument: str) -> None:
    """SciPy's own functions trust these arrays."""
    indptr, indices, values = matrix.indptr, matrix.indices, matrix.data
    if indptr.ndim != 1 or indptr.size != matrix.shape[0] + 1:
        raise UsageError(f"`{argument}`: indptr has {indptr.size} elements, expected {matrix.shape[0] + 1} for {matrix.shape[0]} rows")
    if indices.size != values.size:
        raise UsageError(f"`{argument}`: there are {indices.size} indices and {values.size} values")
    if indptr[0] != 0 or indptr[-1] != indices.size:
        raise UsageError(f"`{argument}`: indptr goes from {indptr[0]} to {indptr[-1]}, expected from 0 to {indices.size}")
    steps = np.diff(indptr)
    if steps.size and steps.min() < 0:
        raise UsageError(f"`{argument}`: indptr falls after row {int(steps.argmin())}")
    if indices.size == 0:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= matrix.shape[1]:
        wrong = low if low < 0 else high
        row = int(np.searchsorted(indptr, int((indices == wrong).argmax()), side="right")) - 1
        raise UsageError(f"`{argument}`: row {row}: column {wrong} is out of range, expected 0 to {matrix.shape[1] - 1}")


def _require_once(matrix: Any, argument: str) -> None:
    """The columns of a row ascend here."""
    if matrix.has_canonical_format:
        return
    same = np.flatnonzero(matrix.indices[1:] == matrix.indices[:-1])
    rows = np.searchsorted(matrix.indptr, same, side="right") - 1
    within = same + 1 < matrix.indptr[rows + 1]
    if within.any():
        at = int(within.argmax())
        raise DataError(f"`{argument}`: row {rows[at]}: column {matrix.indices[same[at]]} occurs twice; matrix.sum_duplicates() adds such entries up, and "
                        "matrix.data[:] = 1 afterwards makes them one that is present")


def _columns(matrix: Any, argument: str) -> Any:
    """int32 as it stands; int64 of wider matrices is copied once."""
    indices = matrix.indices
    if indices.dtype == np.int32:
        return np.ascontiguousarray(indices)
    _log.debug("`%s`: %d indices are copied from %s to 32 bits", argument, indices.size, indices.dtype)
    if matrix.shape[1] > 2**32 - 1:
        raise UsageError(f"`{argument}`: {matrix.shape[1]} units are too many, at most {2**32 - 1} are possible")
    return indices.astype(np.uint32 if matrix.shape[1] > 2**31 else np.int32)


def _values(matrix: Any, argument: str) -> Any:
    """float32 as it stands."""
    values = matrix.data
    if values.dtype != np.float32:
        _log.debug("`%s`: %d values are copied from %s to float32", argument, values.size, values.dtype)
        values = values.astype(np.float32)
    return np.ascontiguousarray(values)


def labels_of(data: Any) -> Any:
    """The labels of a Dataset's features for the engine, made once; None where it has none."""
    labels = getattr(data, "feature_labels", None)
    if labels is None or isinstance(labels, _core.Labels):
        return labels
    kept = getattr(data, "_native_labels", None)
    if kept is None or kept[0] is not labels:
        kept = (labels, _core.Labels(labels))
        try:
            data._native_labels = kept
        except AttributeError:
            pass
    return kept[1]


def weights_of(weights: Any, examples: int) -> Any:
    """float32, one an example."""
    if weights is None:
        return None
    try:
        array = np.ascontiguousarray(weights, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"`weights`: expected numbers, one for each example: {error}") from None
    if array.shape != (examples,):
        raise UsageError(f"`weights`: has the shape {array.shape}, expected one for each of {examples} examples")
    return array


def memory_set(name: str, data: Any, argument: str, *, indicator: bool | None = None, weights: Any = None) -> Any:
    """The data set `name` over a matrix, without a copy where that can be; with `indicator` without its values, by default
    where all are one. With False zeros count, too. A dense matrix of NumPy is a dense set."""
    if isinstance(data, _core.MemorySet):
        return data
    if isinstance(data, np.ndarray):
        return _core.MemorySet.dense(name, np.ascontiguousarray(_dense_of(data, argument), dtype=np.float32), weights=weights_of(weights, len(data)))
    matrix = csr_of(data, argument, zeros=indicator is False)
    if indicator is not None:
        _require_once(matrix, argument)  # of inputs alone the engine adds them up
    else:
        indicator = matrix.data.size == 0 or bool(matrix.data[0] == 1 and (matrix.data == 1).all())
    if matrix.shape[0] == 0:
        raise UsageError(f"`{argument}`: has no rows")
    return _core.MemorySet.sparse(
        name,
        matrix.shape[1],
        matrix.indptr.astype(np.int64, copy=False),
        _columns(matrix, argument),
        None if indicator else _values(matrix, argument),
        labels=labels_of(data),
        weights=weights_of(weights, matrix.shape[0]),
    )


def is_series(given: Any) -> bool:
    """Whether it is a column of pandas or polars."""
    return hasattr(given, "to_numpy") and len(getattr(given, "shape", ())) == 1


def units_of(given: Any, argument: str, width: int, labels: Any) -> np.ndarray:
    """Units' numbers as int64, of numbers or labels. Raises UsageError naming the first that is none."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    listed = given if isinstance(given, np.ndarray) else np.asarray(given) if is_series(given) else list(given)
    if len(listed) == 0:
        return np.empty(0, np.int64)
    if isinstance(listed, np.ndarray) and listed.dtype == bool:
        if listed.shape != (width,):
            raise UsageError(f"`{argument}`: a mask of the shape {listed.shape}, expected one bool for each of {width} units")
        return np.flatnonzero(listed)
    if isinstance(listed[0], (list, tuple, set, frozenset)):
        raise UsageError(f"`{argument}`: {listed[0]!r:.60} stands in a list, which is one user's units; give one list after the other, or a CSR matrix [users, units]")
    if isinstance(listed[0], str):
        if labels is None:
            raise UsageError(f"`{argument}`: {listed[0]!r}: the model has no labels; name units by their numbers")
        for word in listed:
            if not isinstance(word, str):
                raise UsageError(f"`{argument}`: {word!r} is no label beside {listed[0]!r}")
        numbers = np.asarray(labels.find([str(word) for word in listed]), np.int64)
        if (numbers < 0).any():
            raise UsageError(f"`{argument}`: the model has no unit {listed[int((numbers < 0).argmax())]!r}")
        return numbers
    if isinstance(listed, np.ndarray) and listed.dtype.kind in "iu":
        numbers = listed.astype(np.int64).ravel()
    else:
        numbers = np.asarray([min(integer(argument, unit), 2**63 - 1) for unit in listed], np.int64)
    wrong = (numbers < 0) | (numbers >= width)
    if wrong.any():
        raise UsageError(f"`{argument}`: unit {numbers[int(wrong.argmax())]} is out of range, expected 0 to {width - 1}")
    return numbers


def float_arrays(arrays: Any) -> dict[str, np.ndarray]:
    """By name arrays of float32 that the engine reads where they stand. Raises UsageError with all that are something else."""
    found: dict[str, np.ndarray] = {}
    problems = []
    for name, given in arrays.items():
        array = np.asarray(given)
        if array.dtype != np.float32 or not 1 <= array.ndim <= 2:
            problems.append({"key": str(name), "message": f"`parameters`: \"{name}\" is {array.dtype} of {array.ndim} dimensions; expected "
                                                          "float32 of one or two"})
        found[str(name)] = array
    if problems:
        raise UsageError("\n".join(problem["message"] for problem in problems), problems=problems)
    return found
