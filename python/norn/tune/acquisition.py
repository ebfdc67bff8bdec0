# SPDX-License-Identifier: Apache-2.0
"""What to try next, as functions of their arguments: the same proposal from the same results, on any machine.

The logarithm of expected improvement (Ament, Daulton, Eriksson, Balandat, Bakshy, NeurIPS 2023) is searched by comparing
candidates alone, without gradients: floats that differ in their last bits among processors then give the same point. Trials
that run count with the mean that is expected of them (Ginsbourger, Le Riche, Carraro 2010: the kriging believer). Fitted lengths are
believed every second time: where they came out too long nothing else would be tried any more (Berkenkamp, Schoellig, Krause, JMLR 2019)."""
import math
from typing import Callable, Iterator, NamedTuple

import numpy as np
from scipy import special

from .draws import PROMISE, PROPOSAL, START, UNIFORM, Draws, sobol
from .gp import GaussianProcess
from .space import Space

FIT_LIMIT = 400  # points that a fit takes: the best half and the newest half of them
FEW = 3          # fewer results than this say nothing of length scales
EARLY = 5        # of a study that knows others the first so many trials are where most is expected; improvement may wait for more results
SKEWED = 2.0     # a longer tail of bad values than this, in medians of deviations, and ranks stand for them
APART = 0.1      # of a dimension, over the number of known rows: the least distance of a proposal from them
DOUBT_EVERY, DOUBT = 2, 2.0  # every second proposal takes the function to change so many times faster than it seems to
ROUNDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.004)


def targets(values: np.ndarray, ranks: bool = False, least: float = 0.0) -> np.ndarray:
    """Values (larger is better, nan is worst) with mean 0 and variance 1. Where some failed or many are far below the others, or
    where `ranks` says so, what is below the median counts by its rank (Song and others, The Vizier Gaussian process bandit algorithm,
    2024)."""
    if not len(values):
        return np.zeros(0)
    values = ranked(values, ranks)
    deviation = max(float(values.std()), least)
    return (values - values.mean()) / (deviation if deviation > 1e-12 else 1.0)


def ranked(values: np.ndarray, ranks: bool = False) -> np.ndarray:
    """The same, in the values' own units."""
    values = np.array(values, dtype=np.float64)
    failed = ~np.isfinite(values)
    if failed.all():
        return np.zeros(len(values))
    good = values[~failed]
    middle = float(np.median(good))
    above = good[good >= middle]
    spread = math.sqrt(float(np.mean((above - middle) ** 2))) or 1.0
    tail = middle - float(np.quantile(good, 0.1))
    if ranks or failed.any() or tail > SKEWED * max(spread, 1e-300):
        values[failed] = good.min() - spread
        below = values < middle
        from scipy.stats import rankdata  # see draws.sobol
        order = rankdata(values, "average")
        values[below] = middle + spread * special.ndtri(np.clip((order[below] - 0.5) / len(values), 1e-6, 0.5))
    return values


def log_improvement(z: np.ndarray) -> np.ndarray:
    """log(phi(z) + z Phi(z)), exact far below 0 too."""
    out = np.empty_like(z)
    near = z > -1.0
    out[near] = np.log(np.exp(-0.5 * z[near] ** 2) / math.sqrt(2.0 * math.pi) + z[near] * special.ndtr(z[near]))
    far = z[~near]
    ratio = special.erfcx(-far / math.sqrt(2.0)) * np.abs(far) * math.sqrt(0.5 * math.pi)
    out[~near] = -0.5 * far**2 - 0.5 * math.log(2.0 * math.pi) + np.log1p(-np.minimum(ratio, 1.0 - 1e-16))
    return out


def start_row(space: Space, seed: int, number: int) -> np.ndarray:
    """Number `number` of the points that fill the space before anything is known."""
    return space.spread(sobol(number + 1, Draws(seed, START).uniform(len(space)))[number:])[0]


def random_row(space: Space, seed: int, number: int) -> np.ndarray:
    return space.spread(Draws(seed, UNIFORM, number).uniform(1, len(space)))[0]


def chosen_points(values: np.ndarray, most: int = FIT_LIMIT) -> np.ndarray:
    """Numbers of the points that are fitted, in order: the best half and the newest half of so many."""
    if len(values) <= most:
        return np.arange(len(values))
    newest = np.arange(len(values) - most // 2, len(values))
    ranked = np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")
    return np.sort(np.r_[newest, ranked[~np.isin(ranked, newest)][:most - len(newest)]])


def apart(row: np.ndarray, known: np.ndarray) -> bool:
    """Whether a row differs from each known one by enough to say something new: by less, the more are known."""
    return len(known) == 0 or bool((np.abs(known - row).max(axis=1) >= APART / len(known)).all())


def highest(space: Space, score: Callable[[np.ndarray], np.ndarray], near: np.ndarray, known: np.ndarray, draws: Draws) -> np.ndarray:
    """The row with the highest score that is found among many and then around the best; of equal ones the first. Rows that hardly
    differ from a known one are passed over."""
    rows = space.spread(sobol(512, draws.uniform(len(space))))
    if len(near):
        rows = np.vstack([rows, space.moved(np.repeat(near, 16, axis=0), 0.1, draws)])
    scores = score(rows)
    for scale in ROUNDS:
        best = np.argsort(-scores, kind="stable")[:12]
        moved = space.moved(np.repeat(rows[best], 12, axis=0), scale, draws)
        rows, scores = np.vstack([rows[best], moved]), np.r_[scores[best], score(moved)]
    for number in np.argsort(-scores, kind="stable"):
        if apart(rows[number], known):
            return rows[number]
    fresh = space.spread(draws.uniform(512, len(space)))
    return next((row for row in fresh if apart(row, known)), fresh[0])


class NoPrior:
    """What is expected before a trial of this study is known: the same everywhere. `spread` is the least deviation that values are
    measured in: few values may be closer together than values of the space are."""

    spread = 0.0

    def __len__(self) -> int:
        return 0

    def residual(self, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """(values without what was expected, what is expected of rows)."""
        return values, lambda other: np.zeros(len(other))

    def best(self) -> np.ndarray:
        """Rows that look good beforehand."""
        return np.zeros((0, 0))

    def hyper(self, results: int) -> np.ndarray | None:
        """Of the process of what is left, while there are too few results to fit one; None: they are fitted."""
        return None


class Model(NamedTuple):
    """What results and what is known beforehand say together."""

    process: GaussianProcess                      # of what is left
    expected: Callable[[np.ndarray], np.ndarray]  # beforehand
    means: np.ndarray                             # of the rows with results, then of the pending ones
    scale: float                                  # of its values, in the results' own units

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(means, deviations without noise) [rows]."""
        mean, variance = self.process.predict(rows)
        return mean + self.expected(rows), np.sqrt(variance)

    def improvement(self, rows: np.ndarray, best: float) -> np.ndarray:
        """Logarithm of the expected improvement over `best`."""
        mean, deviation = self.predict(rows)
        return log_improvement((mean - best) / deviation) + np.log(deviation)


def modelled(space: Space, rows: np.ndarray, values: np.ndarray, pending: np.ndarray, prior, doubt: bool) -> Model:
    """Of at least a row, with a result or pending."""
    wanted = targets(values, len(prior) > 0, prior.spread)
    rest, expected = prior.residual(rows, wanted)
    if len(rows):
        process = GaussianProcess(rows, rest, space.categories, prior.hyper(len(rows)))
        if doubt and len(rows) >= FEW:
            process = process.doubted(DOUBT)
        if len(pending):
            process = process.extended(pending, process.mean(pending))
    else:
        process = GaussianProcess(pending, np.zeros(len(pending)), space.categories, prior.hyper(0))
    known = np.vstack([rows, pending])
    scale = max(float(ranked(values, len(prior) > 0).std()) if len(values) else 0.0, prior.spread)
    return Model(process, expected, process.mean(known) + expected(known), scale or 1.0)


def model_row(space: Space, rows: np.ndarray, values: np.ndarray, pending: np.ndarray, seed: int, number: int,
              prior=NoPrior()) -> np.ndarray:
    """The row that promises most. `rows` [n x dimensions] have the `values` [n] (larger is better, nan failed); those of `pending`
    [m x dimensions] are being trained; `number` is that of the proposal, which draws by it."""
    draws = Draws(seed, PROPOSAL, number)
    fitted = chosen_points(values)
    rows, values = rows[fitted], values[fitted]
    if len(rows) + len(pending) == 0:
        return highest(space, prior.residual(rows, values)[1], prior.best(), rows, draws)
    model = modelled(space, rows, values, pending, prior, number % DOUBT_EVERY == DOUBT_EVERY - 1)
    known = np.vstack([rows, pending])
    best = float(model.means[:len(rows)].max()) if len(rows) else float(model.means.max())
    near = known[np.argsort(-model.means, kind="stable")[:6]]
    if len(prior):
        near = np.vstack([near, prior.best()])

    def hope(other: np.ndarray) -> np.ndarray:
        """What is expected, but of neighbours of what is known."""
        away = np.abs(other[:, None, :] - known[None, :, :]).max(axis=2).min(axis=1)
        return np.where(away >= APART, model.predict(other)[0], -np.inf)

    early = len(prior) > 0 and len(known) < EARLY
    return highest(space, hope if early else lambda other: model.improvement(other, best), near, known, draws)


def promises(space: Space, rows: np.ndarray, values: np.ndarray, trials: int, seed: int, prior=NoPrior()) -> Iterator[float]:
    """By how much each of so many further trials is expected to raise the best, in the values' own units; each counts with the mean that is
    expected of it for those after it."""
    fitted = chosen_points(values)
    rows, values = rows[fitted], values[fitted]
    pending = rows[:0]
    model = modelled(space, rows, values, pending, prior, False)
    best = float(model.means.max())
    for number in range(trials):
        known = np.vstack([rows, pending])
        row = highest(space, lambda other: model.improvement(other, best), known[np.argsort(-model.means, kind="stable")[:6]], known,
                      Draws(seed, PROMISE, number))[None, :]
        yield model.scale * math.exp(float(model.improvement(row, best)[0]))
        pending = np.vstack([pending, row])
        process = model.process.extended(row, model.process.mean(row))
        known = np.vstack([rows, pending])
        model = model._replace(process=process, means=process.mean(known) + model.expected(known))
