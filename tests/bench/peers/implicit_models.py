# SPDX-License-Identifier: Apache-2.0
"""The models of the package implicit as peers: what they are made of, and the search for their settings."""
import contextlib
import itertools
import time

import implicit.als
import implicit.bpr
import numpy as np
import threadpoolctl
from implicit.nearest_neighbours import bm25_weight

# What is searched, in the order in which one after the other is varied, from STARTS.
SPACES = {
    "als": {"alpha": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0),
            "regularization": (0.001, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
            "factors": (64, 128, 192, 256, 512, 768, 1024), "iterations": (5, 8, 15, 30), "weighting": ("none", "bm25")},
    "bpr": {"learning_rate": (0.01, 0.03, 0.1, 0.3), "regularization": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
            "iterations": (50, 100, 200, 400),
            "factors": (63, 127, 255)},  # a bias comes to the factors
}
STARTS = {
    "als": {"alpha": 5.0, "regularization": 1.0, "factors": 64, "iterations": 15, "weighting": "none"},
    "bpr": {"learning_rate": 0.1, "regularization": 0.01, "iterations": 100, "factors": 63},
}


class Peer:
    """A model of implicit: fit(matrix), recommend(users, K)."""

    def __init__(self, kind, settings, device, seed):
        settings = dict(settings)
        self.weighting = settings.pop("weighting", "none")
        self.alpha = settings.pop("alpha", 1.0)
        self.device = device
        make = {"als": implicit.als.AlternatingLeastSquares, "bpr": implicit.bpr.BayesianPersonalizedRanking}[kind]
        with own_threads():
            self.model = make(**settings, use_gpu=device == "gpu", random_state=seed)

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


def search(kind, evaluate, seconds, tried, keep):
    """One setting after the other is varied by steps along its values as long as that helps, until a round changes nothing.

    evaluate(settings) gives what is to be large; tried: [(settings, value)] of before, with the best of which it begins;
    keep(tried) is called after each training. Returns the best settings; ends when the seconds are over."""
    space, ends = SPACES[kind], time.monotonic() + seconds

    def value_of(settings):
        for known, value in tried:
            if known == settings:
                return value
        if tried and time.monotonic() > ends:
            raise TimeoutError
        tried.append((settings, evaluate(settings)))
        keep(tried)
        return tried[-1][1]

    def walk(best, name):
        values = space[name]
        for step in (1, -1):
            for at in itertools.count(values.index(best[name]) + step, step):
                if not 0 <= at < len(values) or value_of(best | {name: values[at]}) <= value_of(best):
                    break
                best = best | {name: values[at]}
        return best

    before, best = None, max(tried, key=lambda one: one[1])[0] if tried else STARTS[kind]
    with contextlib.suppress(TimeoutError):
        value_of(best)
        while before != best:
            before = best
            for name in space:
                best = walk(best, name)
    return max(tried, key=lambda one: one[1])[0]
