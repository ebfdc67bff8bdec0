# SPDX-License-Identifier: Apache-2.0
"""The columns of a table, of Arrow or NumPy, as arrays: numbers of labels, values, times."""
from __future__ import annotations

import abc
import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._words import did_you_mean
from ..errors import DataError, UsageError

if TYPE_CHECKING:
    from .._types import Array


def by_appearance(codes: Array, count: int) -> tuple[Array, Array]:
    """Numbers codes anew, in the order in which they first appear. Returns the new codes (int32) and, for each new one, the
    old; `codes` are below `count`, and those that do not appear are left out."""
    first = np.full(count, codes.size, dtype=np.int64)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # of several writes the last one stays, which is the first place
    here = np.flatnonzero(first < codes.size)
    old = here[np.argsort(first[here], kind="stable")]
    new = np.full(count, -1, dtype=np.int32)
    new[old] = np.arange(old.size, dtype=np.int32)
    return new[codes], old


class Column(abc.ABC):
    """A column under its name. `kind` is "text", "integer", "float", "boolean", "time" or, in words, something else."""

    name: str
    kind: str
    place = "table"  # what it is of, for messages

    @abc.abstractmethod
    def codes(self) -> tuple[Array, list[str]]:
        """Numbers of labels by row (int32, -1 where there is none) and the labels, in the order in which they appear. Only of
        text and integers."""

    @abc.abstractmethod
    def numbers(self) -> tuple[Array, Array | None]:
        """Values by row: int64, float64, or datetime64[us] in UTC; and where there is none. Of everything but text."""


def decoded(array: Any) -> Any:
    """An Arrow array without a dictionary (categories), and text of any layout as large_string: of others, such as polars', Arrow
    lacks functions."""
    import pyarrow

    pa: Any = pyarrow
    if pa.types.is_dictionary(array.type):
        array = decoded(array.dictionary).take(array.indices)
    return array.cast(pa.large_string()) if str(array.type) in ("string", "string_view") else array


class ArrowColumn(Column):
    def __init__(self, name: str, array: Any):
        import pyarrow as pa

        types: Any = pa.types
        array = decoded(array)
        if types.is_large_string(array.type):
            self.kind = "text"
        elif types.is_integer(array.type):
            self.kind = "integer"
        elif types.is_floating(array.type) or types.is_decimal(array.type):
            self.kind, array = "float", array.cast(pa.float64())
        elif types.is_boolean(array.type):
            self.kind = "boolean"
        elif types.is_timestamp(array.type) or types.is_date(array.type):
            self.kind, array = "time", array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
        else:
            self.kind = str(array.type)
        self.name, self.array = name, array

    def codes(self) -> tuple[Array, list[str]]:
        import pyarrow as pa

        coded = self.array.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        try:
            return codes, coded.dictionary.cast(pa.large_string()).to_pylist()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.place}: column \"{self.name}\" holds text that is not UTF-8 ({error.object[:40]!r}); "
                            "convert it first") from None

    def numbers(self) -> tuple[Array, Array | None]:
        array = self.array.cast("int64") if self.kind == "time" else self.array
        missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
        kind = {"time": "datetime64[us]", "float": "float64"}.get(self.kind, "int64")
        return values.astype(kind, copy=False), missing


class ArrayColumn(Column):
    """A NumPy array, or what becomes one; where pyarrow is not installed."""

    def __init__(self, name: str, array: Any):
        self.name = name
        self.array: Array = np.asarray(array)
        self.missing: Array | None = None
        if self.array.ndim != 1:
            self.kind = f"an array of {self.array.ndim} dimensions"
        elif self.array.dtype.kind == "O":
            self._take_objects()
        else:
            kinds = {"U": "text", "i": "integer", "u": "integer", "f": "float", "b": "boolean", "M": "time"}
            self.kind = kinds.get(self.array.dtype.kind, str(self.array.dtype))

    def _take_objects(self) -> None:
        # Not a number, or None
        missing = np.asarray(self.array != self.array, dtype=bool) | np.array([value is None for value in self.array])
        types: set[type] = set(map(type, self.array[~missing]))
        self.missing = missing if missing.any() else None
        if types <= {str}:
            self.kind = "text"
        elif all(issubclass(one, (int, np.integer)) and one is not bool for one in types):
            self.kind, self.array = "integer", np.where(missing, 0, self.array).astype(np.int64)
        elif all(issubclass(one, datetime.date) for one in types):
            self.kind = "time"
            self.array = np.array([None if gone else _utc(one) for one, gone in zip(self.array, missing)], dtype="datetime64[us]")
        else:
            self.kind = "mixed types: " + ", ".join(sorted(one.__name__ for one in types))

    def codes(self) -> tuple[Array, list[str]]:
        there = slice(None) if self.missing is None else ~self.missing
        values, codes = np.unique(self.array[there].astype("U" if self.kind == "text" else self.array.dtype), return_inverse=True)
        codes, old = by_appearance(codes, values.size)
        every = np.full(self.array.size, -1, dtype=np.int32)
        every[there] = codes
        return every, [str(value) for value in values[old]]

    def numbers(self) -> tuple[Array, Array | None]:
        if self.kind == "time":
            return self.array.astype("datetime64[us]"), np.isnat(self.array)
        return self.array.astype(np.float64 if self.kind == "float" else np.int64), self.missing


def _utc(moment: datetime.date) -> datetime.date:
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return moment


class Table:
    """Columns by name, and what to call the whole in messages. Rows are those that are kept, all until some are chosen."""

    def __init__(self, columns: Mapping[str, Column], rows: int, place: str, row_of: Array | None = None):
        self.columns, self.rows, self.place = columns, rows, place
        for column in columns.values():
            column.place = place
        self.kept: Array | None = None  # numbers of the rows that filters leave; None: all
        self.row_of = row_of  # where each entry comes from, when lists were opened
        self.empty_rows: Array = np.zeros(0, dtype=np.int64)  # rows whose lists are empty

    def column(self, name: str, argument: str) -> Column:
        if name not in self.columns:
            raise UsageError(unknown_column(name, argument, self.columns, self.place))
        return self.columns[name]

    def fail(self, column: Column, at: Any, fault: str) -> NoReturn:
        """DataError of a value that is kept, by the row of the source, from 0, in which it stands."""
        entry = at if self.kept is None else self.kept[at]
        raise DataError(f"{self.place}: column \"{column.name}\", row {entry if self.row_of is None else self.row_of[entry]} (from 0): "
                        f"{fault}")

    def codes(self, column: Column) -> tuple[Array, list[str]]:
        codes, labels = column.codes()
        return codes if self.kept is None else codes[self.kept], labels

    def numbers(self, column: Column) -> tuple[Array, Array]:
        """Values, and a mask of those that are missing."""
        values, missing = column.numbers()
        if missing is None:
            missing = np.zeros(values.size, dtype=bool)
        return (values, missing) if self.kept is None else (values[self.kept], missing[self.kept])

    def labels(self, name: str, argument: str) -> tuple[Array, list[str]]:
        """Codes and labels. DataError for what no label can be."""
        column = self.column(name, argument)
        if column.kind not in ("text", "integer"):
            way = 'for example with .astype("int64")' if column.kind == "float" else "for example to text"
            raise DataError(f"{self.place}: column \"{name}\" ({argument}) holds {column.kind} data; labels are text or whole numbers: "
                            f"convert it, {way}")
        codes, labels = self.codes(column)
        empty = labels.index("") if "" in labels else -1
        wrong = np.flatnonzero((codes < 0) | (codes == empty))
        if wrong.size:
            null = codes[wrong[0]] < 0
            self.fail(column, wrong[0], f"the {argument} " + ("is null; fill it in or leave such rows out" if null else "has no name"))
        return codes, labels

    def values(self, name: str, argument: str) -> Array:
        """float32 by row; finite."""
        column = self.column(name, argument)
        if column.kind not in ("integer", "float", "boolean"):
            labels = column.codes()[1] if column.kind == "text" else []
            shown = f" ({labels[0]!r} in row {0 if self.row_of is None else self.row_of[0]})" if labels else ""
            raise DataError(f"{self.place}: column \"{name}\" ({argument}) holds {column.kind}{shown}, expected numbers")
        wide, missing = self.numbers(column)
        with np.errstate(over="ignore"):
            values = wide.astype(np.float32)
        wrong = np.flatnonzero(missing | ~np.isfinite(values))
        if wrong.size:
            shown = "null" if missing[wrong[0]] else repr(float(wide[wrong[0]]))
            self.fail(column, wrong[0], f"the value is {shown}, expected a finite 32-bit number")
        return values


def unknown_column(name: str, argument: str, known: Iterable[str], place: str) -> str:
    known = list(known)
    listed = ", ".join(known[:30]) + (f" and {len(known) - 30} more" if len(known) > 30 else "")
    return f"{place}: `{argument}`: there is no column \"{name}\".{did_you_mean(name, known)} There are: {listed}"
