# SPDX-License-Identifier: Apache-2.0
"""What several studies of one space say together: a Gaussian process of which a part is common to all, a part each one's own, and each has
a level and a noise of its own. So results of a noisy study count less, and which dimensions matter is learned from all at once, where
the few dozen results of one say little of it (hierarchical, as in Swersky, Snoek, Adams, NeurIPS 2013, with one correlation)."""
import math

import numpy as np
from scipy import linalg

from .gp import AMPLITUDE_BOUND, JITTER, LENGTH_BOUND, ROOT5, squared_differences

LEVEL = 1.0  # variance of a study's level
NOISE_BOUNDS = (math.log(1e-4), 0.5)
STEPS = 30


class SharedProcess:
    """Fitted to `points` [n x dimensions] and `targets` [n] of studies `of` [n], numbered from 0; those of each study have mean 0 and
    variance 1. Logarithms in `hyper`: lengths, amplitude of the common part and of each study's own, noise of each study."""

    def __init__(self, points: np.ndarray, targets: np.ndarray, of: np.ndarray, categories: np.ndarray):
        self.points, self.targets, self.of, self.categories = points, targets, of, categories
        self._squared = squared_differences(points, points, categories)
        self._alike = (of[:, None] == of[None, :]).astype(np.float64)
        self.width, self.studies = points.shape[1], int(of.max()) + 1
        self.hyper = self._fit()
        lower, _ = self._factored(self.hyper)
        self._weights = linalg.cho_solve((lower, True), targets, check_finite=False)

    @property
    def common(self) -> float:
        """Logarithm of the amplitude of what all have in common."""
        return float(self.hyper[self.width])

    @property
    def own(self) -> float:
        """And of what each has for itself."""
        return float(self.hyper[self.width + 1])

    @property
    def noise(self) -> float:
        """Logarithm of the noise of a study, in the middle."""
        return float(self.hyper[self.width + 2:].mean())

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Of the part that all have in common."""
        shape, _ = self._shape(squared_differences(rows, self.points, self.categories), self.hyper)
        return math.exp(self.common) * (shape @ self._weights)

    def _fit(self) -> np.ndarray:
        from scipy import optimize  # see draws.sobol
        bounds = ([(-LENGTH_BOUND, LENGTH_BOUND)] * self.width + [(-AMPLITUDE_BOUND - 1.0, AMPLITUDE_BOUND)] * 2
                  + [NOISE_BOUNDS] * self.studies)
        start = np.r_[np.zeros(self.width), -0.5, -1.5, np.full(self.studies, -2.0)]
        return optimize.minimize(self._loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}).x

    def _shape(self, squared: np.ndarray, hyper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(covariance for the amplitude 1, what its derivative by squared differences is made of)."""
        distance2 = squared @ np.exp(-2.0 * hyper[:self.width])
        distance = np.sqrt(distance2)
        fall = np.exp(-ROOT5 * distance)
        return (1.0 + ROOT5 * distance + 5.0 / 3.0 * distance2) * fall, 5.0 / 3.0 * (1.0 + ROOT5 * distance) * fall

    def _factored(self, hyper: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(lower factor of the covariance, (shape, slope, amplitudes) of it)."""
        shape, slope = self._shape(self._squared, hyper)
        amplitudes = math.exp(hyper[self.width]) + math.exp(hyper[self.width + 1]) * self._alike
        covariance = amplitudes * shape + LEVEL * self._alike
        covariance[np.diag_indices(len(self.of))] += np.exp(hyper[self.width + 2:])[self.of] + JITTER
        return linalg.cholesky(covariance, lower=True, check_finite=False), (shape, slope, amplitudes)

    def _loss(self, hyper: np.ndarray) -> tuple[float, np.ndarray]:
        """(negative logarithm of likelihood times priors, gradient)."""
        width = self.width
        try:
            lower, (shape, slope, amplitudes) = self._factored(hyper)
        except linalg.LinAlgError:
            return 1e10, np.zeros_like(hyper)
        weights = linalg.cho_solve((lower, True), self.targets, check_finite=False)
        inverted = linalg.cho_solve((lower, True), np.eye(len(self.of)), check_finite=False)
        loss = 0.5 * float(self.targets @ weights) + float(np.log(np.diag(lower)).sum())
        outer = 0.5 * (inverted - np.outer(weights, weights))
        gradient = np.empty_like(hyper)
        gradient[:width] = np.einsum("ij,ijk->k", outer * amplitudes * slope, self._squared) * np.exp(-2.0 * hyper[:width])
        gradient[width] = float((outer * shape).sum()) * math.exp(hyper[width])
        gradient[width + 1] = float((outer * shape * self._alike).sum()) * math.exp(hyper[width + 1])
        gradient[width + 2:] = np.bincount(self.of, np.diag(outer), self.studies) * np.exp(hyper[width + 2:])
        # Lognormal priors, those of gp.py; what a study has for itself is less than what all have in common.
        middle = np.r_[np.full(width, math.sqrt(2.0) + 0.5 * math.log(width) - (1.0 if width < 20 else 0.0)), 0.0, -1.0,
                       np.full(self.studies, -2.5)]
        spread = np.r_[np.full(width, math.sqrt(3.0)), 1.0, 1.0, np.full(self.studies, 1.5)]
        deviation = (hyper - middle) / spread
        return loss + 0.5 * float(deviation @ deviation), gradient + deviation / spread
