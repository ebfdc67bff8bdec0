# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices of other libraries, checked and, where they need not change, taken as they stand."""
from __future__ import annotations

import logging
import os
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, UsageError
from .entries import Rows

_log = logging.getLogger("norn")


def csr_of(matrix: Any, argument: str) -> sp.csr_matrix:
    """float32 values, int32 columns that ascend within a row, each once. The arrays of a matrix that is so already are shared,
    not copied. DataError names row and value of what is wrong."""
    if not sp.issparse(matrix):
        if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
            raise UsageError(f"`{argument}` is of type {type(matrix).__name__}, expected a scipy.sparse matrix or a NumPy array of two dimensions")
        if matrix.dtype.kind not in "fiub":
            raise DataError(f"`{argument}`: its values are of type {matrix.dtype}, expected numbers")
        matrix = sp.csr_matrix(matrix)
    if matrix.ndim != 2:
        raise UsageError(f"`{argument}` has {matrix.ndim} dimensions, expected [examples x features]")
    made = matrix if matrix.format == "csr" else matrix.tocsr()
    if matrix.format == "coo" and made.nnz != matrix.nnz:
        raise DataError(f"`{argument}`: {matrix.nnz - made.nnz} entries occur twice; add them up before, with matrix.sum_duplicates()")
    begin, columns = _places(made, argument)
    values = _values(made, begin, argument)
    made = sp.csr_matrix((values, columns, begin), shape=made.shape, copy=False)
    return _sorted(made, argument)


def _fail(begin: np.ndarray, entry: int, argument: str, fault: str) -> NoReturn:
    row = int(np.searchsorted(begin, entry, side="right")) - 1
    raise DataError(f"`{argument}`: row {row} (from 0): {fault}")


def _places(matrix: sp.csr_matrix, argument: str) -> tuple[np.ndarray, np.ndarray]:
    begin, columns = matrix.indptr, matrix.indices
    for name, array in (("indptr", begin), ("indices", columns)):
        if array.dtype.kind not in "iu":
            raise DataError(f"`{argument}`: its {name} are of type {array.dtype}, expected whole numbers")
    if begin.size != matrix.shape[0] + 1 or begin[0] != 0 or np.any(begin[1:] < begin[:-1]) or begin[-1] > columns.size:
        raise DataError(f"`{argument}`: its indptr has {begin.size} offsets for {matrix.shape[0]} rows, and must ascend from 0 to at most the "
                        f"{columns.size} entries")
    columns = columns[: begin[-1]]
    if columns.size:
        wrong = np.flatnonzero((columns < 0) | (columns >= matrix.shape[1]))
        if wrong.size:
            _fail(begin, wrong[0], argument, f"column {columns[wrong[0]]} is out of range, expected 0 to {matrix.shape[1] - 1}")
    if matrix.shape[1] > 2**31 - 1:
        raise DataError(f"`{argument}` is {matrix.shape[1]} wide, at most {2**31 - 1} is possible here; write text for importer instead")
    if columns.dtype != np.int32:
        _log.debug("`%s`: columns of type %s are copied to int32", argument, columns.dtype)
        columns = columns.astype(np.int32)
    return begin, columns


def _values(matrix: sp.csr_matrix, begin: np.ndarray, argument: str) -> np.ndarray:
    wide = matrix.data[: begin[-1]]
    if wide.dtype.kind not in "fiub":
        raise DataError(f"`{argument}`: its values are of type {wide.dtype}, expected numbers")
    values = wide
    if wide.dtype != np.float32:
        _log.debug("`%s`: values of type %s are copied to float32", argument, wide.dtype)
        with np.errstate(over="ignore"):
            values = wide.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        at = wrong[0]
        _fail(begin, at, argument, f"the value of column {matrix.indices[at]} is {float(wide[at])!r}, expected a finite 32-bit number")
    return values


def _sorted(matrix: sp.csr_matrix, argument: str) -> sp.csr_matrix:
    if not _ascends(matrix.indptr, matrix.indices, strictly=False):
        _log.debug("`%s`: rows are copied to put their columns in order", argument)
        matrix = matrix.copy()
        matrix.has_sorted_indices = False
        matrix.sort_indices()
    if not _ascends(matrix.indptr, matrix.indices, strictly=True):
        inside = _within_rows(matrix.indptr, matrix.indices)
        at = int(np.flatnonzero((matrix.indices[1:] == matrix.indices[:-1]) & inside)[0])
        _fail(matrix.indptr, at, argument, f"column {matrix.indices[at]} occurs twice; add such entries up before, with matrix.sum_duplicates()")
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def _within_rows(begin: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """[entries - 1] whether an entry and the next are in one row."""
    inside = np.ones(max(0, columns.size - 1), dtype=bool)
    starts = begin[1:-1]
    inside[starts[(starts > 0) & (starts < columns.size)] - 1] = False
    return inside


def _ascends(begin: np.ndarray, columns: np.ndarray, strictly: bool) -> bool:
    if columns.size < 2:
        return True
    fine = columns[1:] > columns[:-1] if strictly else columns[1:] >= columns[:-1]
    return bool(np.all(fine | ~_within_rows(begin, columns)))


def matrix_of(rows: Rows, width: int) -> sp.csr_matrix:
    """The same entries with columns in order; of a set without values all are 1."""
    values = np.ones(rows.columns.size, dtype=np.float32) if rows.values is None else rows.values
    begin = rows.begin.astype(np.int32) if rows.columns.size < 2**31 else rows.begin
    columns = rows.columns
    made = sp.csr_matrix((values, columns, begin), shape=(rows.examples, width), copy=False)
    if not _ascends(made.indptr, made.indices, strictly=False):
        made = made.copy()
        made.has_sorted_indices = False
        made.sort_indices()
    made.has_sorted_indices = True
    return made


def rows_of_matrix(matrix: sp.csr_matrix, indicator: bool) -> Rows:
    return Rows(matrix.indptr.astype(np.int64), matrix.indices, None if indicator else matrix.data)


def read_npz(path: os.PathLike | str) -> Any:
    """What scipy.sparse.save_npz wrote."""
    try:
        return sp.load_npz(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except Exception as error:  # zipfile, zlib, pickle and NumPy each have errors of their own
        raise DataError(f"{path}: cannot be read as a sparse matrix of SciPy (.npz): {error}; is it cut off, or another format?") from None
