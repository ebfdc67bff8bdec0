# SPDX-License-Identifier: Apache-2.0
"""How sure it is that one model is no worse than another, for the gate of daily, which needs no engine: a paired bootstrap of the ratio of
means (Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004), a function of the values alone. Intervals of
means and of differences are the engine's (src/engine/predict/certainty.h)."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._types import Array

ROUNDS = 2000
SURE = 0.95     # the ratio is above the bound in so many of the rounds
GROUPS = 4096   # examples are drawn in so many groups at most, each of examples at equal distances: their sums are as independent
SEED = 20260101
PIECE = 1 << 18  # numbers that are drawn at once


def _draws(count: int, limit: int, number: int) -> Array:
    """`count` numbers below `limit`. The bits of a Philox stream are promised by numpy, its distributions are not."""
    raw = np.random.Philox(key=np.array([SEED, number], dtype=np.uint64)).random_raw(count)
    return ((np.asarray(raw, dtype=np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53 * limit).astype(np.int64)


def _sums(first: Array, second: Array, groups: int) -> tuple[Array, Array]:
    """[ROUNDS], [ROUNDS]: the sums of both over the same examples, of which each round draws as many as there are."""
    groups = min(len(first), groups)
    place = np.arange(len(first)) % groups
    by_group = np.bincount(place, first, groups), np.bincount(place, second, groups)
    at_once = max(1, PIECE // groups)
    found: list[tuple[Array, Array]] = []
    for number in range(0, ROUNDS, at_once):
        drawn = _draws(min(at_once, ROUNDS - number) * groups, groups, number).reshape(-1, groups)
        found.append((by_group[0][drawn].sum(axis=1), by_group[1][drawn].sum(axis=1)))
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def _ratios(ours: Array, theirs: Array) -> Array:
    """Of sums; where the others have nothing, anything is more, and nothing is as much."""
    nothing = theirs <= 0.0
    return np.where(nothing, np.where(ours > 0.0, np.inf, 1.0), ours / np.where(nothing, 1.0, theirs))


def lower_bound(ours: Array, theirs: Array, groups: int = GROUPS) -> float:
    """[n], [n] values of the same examples, none below 0: the mean of the first over that of the second is above this, as sure as SURE
    says."""
    return float(np.sort(_ratios(*_sums(ours, theirs, groups)))[int((1.0 - SURE) * ROUNDS)])


def ratio(ours: Array, theirs: Array) -> float:
    return float(_ratios(np.array([ours.sum()]), np.array([theirs.sum()]))[0])
