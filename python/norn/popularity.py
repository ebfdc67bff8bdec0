# SPDX-License-Identifier: Apache-2.0
"""What a recommender has to be better than: the most popular units for everybody."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import _fitting
from ._arrays import labels_of, tell_of_parts
from ._words import renamed
from .data.matrices import csr_of, without_zeros
from .errors import DataError
from .network import Network
from .recommender import Recommender

if TYPE_CHECKING:
    from ._types import Matrix


@renamed(interactions="user_items")
def most_popular(user_items: Matrix, targets: Matrix | None = None) -> Recommender:
    """The baseline: recommends to everybody the units that most examples have, of as many the lower unit.

    user_items: [users, units], CSR or a Dataset: what each user has, as for Recommender.fit.
    targets: [users, units], what is counted; None: the Dataset's targets, or `user_items`.

    Returns a Recommender whose `evaluate` gives the numbers of `evaluator --popularity`, and whose scores are how many users
    have a unit, as float32. It cannot be fitted further. Raises UsageError for what is no matrix, DataError where there are no
    entries.
    """
    tell_of_parts(user_items, "user_items")
    wanted = _fitting.wanted_of(user_items, targets)
    argument = "user_items" if wanted is user_items else "targets"
    counted = without_zeros(csr_of(wanted, argument), argument)
    if not counted.nnz:
        raise DataError("`user_items`: have no entries, so nothing is popular")
    width, units = csr_of(user_items, "user_items").shape[1], counted.shape[1]
    descriptor = {"Name": "most popular", "Layers": [
        {"Name": "Input", "Kind": "Input", "N": width, "DataSet": "data_input", "Sparse": True},
        {"Name": "Hidden", "Kind": "Hidden", "N": 1, "Activation": "Linear"},
        {"Name": "Output", "Kind": "Output", "N": units, "DataSet": "data_output", "Sparse": True, "Activation": "Linear"}]}
    parameters = {"Input -> Hidden": np.zeros((width, 1), np.float32), "Hidden bias": np.zeros(1, np.float32),
                  "Hidden -> Output": np.zeros((1, units), np.float32),
                  "Output bias": np.bincount(counted.indices, minlength=units).astype(np.float32)}
    labels = {layer: words for layer, words in (("Input", labels_of(user_items)), ("Output", labels_of(wanted))) if words is not None}
    return Recommender.of(Network.from_parameters(descriptor, parameters, labels, device="cpu"))
