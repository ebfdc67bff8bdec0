# SPDX-License-Identifier: Apache-2.0
"""The models of the package implicit as peers: what they are made of."""
import implicit.als
import implicit.bpr
import numpy as np
import threadpoolctl
from implicit.nearest_neighbours import bm25_weight


class Peer:
    """A model of implicit: fit(matrix), recommend(users, K)."""

    def __init__(self, kind, settings, device, seed, threads=0):
        """On `threads` of the CPU; 0: on all."""
        settings = dict(settings)
        self.weighting = settings.pop("weighting", "none")
        self.alpha = settings.pop("alpha", 1.0)
        self.device = device
        make = {"als": implicit.als.AlternatingLeastSquares, "bpr": implicit.bpr.BayesianPersonalizedRanking}[kind]
        with own_threads():
            self.model = make(**settings, use_gpu=device == "gpu", random_state=seed, num_threads=threads)

    def fit(self, matrix):
        weighted = bm25_weight(matrix, K1=100, B=0.8).tocsr() if self.weighting == "bm25" else matrix
        # Of implicit 0.7.3 fit on a GPU leaves out alpha, which on CPUs multiplies the matrix.
        confidences = (weighted * self.alpha).astype(np.float32)
        with own_threads():
            self.model.fit(confidences, show_progress=False)
        self.wait()
        return self

    def recommend(self, users, rows, count):
        """[users, count]: the best items, those of `rows` left out."""
        with own_threads():
            return self.model.recommend(users, rows, N=count)[0]

    def wait(self):
        """A GPU may still be at work when fit returns; what it has computed is there when it is read."""
        if self.device == "gpu":
            self.model.item_factors.to_numpy()


def own_threads():
    """implicit has threads of its own, each of which calls BLAS; it asks for one thread there."""
    return threadpoolctl.threadpool_limits(1, "blas")
