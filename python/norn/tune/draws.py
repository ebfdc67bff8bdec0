# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the search: functions of a key alone. The bits of a Philox stream are promised by numpy, its
distributions are not, so they are made here."""
import numpy as np
from scipy import special

# What a stream is for; with the study's seed and a number they make its key.
START, PROPOSAL, UNIFORM, PROMISE = 1, 2, 3, 4


class Draws:
    """A stream of numbers."""

    def __init__(self, seed: int, purpose: int, number: int = 0):
        self._bits = np.random.Philox(key=np.array([seed, purpose << 48 | number], dtype=np.uint64))

    def uniform(self, *shape: int) -> np.ndarray:
        """From 0 to 1, without 1, in steps of 2^-53."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = np.asarray(self._bits.random_raw(count), dtype=np.uint64).reshape(shape)
        return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, *shape: int) -> np.ndarray:
        return special.ndtri(self.uniform(*shape) + 2.0**-54)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        """Whole numbers from 0, without the limit."""
        return np.floor(self.uniform(*shape) * limit).astype(np.int64)


def sobol(count: int, shift: np.ndarray) -> np.ndarray:
    """[count x len(shift)] points of Sobol's sequence, moved round by `shift`. Its own shuffling draws from numpy's generator,
    so it is left out. `count` is rounded up to a power of two within."""
    from scipy.stats import qmc  # takes as long as all else to load, and a study that goes on may not need it
    points = qmc.Sobol(len(shift), scramble=False).random_base2(max(0, int(count - 1).bit_length()))[:count]
    return (points + shift) % 1.0
