# SPDX-License-Identifier: Apache-2.0
"""Moments of entries, in microseconds since 1970 (UTC). What is a time, the engine says: docs/user/formats.md."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .columns import Column, Table

if TYPE_CHECKING:
    from .._types import Array

_NO_TIME = "is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix time in seconds or milliseconds"
_SECONDS_END, _MILLISECONDS_END = 10**11, 10**14  # importer's


def parse_times(texts: Sequence[str]) -> tuple[Array, Array]:
    """int64 microseconds of each text, and whether it is a time."""
    from .. import _core

    lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
    times, known = _core.parse_times(lines.encode("utf-8", "replace"))
    return times, known.astype(bool)


def parse_moment(text: str) -> np.datetime64 | None:
    """A date or time for a filter to compare with; None where the text is none."""
    times, known = parse_times([text])
    return np.datetime64(int(times[0]), "us") if known[0] else None


def times_of(table: Table, name: str) -> Array:
    """[rows that are kept] int64. DataError for what is no time."""
    column = table.column(name, "time")
    if column.kind == "text":
        codes, labels = table.codes(column)
        times, known = parse_times(labels)
        _require(table, column, np.append(known, False)[codes], codes < 0, lambda at: labels[int(codes[at])])
        return times[codes]
    if column.kind not in ("integer", "float", "time"):
        raise DataError(f"{table.place}: column \"{name}\" (time) holds {column.kind} data, expected dates, times or numbers")
    values, missing = table.numbers(column)
    if column.kind == "time":
        _require(table, column, ~missing, missing, lambda at: values[at].item())
        return values.astype(np.int64)
    with np.errstate(invalid="ignore"):
        known = ~missing & (np.abs(values) < _MILLISECONDS_END)
    _require(table, column, known, missing, lambda at: values[at].item())
    values = values * np.where(np.abs(values) < _SECONDS_END, 1_000_000, 1_000)
    return np.trunc(values).astype(np.int64) if column.kind == "float" else values


def _require(table: Table, column: Column, known: Array, missing: Array, value: Callable[[int], Any]) -> None:
    wrong = np.flatnonzero(~known)
    if wrong.size:
        at = int(wrong[0])
        table.fail(column, at, f"the time {'null' if missing[at] else repr(value(at))} {_NO_TIME}")
