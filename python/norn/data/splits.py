# SPDX-License-Identifier: Apache-2.0
"""Training, validation and test parts of rows: what goes where, the engine says."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._words import choice, count, did_you_mean
from ..errors import DataError, UsageError
from .entries import Rows

if TYPE_CHECKING:
    from .._types import Array

_log = logging.getLogger("norn")
_BY = ("entry", "example", "pair")
_RULES = ("ratio:", "time:", "leave-one-out", "leave-last-out", "new-items:")


class Part(NamedTuple):
    """What a part's file has: rows of these examples, with what is known of them and what is to be found."""

    name: str
    examples: Array  # their numbers before the split
    inputs: Rows
    targets: Rows | None  # None: the inputs themselves


def by_time(split: str) -> bool:
    """Whether a rule asks for times. UsageError for what is no text."""
    if not isinstance(split, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`split` {split!r}: expected a rule such as \"ratio:0.8/0.2\"")
    return split.startswith("time:") or split == "leave-last-out"


def split_rows(rows: Rows, split: str, by: str, seed: int, labels: bytes, place: str) -> list[Part]:
    """Shares out rows as importer does. `labels`: those of the examples, a line each, for a split by pair."""
    from .. import _core

    choice("split_by", by, _BY)
    if not split.startswith(_RULES):
        raise UsageError(f"`split` {split!r}: there is no such rule;{did_you_mean(split, _RULES)} choose of: ratio:0.8/0.2, "
                         "ratio:0.8/0.1/0.1, leave-one-out, leave-last-out, time:2026-01-31, time:2026-01-30/2026-01-31 or, of a "
                         "Dataset, new-items:0.1")
    if by_time(split) and rows.times is None:
        raise UsageError(f"`split` {split} needs the column with the time of each entry; name it with `time`")
    settings = {"split": split, "split_by": by, "seed": count("seed", seed, 0, 2**64 - 1)}
    names, by_entry, part = _core.share_out(settings, rows.begin.astype(np.int64, copy=False), rows.columns.view(np.uint32), labels,
                                            rows.times)
    if split == "leave-last-out":
        _tell_of_later(rows.times, part, place)
    if by_entry:
        parts = _parts_of_entries(rows, names, part)
    else:
        parts = [Part(name, np.flatnonzero(part == number), rows.of_examples(part == number), None) for number, name in enumerate(names)]
    for made in parts:
        wanted = made.inputs if made.targets is None else made.targets
        if not (made.examples.size and made.inputs.columns.size and wanted.columns.size):
            raise DataError(f"{place}: {made.examples.size} examples with {made.inputs.columns.size} input and {wanted.columns.size} "
                            f"target entries are left for the {made.name} part; give more data or change `split` {split}")
    return parts


def _tell_of_later(times: Any, part: Array, place: str) -> None:
    """What is held out may be older than what others are trained on."""
    held_out, training = times[part > 0], times[part == 0]
    before = int(np.count_nonzero(held_out < training.max())) if training.size else 0
    if before:
        _log.warning("%s: %d of %d entries held out are older than the newest of training, which knows what came later; \"time:DATE\" "
                     "holds out what comes after a date", place, before, held_out.size)


def items_first(split: str, width: int, seed: int) -> tuple[Array, int]:
    """For "new-items:0.1": all items, those that training is to know first, and how many these are. Raises UsageError for a share that
    leaves none of either."""
    from .. import _core

    settings = {"split": split, "seed": count("seed", seed, 0, 2**64 - 1)}
    _, _, part = _core.share_out(settings, np.array([0, width], np.int64), np.arange(width, dtype=np.uint32), b"", None)
    return np.argsort(part, kind="stable"), int(np.count_nonzero(part == 0))


def _parts_of_entries(rows: Rows, names: list[str], part: Array) -> list[Part]:
    """Every file's inputs are the training entries. An example is in a file that has some of its entries, if it has some for
    training."""
    row = rows.row_of()
    training = rows.taken(part == 0)
    known = np.diff(training.begin) > 0
    made = []
    for number, name in enumerate(names):
        if number == 0:
            here = known | (np.diff(rows.begin) == 0)
            made.append(Part(name, np.flatnonzero(here), training.of_examples(here), None))
            continue
        here = known & (np.bincount(row[part == number], minlength=rows.examples) > 0)
        targets = rows.taken(part == number)
        made.append(Part(name, np.flatnonzero(here), training.of_examples(here), targets.of_examples(here)))
    return made

