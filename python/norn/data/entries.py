# SPDX-License-Identifier: Apache-2.0
"""Entries, an example and a feature each, in the order of a table; and the rows that they make."""
from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError
from .columns import by_appearance

if TYPE_CHECKING:
    from .._types import Array

_log = logging.getLogger("norn")


@dataclasses.dataclass
class Entries:
    """In the order of the text or table that they come from. Numbers are those of the labels."""

    examples: Array  # [entries] int32
    features: Array  # [entries] int32
    values: Array | None  # [entries] float32
    example_labels: Sequence[str]
    feature_labels: Sequence[str]
    place: str  # for messages
    times: Array | None = None  # [entries] int64, microseconds

    def __len__(self) -> int:
        return int(self.examples.size)

    def taken(self, kept: Array) -> Entries:
        """Some of the entries (numbers or a mask), with the labels as they are."""
        values, times = (None if array is None else array[kept] for array in (self.values, self.times))
        return dataclasses.replace(self, examples=self.examples[kept], features=self.features[kept], values=values, times=times)

    def numbered(self) -> Entries:
        """Labels by their first appearance, as importer numbers them; those that no entry has are left out."""
        examples, old_examples = by_appearance(self.examples, len(self.example_labels))
        features, old_features = by_appearance(self.features, len(self.feature_labels))
        return dataclasses.replace(self, examples=examples, features=features, example_labels=_picked(self.example_labels, old_examples),
                                   feature_labels=_picked(self.feature_labels, old_features))

    def with_numbered_examples(self) -> Entries:
        examples, old = by_appearance(self.examples, len(self.example_labels))
        return dataclasses.replace(self, examples=examples, example_labels=_picked(self.example_labels, old))

    def oldest_first(self) -> Entries:
        """Each example's entries by feature, time and value, as importer merges them for a split by time."""
        assert self.times is not None
        values = np.zeros(len(self), dtype=np.float32) if self.values is None else self.values
        return self.taken(np.lexsort((values, self.times, self.features, self.examples)))

    def by_label(self, keep_features: bool) -> Entries:
        """Numbered in the order of the labels' bytes, as importer does for a split by time; with `keep_features` features keep
        the numbers that they were given."""
        examples, example_labels = _ordered(self.examples, self.example_labels)
        features, feature_labels = (self.features, self.feature_labels) if keep_features else _ordered(self.features, self.feature_labels)
        made = dataclasses.replace(self, examples=examples, features=features, example_labels=example_labels, feature_labels=feature_labels)
        return made.taken(np.lexsort((features, examples)))


def _ordered(codes: Array, labels: Sequence[str]) -> tuple[Array, list[str]]:
    order = sorted(range(len(labels)), key=lambda number: labels[number].encode("utf-8", "surrogateescape"))
    new = np.empty(len(order), dtype=np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    return new[codes], [labels[number] for number in order]


def _picked(labels: Sequence[str], numbers: Array) -> Sequence[str]:
    if numbers.size == len(labels) and np.array_equal(numbers, np.arange(numbers.size)):
        return labels
    chosen: list[int] = numbers.tolist()
    return [labels[number] for number in chosen]


def _groups(key: Array) -> tuple[Array, Array]:
    """Equal keys: the number of each entry's group, in the order in which groups appear, and the first entry of each."""
    order = np.argsort(key, kind="stable")  # the first of equal ones comes first
    ahead = np.ones(order.size, dtype=bool)
    ahead[1:] = key[order[1:]] != key[order[:-1]]
    group = np.empty(order.size, dtype=np.int64)
    group[order] = np.cumsum(ahead) - 1
    by_place = np.argsort(order[ahead], kind="stable")
    rank = np.empty(by_place.size, dtype=np.int64)
    rank[by_place] = np.arange(by_place.size)
    return rank[group], order[ahead][by_place]


def _key(major: Array, entries: Entries) -> Array:
    """[entries] a number for each pair."""
    return major.astype(np.int64) * max(1, len(entries.feature_labels)) + entries.features


def _summed(major: Array, entries: Entries) -> Entries:
    """One entry for each pair, values added in order."""
    group, first = _groups(_key(major, entries))
    merged = entries.taken(first)
    assert entries.values is not None
    sums = np.zeros(first.size, dtype=np.float32)
    np.add.at(sums, group, entries.values)
    merged.values = sums
    return merged


def without_duplicates(entries: Entries, rule: str) -> Entries:
    """A feature that an example names twice: an error, its values added, or the first one alone, as importer has it."""
    key = _key(entries.examples, entries)
    ordered = np.sort(key)
    if not np.any(ordered[1:] == ordered[:-1]):
        return entries
    if rule == "error":
        repeated = np.ones(len(entries), dtype=bool)
        repeated[_groups(key)[1]] = False
        at = int(np.flatnonzero(repeated)[0])
        example, feature = entries.example_labels[entries.examples[at]], entries.feature_labels[entries.features[at]]
        raise DataError(f"{entries.place}: example {example!r}: the feature {feature!r} occurs twice; remove one, or choose with "
                        "`duplicates` sum or first")
    if rule == "first" or entries.values is None:
        return entries.taken(_groups(key)[1])
    # Lines of one example that follow each other are added first, then such pieces: sums have the importer's bits.
    pieces = _summed(np.concatenate(([0], np.cumsum(entries.examples[1:] != entries.examples[:-1]))), entries)
    return _summed(pieces.examples, pieces)


def core(entries: Entries, min_features: int, min_examples: int) -> Entries:
    """Examples with at least so many features and features of at least so many examples: what is left when nothing more
    has to go."""
    while len(entries):
        of_example = np.bincount(entries.examples, minlength=len(entries.example_labels))
        of_feature = np.bincount(entries.features, minlength=len(entries.feature_labels))
        kept = (of_example[entries.examples] >= min_features) & (of_feature[entries.features] >= min_examples)
        if kept.all():
            break
        entries = entries.taken(kept)
    return entries


def with_features(entries: Entries, labels: Sequence[str], empty_rows: str) -> tuple[Entries, int]:
    """Numbered by a given index. Entries of features that it lacks are left out; how many. So are examples without others, as
    importer leaves out those of CSV, unless `empty_rows` is keep."""
    number = {label: place for place, label in enumerate(labels)}
    known = np.fromiter((number.get(label, -1) for label in entries.feature_labels), dtype=np.int32, count=len(entries.feature_labels))
    features = known[entries.features] if len(entries) else entries.features
    kept = features >= 0
    left = dataclasses.replace(entries, features=features, feature_labels=labels)
    if empty_rows == "keep":
        return left.with_numbered_examples().taken(kept), int(kept.size - np.count_nonzero(kept))
    left = left.taken(kept).with_numbered_examples()
    lost = np.unique(entries.examples).size - len(left.example_labels)
    if lost and empty_rows == "error":
        _log.warning("%s: %d examples have none of the features given and are left out, so rows are not those of all examples; choose with "
                     "`empty_rows` keep or drop", entries.place, lost)
    return left, int(kept.size - np.count_nonzero(kept))


@dataclasses.dataclass
class Rows:
    """A row an example; entries within it in the order of the text, where that is known."""

    begin: Array  # [examples + 1] int64
    columns: Array  # [entries] int32
    values: Array | None  # [entries] float32
    times: Array | None = None  # [entries] int64

    @property
    def examples(self) -> int:
        return int(self.begin.size) - 1

    def matrix(self, width: int) -> Any:
        """The same entries as CSR with columns in order; without values all are 1."""
        values = np.ones(self.columns.size, dtype=np.float32) if self.values is None else self.values
        begin = self.begin.astype(np.int32) if self.columns.size < 2**31 else self.begin
        made: Any = sp.csr_matrix((values, self.columns, begin), shape=(self.examples, width), copy=False)
        return made if made.has_sorted_indices else made.sorted_indices()

    def row_of(self) -> Array:
        """[entries] the row that each is in."""
        return np.repeat(np.arange(self.examples), np.diff(self.begin))

    def taken(self, kept: Array) -> Rows:
        """Entries of a mask, in rows as many as before."""
        begin = _offsets(np.bincount(self.row_of()[kept], minlength=self.examples))
        return Rows(begin, self.columns[kept], None if self.values is None else self.values[kept],
                    None if self.times is None else self.times[kept])

    def of_examples(self, kept: Array) -> Rows:
        """Rows of a mask."""
        return dataclasses.replace(self.taken(kept[self.row_of()]), begin=_offsets(np.diff(self.begin)[kept]))


def _offsets(counts: Array) -> Array:
    return np.concatenate(([0], np.cumsum(counts)))


def rows_of(entries: Entries) -> Rows:
    examples = entries.examples
    begin = _offsets(np.bincount(examples, minlength=len(entries.example_labels)))
    if examples.size and np.any(examples[1:] < examples[:-1]):
        entries = entries.taken(np.argsort(examples, kind="stable"))
    return Rows(begin, entries.features, entries.values, entries.times)

