# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices of other libraries, checked and, where they need not change, taken as they stand."""
from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, UsageError

if TYPE_CHECKING:
    from .._types import Array

_log = logging.getLogger("norn")


def matrix_of(data: Any) -> Any:
    """The matrix of a Dataset, or the matrix itself."""
    return getattr(data, "matrix", data)


def has_entries(matrix: Any) -> bool:
    """Whether anything is not zero. SciPy's own functions would sort the arrays in place."""
    if not isinstance(matrix, np.ndarray):
        matrix = (matrix if matrix.format in ("csr", "csc", "coo") else matrix.tocoo()).data
    return bool(matrix.any())


def dense_of(array: Array, argument: str) -> Array:
    """The array, if it is one of numbers by rows."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise UsageError(f"`{argument}`: an array of {array.ndim} dimensions and {array.dtype}, expected a NumPy array of two dimensions, "
                         "[examples, units], of float32")
    return array


def sparse_of(data: Any, argument: str) -> Any:
    """A sparse matrix of SciPy; of a dense one of NumPy what is not zero. Raises UsageError for all else."""
    matrix = matrix_of(data)
    if isinstance(matrix, np.ndarray):
        _log.debug("`%s` is copied from a dense array to CSR", argument)
        return sp.csr_matrix(dense_of(matrix, argument))
    if not sp.issparse(matrix):
        table = "; Dataset.from_table reads tables, and .to_numpy() makes a matrix of one that has a column for each unit"
        raise UsageError(f"`{argument}` is of type {type(data).__name__}, expected a scipy.sparse matrix, a norn.Dataset or a NumPy array"
                         + (table if hasattr(data, "columns") else ""))
    if matrix.ndim != 2:
        raise UsageError(f"`{argument}` has {matrix.ndim} dimensions, expected [examples, units]")
    return matrix


def csr_of(data: Any, argument: str) -> Any:
    """CSR whose columns ascend within a row, each there once: the matrix itself where it is that, else a copy. Entries of one
    place are added up, as SciPy does. Its own functions trust the arrays, so they are looked at first."""
    matrix = sparse_of(data, argument)
    if matrix.format != "csr":
        _log.debug("`%s` is copied from %s to CSR", argument, matrix.format)
        matrix = _to_csr(matrix, argument)
    _require_whole(matrix, argument, "row", "column")
    matrix = _native(matrix, argument)
    if matrix.indices.dtype == matrix.indptr.dtype:
        matrix = _looked_at_again(matrix, argument)
    if not matrix.has_sorted_indices:
        _log.debug("`%s` is copied to sort its columns", argument)
        matrix = matrix.sorted_indices()
    if not matrix.has_canonical_format:
        _log.debug("`%s` is copied to add up entries of the same row and column", argument)
        summed: Any = matrix.astype(matrix.dtype if matrix.dtype.kind == "f" else np.float32, copy=True)
        summed.sum_duplicates()
        return summed
    return matrix


def _looked_at_again(matrix: Any, argument: str) -> Any:
    """The matrix over the same arrays, without what was claimed of their order. Another thread may have changed them by now."""
    try:
        return sp.csr_matrix(matrix)
    except ValueError as error:
        raise DataError(f"`{argument}` was changed while it was read: {error}") from None


def without_zeros(matrix: Any, argument: str) -> Any:
    """The CSR matrix, or a copy without the zeros that it stores."""
    if not matrix.data.all():
        _log.debug("`%s` is copied without its zeros", argument)
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def row_of(begin: Array, entry: Any) -> Any:
    return np.searchsorted(begin, entry, side="right") - 1


def _fail(matrix: Any, entry: int, argument: str, fault: str, row: str = "row") -> NoReturn:
    raise DataError(f"`{argument}`: {row} {row_of(matrix.indptr, entry)} (from 0): {fault}")


def _to_csr(matrix: Any, argument: str) -> Any:
    if matrix.format == "csc":
        _require_whole(matrix, argument, "column", "row")
    try:
        return matrix.tocsr()
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"`{argument}`: SciPy cannot make a CSR matrix of it: {error}") from None


def _native(matrix: Any, argument: str) -> Any:
    """SciPy's own functions take no other order of bytes, and no values of 16 bits."""
    given = (matrix.data, matrix.indices, matrix.indptr)
    arrays = tuple(a.astype(np.float32 if a.dtype.kind == "f" and a.itemsize == 2 else a.dtype.newbyteorder("="), copy=False)
                   for a in given)
    if all(a is b for a, b in zip(arrays, given)):
        return matrix
    _log.debug("`%s` is copied to this machine's types", argument)
    return sp.csr_matrix(arrays, shape=matrix.shape)


def _require_whole(matrix: Any, argument: str, row: str, column: str) -> None:
    """`row`, `column`: what indptr and indices stand for."""
    begin, columns, values = matrix.indptr, matrix.indices, matrix.data
    rows, width = matrix.shape if row == "row" else matrix.shape[::-1]
    for name, array, kinds, wanted in (("indptr", begin, "iu", "int32"), ("indices", columns, "iu", "int32"),
                                       ("values", values, "biuf", "float32")):
        if array.dtype.kind not in kinds:
            raise DataError(f"`{argument}`: its {name} are {array.dtype}, expected {wanted}")
        if array.ndim != 1:
            raise DataError(f"`{argument}`: its {name} have {array.ndim} dimensions, expected one")
    if columns.size != values.size:
        raise DataError(f"`{argument}`: there are {columns.size} indices and {values.size} values")
    falls = np.flatnonzero(begin[1:] < begin[:-1])
    if begin.size != rows + 1 or begin[0] != 0 or begin[-1] > columns.size or falls.size:
        raise DataError(f"`{argument}`: its indptr has {begin.size} offsets for {rows} {row}s, and must ascend from 0 to at most the "
                        f"{columns.size} entries" + (f"; it goes from {begin[0]} to {begin[-1]}" if begin.size else "")
                        + (f" and falls after {row} {falls[0]}" if falls.size else ""))
    columns = columns[: begin[-1]]
    if columns.size and (columns.min() < 0 or columns.max() >= width):
        at = int(((columns < 0) | (columns >= width)).argmax())
        _fail(matrix, at, argument, f"{column} {columns[at]} is out of range, expected 0 to {width - 1}", row)


def floats_of(matrix: Any, argument: str) -> Array:
    """The values: float32 as they stand."""
    return float32_of(matrix.data, argument,
                      lambda entry: f"row {row_of(matrix.indptr, entry)} (from 0): the value of column {matrix.indices[entry]}")


def float32_of(values: Array, argument: str, place: Callable[[int], str]) -> Array:
    """The array, as it stands or copied. DataError for a number that float32 cannot hold; `place` says what the nth one is."""
    if values.dtype == np.float32:
        return np.ascontiguousarray(values)
    _log.debug("`%s`: %d values are copied from %s to float32", argument, values.size, values.dtype)
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(values, dtype=np.float32)
    lost = np.flatnonzero(np.isinf(made) & np.isfinite(values))
    if lost.size:
        raise DataError(f"`{argument}`: {place(int(lost[0]))} is {float(values.flat[lost[0]])!r}, which does not fit float32: it holds up "
                        "to 3.4e38")
    return made


def dense_floats(array: Array, argument: str) -> Array:
    """Of a dense matrix float32 by rows."""
    width = dense_of(array, argument).shape[1]
    return float32_of(array, argument, lambda entry: f"row {entry // width} (from 0): the value of column {entry % width}")


def finite_csr(data: Any, argument: str) -> Any:
    """As csr_of(): finite float32 values, int32 columns."""
    matrix = csr_of(data, argument)
    if matrix.shape[1] > 2**31 - 1:
        raise DataError(f"`{argument}` is {matrix.shape[1]} wide, at most {2**31 - 1} is possible here; write text for importer instead")
    values = floats_of(matrix, argument)[: matrix.indptr[-1]]
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        at = int(wrong[0])
        _fail(matrix, at, argument,
              f"the value of column {matrix.indices[at]} is {float(matrix.data[at])!r}, expected a finite 32-bit number")
    columns = matrix.indices[: matrix.indptr[-1]].astype(np.int32, copy=False)
    made: Any = sp.csr_matrix((values, columns, matrix.indptr), shape=matrix.shape, copy=False)
    made.has_canonical_format = True
    return made


def read_npz(path: str | os.PathLike[str]) -> Any:
    """What scipy.sparse.save_npz wrote."""
    try:
        return sp.load_npz(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except Exception as error:  # zipfile, zlib, pickle and NumPy each have errors of their own
        raise DataError(f"{path}: cannot be read as a sparse matrix of SciPy (.npz): {error}; is it cut off, or another format?") from None
