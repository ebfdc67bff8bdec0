# SPDX-License-Identifier: Apache-2.0
"""Moments of entries, in microseconds since 1970 (UTC). What is a time, the engine says: docs/user/formats.md."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from ..errors import DataError
from .columns import Table

_NO_TIME = "is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix time in seconds or milliseconds"
_SECONDS_END, _MILLISECONDS_END = 10**11, 10**14  # importer's


def parse_times(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """int64 microseconds of each text, and whether it is a time."""
    from .. import _core

    lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
    times, known = _core.parse_times(lines.encode("utf-8", "replace"))
    return times, known.astype(bool)


def parse_moment(text: str) -> np.datetime64 | None:
    """A date or time for a filter to compare with; None where the text is none."""
    times, known = parse_times([text])
    return np.datetime64(int(times[0]), "us") if known[0] else None


def times_of(table: Table, name: str, kept: np.ndarray | None) -> np.ndarray:
    """[rows that are kept (all: None)] int64. DataError for what is no time."""
    column = table.column(name, "time")

    def fail(at: int, shown: str) -> NoReturn:
        table.fail(column, at if kept is None else int(kept[at]), f"the time {shown} {_NO_TIME}")

    if column.kind == "text":
        codes, labels = column.codes()
        codes = codes if kept is None else codes[kept]
        times, known = parse_times(labels)
        wrong = np.flatnonzero(~np.append(known, False)[codes])
        if wrong.size:
            fail(wrong[0], "null" if codes[wrong[0]] < 0 else repr(labels[codes[wrong[0]]]))
        return times[codes]
    if column.kind not in ("integer", "float", "time"):
        raise DataError(f"{table.place}: column \"{name}\" (time) holds {column.kind} data, expected dates, times or numbers")
    values, missing = column.numbers()
    if kept is not None:
        values, missing = values[kept], None if missing is None else missing[kept]
    unknown = np.zeros(values.size, dtype=bool) if missing is None else missing.copy()
    if column.kind != "time":
        with np.errstate(invalid="ignore"):
            unknown |= ~(np.abs(values) < _MILLISECONDS_END)
    wrong = np.flatnonzero(unknown)
    if wrong.size:
        fail(wrong[0], "null" if missing is not None and missing[wrong[0]] else repr(values[wrong[0]].item()))
    if column.kind == "time":
        return values.astype(np.int64)
    unit = np.where(np.abs(values) < _SECONDS_END, 1_000_000, 1_000)
    return np.trunc(values * unit).astype(np.int64) if column.kind == "float" else values * unit
