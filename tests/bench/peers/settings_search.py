# SPDX-License-Identifier: Apache-2.0
"""The settings of peers that are searched, and the search."""
import contextlib
import itertools
import time

# What is searched, in the order in which one after the other is varied, from STARTS.
SPACES = {
    "als": {"alpha": (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0),
            "regularization": (0.001, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
            "factors": (64, 128, 192, 256, 512, 768, 1024), "iterations": (5, 8, 15, 30), "weighting": ("none", "bm25")},
    "bpr": {"learning_rate": (0.01, 0.03, 0.1, 0.3), "regularization": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
            "iterations": (50, 100, 200, 400),
            "factors": (63, 127, 255)},  # a bias comes to the factors
    "ease": {"regularization": (1.0, 3.0, 10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 3000.0)},
    "sansa": {"regularization": (3.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0), "density": (0.0005, 0.002, 0.005, 0.02, 0.05, 0.1)},
    "lightfm": {"epochs": (5, 10, 20, 40, 80, 160), "factors": (8, 16, 32, 64, 128, 256), "learning_rate": (0.01, 0.02, 0.05, 0.1),
                "regularization": (0.0, 1e-6, 1e-5, 1e-4)},
}
STARTS = {
    "als": {"alpha": 5.0, "regularization": 1.0, "factors": 64, "iterations": 15, "weighting": "none"},
    "bpr": {"learning_rate": 0.1, "regularization": 0.01, "iterations": 100, "factors": 63},
    "ease": {"regularization": 100.0},
    "sansa": {"regularization": 50.0, "density": 0.02},
    "lightfm": {"epochs": 20, "factors": 32, "learning_rate": 0.05, "regularization": 0.0},
}


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
