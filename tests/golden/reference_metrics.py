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
