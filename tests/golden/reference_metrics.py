# SPDX-License-Identifier: Apache-2.0
"""Ranking metrics in NumPy, written from docs/user/metrics.md alone: the reference of the evaluator's test and of the
peers in tests/bench. Reads `scores` [users x items], `seen` and `held_out` (lists of item numbers, one a user)."""
import numpy as np


def ranking(scores, seen, k):
    """The k best items that were not seen, best first; ties go to the lowest item number."""
    order = np.argsort(-scores, kind="stable")
    return order[~np.isin(order, list(seen))][:k]


def metrics_of_user(ranked, held_out, k):
    """ranked: at most k items. held_out: not empty."""
    hits = np.isin(ranked, list(held_out)).astype(np.float64)
    ideal = min(k, len(held_out))
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    precisions = np.cumsum(hits) / np.arange(1, len(ranked) + 1)
    return {
        "Recall": hits.sum() / len(held_out),
        "Precision": hits.sum() / k,
        "NDCG": (hits * discount[: len(ranked)]).sum() / discount[:ideal].sum(),
        "MAP": (hits * precisions).sum() / ideal,
        "MRR": 1.0 / (np.argmax(hits) + 1) if hits.any() else 0.0,
        "HitRate": float(hits.any()),
        "CappedRecall": hits.sum() / ideal,
    }


def evaluate(scores, seen, held_out, k):
    """Means over the users that have held-out items, and the share of all items that are in anybody's list."""
    users = [u for u in range(len(scores)) if len(held_out[u]) > 0]
    lists = [ranking(scores[u], seen[u], k) for u in users]
    each = [metrics_of_user(ranked, held_out[u], k) for u, ranked in zip(users, lists)]
    result = {name: float(np.mean([m[name] for m in each])) for name in each[0]}
    result["Coverage"] = len(set(np.concatenate(lists).tolist())) / scores.shape[1]
    return result


def area_of_user(ranked, held_out, candidates):
    """AUC@K: of all pairs of a held-out item and another candidate those in which the first is listed first; a half where neither is."""
    place = {item: at for at, item in enumerate(ranked)}
    others = [item for item in candidates if item not in set(held_out)]
    if not others:
        return float(any(item in place for item in held_out))
    pairs = [(place.get(one, np.inf), place.get(other, np.inf)) for one in held_out for other in others]
    return float(np.mean([1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs]))


def novelty_of_user(ranked, trained_on):
    """trained_on: [users x items] of 0 and 1."""
    counts = np.maximum(trained_on.sum(axis=0), 1)
    return float(np.mean(np.log2(len(trained_on) / counts[ranked]))) if len(ranked) else 0.0


def diversity_of_user(ranked, trained_on):
    if len(ranked) < 2:
        return 0.0
    columns = trained_on[:, ranked].astype(np.float64)
    columns /= np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    cosines = columns.T @ columns
    return float(1.0 - cosines[np.triu_indices(len(ranked), 1)].mean())


def psp(lists, held_out, trained_on, k, a, b):
    """Of the lists of all users with held-out items, over the best lists of k that there could be."""
    gains = 1.0 + (np.log(len(trained_on)) - 1.0) * (b + 1.0) ** a * (trained_on.sum(axis=0) + b) ** -a
    found = sum(gains[item] for ranked, wanted in zip(lists, held_out) for item in ranked if item in set(wanted))
    return found / sum(np.sort(gains[list(wanted)])[::-1][:k].sum() for wanted in held_out)
