# SPDX-License-Identifier: Apache-2.0
"""How sure it is that one model is no worse than another: a paired bootstrap over examples (Efron, Tibshirani, "An Introduction to the
Bootstrap", 1993; Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004)."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

ROUNDS = 2000
SURE = 0.95     # the ratio is above the bound in so many of the rounds
GROUPS = 4096   # examples are drawn in so many groups at most, each of examples at equal distances: their sums are as independent
SEED = 20260101
PIECE = 1 << 18  # numbers that are drawn at once


def _draws(count: int, limit: int, number: int) -> np.ndarray:
    """`count` numbers below `limit`. The bits of a Philox stream are promised by numpy, its distributions are not."""
    raw = np.random.Philox(key=np.array([SEED, number], dtype=np.uint64)).random_raw(count)
    return ((np.asarray(raw, dtype=np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53 * limit).astype(np.int64)


def _ratios(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Of sums; where the others have nothing, anything is more, and nothing is as much."""
    nothing = theirs <= 0.0
    return np.where(nothing, np.where(ours > 0.0, np.inf, 1.0), ours / np.where(nothing, 1.0, theirs))


def lower_bound(ours: np.ndarray, theirs: np.ndarray, groups: int = GROUPS) -> float:
    """[n], [n] values of the same examples, none below 0: the mean of the first over that of the second is above this, as sure as SURE
    says. A function of the values alone."""
    groups = min(len(ours), groups)
    place = np.arange(len(ours)) % groups
    first, second = np.bincount(place, ours, groups), np.bincount(place, theirs, groups)
    at_once = max(1, PIECE // groups)
    found = []
    for number in range(0, ROUNDS, at_once):
        drawn = _draws(min(at_once, ROUNDS - number) * groups, groups, number).reshape(-1, groups)
        found.append(_ratios(first[drawn].sum(axis=1), second[drawn].sum(axis=1)))
    return float(np.sort(np.concatenate(found))[int((1.0 - SURE) * ROUNDS)])


def ratio(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(_ratios(np.array([ours.sum()]), np.array([theirs.sum()]))[0])
