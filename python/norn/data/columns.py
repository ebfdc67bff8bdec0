# SPDX-License-Identifier: Apache-2.0
"""The columns of a table, of Arrow or NumPy, as arrays: numbers of labels, values, times."""
from __future__ import annotations

import abc
import datetime
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..errors import DataError, UsageError


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean "rating"?', or nothing."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f' Did you mean "{near[0]}"?' if near else ""


def by_appearance(codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
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
    def codes(self) -> tuple[np.ndarray, list[str]]:
        """Numbers of labels by row (int32, -1 where there is none) and the labels, in the order in which they appear. Only of
        text and integers."""

    @abc.abstractmethod
    def numbers(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Values by row: int64, float64, or datetime64[us] in UTC; and where there is none. Of everything but text."""


class ArrowColumn(Column):
    def __init__(self, name: str, array: Any):
        import pyarrow as pa
        import pyarrow.compute as pc

        types = pa.types
        if types.is_dictionary(array.type):
            array = pc.cast(array, array.type.value_type)
        if str(array.type) in ("string", "large_string", "string_view"):
            self.kind, array = "text", array.cast(pa.large_string())
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
        self.name = name
        self.array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if isinstance(self.array, pa.ChunkedArray):  # older versions of pyarrow
            self.array = pa.concat_arrays(self.array.chunks) if self.array.num_chunks else pa.array([], self.array.type)

    def codes(self) -> tuple[np.ndarray, list[str]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        coded = self.array.dictionary_encode()
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        try:
            return codes, coded.dictionary.cast(pa.large_string()).to_pylist()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.place}: column \"{self.name}\" holds text that is not UTF-8 ({error.object[:40]!r}); convert it first") from None

    def numbers(self) -> tuple[np.ndarray, np.ndarray | None]:
        import pyarrow as pa
        import pyarrow.compute as pc

        array, missing = self.array, None
        if self.kind == "time":
            array = array.cast(pa.int64())
        if array.null_count:
            missing = array.is_null().to_numpy(zero_copy_only=False)
            array = pc.fill_null(array, 0)
        values = array.to_numpy(zero_copy_only=False)
        if self.kind == "time":
            return values.astype("datetime64[us]"), missing
        return values.astype(np.float64 if self.kind == "float" else np.int64, copy=False), missing


class ArrayColumn(Column):
    """A NumPy array, or what becomes one; where pyarrow is not installed."""

    def __init__(self, name: str, array: Any):
        self.name = name
        self.array = np.asarray(array)
        if self.array.ndim != 1:
            self.kind = f"an array of {self.array.ndim} dimensions"
            return
        kinds = {"U": "text", "i": "integer", "u": "integer", "f": "float", "b": "boolean", "M": "time"}
        self.kind = kinds.get(self.array.dtype.kind, str(self.array.dtype))
        self.missing: np.ndarray | None = None
        if self.array.dtype.kind == "O":
            self._take_objects()

    def _take_objects(self) -> None:
        missing = np.asarray(self.array != self.array, dtype=bool) | (self.array == None)  # noqa: E711 - of each element
        types = set(map(type, self.array[~missing]))
        self.missing = missing if missing.any() else None
        if types <= {str}:
            self.kind = "text"
        elif types and all(issubclass(one, (int, np.integer)) and one is not bool for one in types):
            self.kind, filled = "integer", np.where(missing, 0, self.array)
            self.array = filled.astype(np.int64)
        elif types and all(issubclass(one, datetime.date) for one in types):
            self.kind = "time"
            self.array = np.array([None if gone else _utc(one) for one, gone in zip(self.array, missing)], dtype="datetime64[us]")
        else:
            self.kind = "mixed types: " + ", ".join(sorted(one.__name__ for one in types))

    def codes(self) -> tuple[np.ndarray, list[str]]:
        there = slice(None) if self.missing is None else ~self.missing
        values, codes = np.unique(self.array[there].astype("U" if self.kind == "text" else self.array.dtype), return_inverse=True)
        codes, old = by_appearance(codes, values.size)
        every = np.full(self.array.size, -1, dtype=np.int32)
        every[there] = codes
        return every, [str(value) for value in values[old]]

    def numbers(self) -> tuple[np.ndarray, np.ndarray | None]:
        if self.kind == "time":
            return self.array.astype("datetime64[us]"), np.isnat(self.array)
        return self.array.astype(np.float64 if self.kind == "float" else np.int64), self.missing


def _utc(moment: datetime.date) -> datetime.date:
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return moment


class Table:
    """Columns by name, and what to call the whole in messages."""

    def __init__(self, columns: dict[str, Column], rows: int, place: str, row_of: np.ndarray | None = None):
        self.columns, self.rows, self.place = columns, rows, place
        for column in columns.values():
            column.place = place
        self.row_of = row_of  # where each entry comes from, when lists were opened
        self.empty_rows = np.zeros(0, dtype=np.int64)  # rows whose lists are empty

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def row(self, entry: int) -> int:
        """The row of the source, from 0, in which an entry stands."""
        return int(entry if self.row_of is None else self.row_of[entry])

    def column(self, name: str, argument: str) -> Column:
        if name not in self.columns:
            raise UsageError(unknown_column(name, argument, self.columns, self.place))
        return self.columns[name]

    def fail(self, column: Column, entry: int, fault: str) -> NoReturn:
        raise DataError(f"{self.place}: column \"{column.name}\", row {self.row(entry)} (from 0): {fault}")

    def labels(self, name: str, argument: str, kept: np.ndarray | None) -> tuple[np.ndarray, list[str]]:
        """Codes and labels of the rows that are kept (all: None). DataError for what no label can be."""
        column = self.column(name, argument)
        if column.kind not in ("text", "integer"):
            raise DataError(
                f"{self.place}: column \"{name}\" ({argument}) holds {column.kind} data; labels are text or whole numbers: "
                f"convert it, {_conversion(column.kind)}"
            )
        codes, labels = column.codes()
        if kept is not None:
            codes = codes[kept]
        missing = np.flatnonzero(codes < 0)
        if missing.size:
            entry = missing[0] if kept is None else kept[missing[0]]
            self.fail(column, entry, f"the {argument} is null; fill it in or leave such rows out")
        if "" in labels:
            empty = np.flatnonzero(codes == labels.index(""))
            if empty.size:
                self.fail(column, empty[0] if kept is None else kept[empty[0]], f"the {argument} has no name")
        return codes, labels

    def values(self, name: str, argument: str, kept: np.ndarray | None) -> np.ndarray:
        """float32 by row; finite."""
        column = self.column(name, argument)
        if column.kind not in ("integer", "float", "boolean"):
            shown = ""
            if column.kind == "text":
                codes, labels = column.codes()
                shown = f" ({labels[0]!r} in row {self.row(0)})" if labels else ""
            raise DataError(f"{self.place}: column \"{name}\" ({argument}) holds {column.kind}{shown}, expected numbers")
        wide, missing = column.numbers()
        if kept is not None:
            wide, missing = wide[kept], None if missing is None else missing[kept]
        with np.errstate(over="ignore"):
            values = wide.astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(values) if missing is None else missing | ~np.isfinite(values))
        if wrong.size:
            at = wrong[0]
            shown = "null" if missing is not None and missing[at] else repr(float(wide[at]))
            self.fail(column, at if kept is None else kept[at], f"the value is {shown}, expected a finite 32-bit number")
        return values


def _conversion(kind: str) -> str:
    return 'for example with .astype("int64")' if kind == "float" else "for example to text"


def unknown_column(name: str, argument: str, known: Iterable[str], place: str) -> str:
    known = list(known)
    listed = ", ".join(known[:30]) + (f" and {len(known) - 30} more" if len(known) > 30 else "")
    return f"{place}: `{argument}`: there is no column \"{name}\".{did_you_mean(name, known)} There are: {listed}"
