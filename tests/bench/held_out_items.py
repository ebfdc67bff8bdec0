# SPDX-License-Identifier: Apache-2.0
"""Users' items to learn from and to find as matrices, and the metrics of lists that a peer recommends."""
import numpy as np
import scipy.sparse as sp


class Parts:
    """Users' items to learn from and to find, [users, items] both."""

    def __init__(self, kept, held_out):
        users, items = {}, {}
        self.known, self.wanted = (self._matrix(lines, users, items) for lines in (kept, held_out))
        shape = (len(users), len(items))
        for matrix in (self.known, self.wanted):
            matrix.resize(shape)
        self.asked = np.flatnonzero(np.diff(self.wanted.indptr))  # of whom something is to be found

    @staticmethod
    def _matrix(lines, users, items):
        rows, columns = [], []
        for line in lines:
            user, _, words = line.partition("\t")
            row = users.setdefault(user, len(users))
            for word in filter(None, words.split(":")):
                rows.append(row)
                columns.append(items.setdefault(word, len(items)))
        return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(users), len(items)))

    def some(self, count):
        """As many of the asked users, evenly spread."""
        return self.asked[:: max(1, len(self.asked) // count)][:count]


def metrics_of(lists, wanted):
    """(Recall, NDCG, MAP) of lists [users, K] and what is to be found [users, items], means over users: hits over held-out
    items; discounted gain over that of min(K, held-out items) hits on top; precisions at the hits over min(K, held-out items)."""
    places = np.arange(1, lists.shape[1] + 1)
    gain = 1 / np.log2(places + 1)
    best = np.concatenate([[0], np.cumsum(gain)])
    counts = np.diff(wanted.indptr)
    most = np.minimum(counts, lists.shape[1])
    hits = np.stack([np.isin(row, wanted.indices[wanted.indptr[u]:wanted.indptr[u + 1]]) for u, row in enumerate(lists)])
    recall = hits.sum(axis=1) / counts
    ndcg = hits @ gain / best[most]
    precisions = hits.cumsum(axis=1) / places
    return float(recall.mean()), float(ndcg.mean()), float(((hits * precisions).sum(axis=1) / most).mean())
