# SPDX-License-Identifier: Apache-2.0
"""What more trials of a study promise, and how hours are divided among studies by that: each next trial goes where the expected improvement
for its planned time is largest. Every argument but the results is a number, and nothing is drawn that does not follow from them."""
import heapq
import pathlib
from typing import NamedTuple

import numpy as np

from .acquisition import NoPrior, promises
from .facts import Facts
from .journal import read_events
from .space import Space
from .study import Study
from .transfer import known_results, prior_of

LEAST_RESULTS = 5  # a model of fewer says nothing of what is to come
# Of an equal division, which every study has whatever is expected of it: expectations of a study that is starved never mend
SURE = 0.5
DIGITS = 2         # of a gain that count: beyond them processors differ


class Outlook(NamedTuple):
    """What a study promises."""

    gains: tuple[float, ...]  # of each further trial: by how much it is expected to raise the best, as a share of it
    hours: float              # planned ones of a trial


def gains_of(space: Space, rows: np.ndarray, values: np.ndarray, trials: int, seed: int = 0, prior=NoPrior()) -> tuple[float, ...]:
    """Of so many further trials, one after the other, each with what the model expects of those before it; none rises. `rows`
    [n x dimensions] have the `values` [n] (larger is better, nan failed)."""
    best = abs(float(np.nanmax(values)))
    found, least = [], np.inf
    for promise in promises(space, rows, values, trials, seed, prior):
        least = min(least, promise / best if best > 0.0 else promise)
        found.append(float(f"{least:.{DIGITS - 1}e}"))
    return tuple(found)


def outlook_of(folder: pathlib.Path, trials: int) -> Outlook | None:
    """Of the study in that folder for so many further trials; None: it has too few results to say."""
    return outlook(Study.open(folder, any_algorithm=True),
                   Facts.read_only(folder / "journal.jsonl", read_events(folder / "journal.jsonl")[0]), trials)


def outlook(study: Study, facts: Facts, trials: int) -> Outlook | None:
    """The same."""
    rows, values = known_results(study, facts, study.space)
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    seconds = [event["epochs"] * facts.decided["plan"][event["trial"]]["epoch_seconds"] for event in facts.decided["tell"]]
    if np.isfinite(numbers).sum() < LEAST_RESULTS or sum(seconds) == 0.0:
        return None
    gains = gains_of(study.space, np.array(rows, dtype=np.float64), numbers, trials, study.identity["seed"], prior_of(study))
    return Outlook(gains, sum(seconds) / len(seconds) / 3600.0)


def divide(hours: float, weights: dict[str, float], outlooks: dict[str, Outlook | None]) -> dict[str, float]:
    """Hours among studies, {name: hours}. Half goes by `weights`. The other half goes trial by trial to where a trial's gain, times the
    weight, for its hours is largest; of equal ones to the first by name. A study of which nothing is known has its whole part by weight."""
    weights = dict(sorted(weights.items()))  # sums must not depend on who was named first
    whole = sum(weights.values())
    equal = {name: hours * weight / whole for name, weight in weights.items()}
    known = {name: one for name in sorted(weights) if (one := outlooks.get(name)) is not None and any(one.gains)}
    found = {name: equal[name] * (SURE if name in known else 1.0) for name in weights}
    left = sum(equal[name] for name in known) * (1.0 - SURE)
    heap = [(-_rate(one, 0, weights[name]), name, 0) for name, one in known.items()]
    heapq.heapify(heap)
    while heap and left > 0.0:
        rate, name, trial = heapq.heappop(heap)
        if rate == 0.0:
            break
        taken = min(left, known[name].hours)
        found[name] += taken
        left -= taken
        if trial + 1 < len(known[name].gains):
            heapq.heappush(heap, (-_rate(known[name], trial + 1, weights[name]), name, trial + 1))
    # What no expectation asks for.
    return {name: share + left * weights[name] / whole for name, share in found.items()}


def _rate(one: Outlook, trial: int, weight: float) -> float:
    return weight * one.gains[trial] / one.hours


def shares(folders: dict[str, pathlib.Path | None], weights: dict[str, float], hours: float, trials: int) -> dict[str, float]:
    """Hours for each study by its folder; None: it has none yet. `trials` are the most that one may make."""
    return divide(hours, weights, {name: outlook_of(folder, trials) if folder else None for name, folder in folders.items()})
