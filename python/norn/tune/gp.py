# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process: Matern 5/2 with a length scale for each dimension (Rasmussen and Williams, Gaussian Processes for Machine
Learning, 2006, section 4.2), whose hyperparameters are the most probable ones under priors that know the number of dimensions
(Hvarfner, Hellsten, Nardi, ICML 2024). Categories are alike or not. Targets have mean 0 and variance 1.

The optimiser's last bits differ among processors. Nothing but order is taken from what follows, see acquisition.py."""
import math

import numpy as np
from scipy import linalg

ROOT5 = math.sqrt(5.0)
JITTER = 1e-8
LENGTH_BOUND, AMPLITUDE_BOUND, LEAST_NOISE = 4.0, 3.0, math.log(1e-6)


def squared_differences(left: np.ndarray, right: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """[left x right x dimensions]; 1 where categories differ."""
    difference = left[:, None, :] - right[None, :, :]
    return np.where(categories, (difference != 0).astype(np.float64), difference * difference)


class GaussianProcess:
    """Fitted to `points` [n x dimensions] and `targets` [n]. `fitted` takes the hyperparameters of another one instead:
    logarithms of lengths, amplitude and noise."""

    def __init__(self, points: np.ndarray, targets: np.ndarray, categories: np.ndarray, fitted: np.ndarray | None = None):
        self.points, self.targets, self.categories = points, targets, categories
        self._squared = squared_differences(points, points, categories)
        self.hyper = self._fit() if fitted is None else fitted
        self._factor()

    def extended(self, points: np.ndarray, targets: np.ndarray) -> "GaussianProcess":
        """The same hyperparameters with more points."""
        return GaussianProcess(np.vstack([self.points, points]), np.r_[self.targets, targets], self.categories, self.hyper)

    def doubted(self, factor: float) -> "GaussianProcess":
        """The same points under lengths that are so many times shorter."""
        return GaussianProcess(self.points, self.targets, self.categories, np.r_[self.hyper[:-2] - math.log(factor), self.hyper[-2:]])

    @property
    def lengths(self) -> np.ndarray:
        return np.exp(self.hyper[:-2])

    def _fit(self) -> np.ndarray:
        width = self.points.shape[1]
        bounds = [(-LENGTH_BOUND, LENGTH_BOUND)] * width + [(-AMPLITUDE_BOUND, AMPLITUDE_BOUND), (LEAST_NOISE, 0.0)]
        from scipy import optimize  # see draws.sobol
        best = None
        # Two fixed beginnings: from the last fit's it got stuck, and the result must depend on the points alone.
        for length, noise in ((0.5, 1e-2), (1.5, 1e-1)):
            start = np.r_[np.full(width, math.log(length)), 0.0, math.log(noise)]
            found = optimize.minimize(self._loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
            if best is None or found.fun < best.fun:
                best = found
        return best.x

    def _kernel(self, squared: np.ndarray, hyper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        inverse = np.exp(-2.0 * hyper[:-2])
        distance2 = squared @ inverse
        distance = np.sqrt(distance2)
        fall = np.exp(-ROOT5 * distance)
        return (1.0 + ROOT5 * distance + 5.0 / 3.0 * distance2) * fall, distance, fall, inverse

    def _loss(self, hyper: np.ndarray) -> tuple[float, np.ndarray]:
        """(negative logarithm of likelihood times priors, gradient)."""
        count, width = self.points.shape
        shape, distance, fall, inverse = self._kernel(self._squared, hyper)
        amplitude, noise = math.exp(hyper[width]), math.exp(hyper[width + 1])
        covariance = amplitude * shape
        covariance[np.diag_indices(count)] += noise + JITTER
        try:
            lower = linalg.cholesky(covariance, lower=True, check_finite=False)
        except linalg.LinAlgError:
            return 1e10, np.zeros_like(hyper)
        weights = linalg.cho_solve((lower, True), self.targets, check_finite=False)
        inverted = linalg.cho_solve((lower, True), np.eye(count), check_finite=False)
        loss = 0.5 * float(self.targets @ weights) + float(np.log(np.diag(lower)).sum())
        slope = 0.5 * (inverted - np.outer(weights, weights))
        gradient = np.empty_like(hyper)
        gradient[:width] = np.einsum("ij,ijk->k", slope * amplitude * (5.0 / 3.0) * (1.0 + ROOT5 * distance) * fall,
                                     self._squared) * inverse
        gradient[width] = float((slope * shape).sum()) * amplitude
        gradient[width + 1] = float(np.trace(slope)) * noise
        return self._with_priors(loss, gradient, hyper)

    @staticmethod
    def _with_priors(loss: float, gradient: np.ndarray, hyper: np.ndarray) -> tuple[float, np.ndarray]:
        """Lognormal: lengths that grow with the root of the number of dimensions, amplitude about 1, little noise."""
        width = len(hyper) - 2
        middle = math.sqrt(2.0) + 0.5 * math.log(width) - (1.0 if width < 20 else 0.0)
        deviation = np.r_[(hyper[:width] - middle) / math.sqrt(3.0), hyper[width], (hyper[width + 1] + 4.0) / 1.5]
        spread = np.r_[np.full(width, math.sqrt(3.0)), 1.0, 1.5]
        return loss + 0.5 * float(deviation @ deviation), gradient + deviation / spread

    def _factor(self) -> None:
        shape, *_ = self._kernel(self._squared, self.hyper)
        self.amplitude = math.exp(self.hyper[-2])
        covariance = self.amplitude * shape
        covariance[np.diag_indices(len(self.points))] += math.exp(self.hyper[-1]) + JITTER
        self._lower = linalg.cholesky(covariance, lower=True, check_finite=False)
        self._weights = linalg.cho_solve((self._lower, True), self.targets, check_finite=False)

    def mean(self, rows: np.ndarray) -> np.ndarray:
        return self._covariance(rows) @ self._weights

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(means, variances without noise) [rows]."""
        covariance = self._covariance(rows)
        solved = linalg.solve_triangular(self._lower, covariance.T, lower=True, check_finite=False)
        return covariance @ self._weights, np.maximum(self.amplitude - (solved * solved).sum(0), 1e-12)

    def _covariance(self, rows: np.ndarray) -> np.ndarray:
        squared = np.zeros((len(rows), len(self.points)))
        for number, inverse in enumerate(np.exp(-2.0 * self.hyper[:-2])):
            difference = rows[:, number, None] - self.points[None, :, number]
            squared += ((difference != 0).astype(np.float64) if self.categories[number] else difference * difference) * inverse
        distance = np.sqrt(squared)
        return self.amplitude * (1.0 + ROOT5 * distance + 5.0 / 3.0 * squared) * np.exp(-ROOT5 * distance)
