# SPDX-License-Identifier: Apache-2.0
"""Weights of entries: a matrix beside what is to be predicted, or its values."""
from __future__ import annotations

import contextlib
import types
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .data.matrices import csr_of, floats_of, matrix_of, row_of, without_zeros
from .errors import DataError, Error, UsageError

if TYPE_CHECKING:
    from .network import Network


@contextlib.contextmanager
def called(name: str) -> Generator[None, None, None]:
    """What is said of weights meanwhile calls them as their caller does: `weights` or `sample_weight`."""
    def own(text: Any) -> Any:
        return text.replace("`sample_weight`", f"`{name}`").replace("`weights`", f"`{name}`") if isinstance(text, str) else text

    try:
        yield
    except Error as error:
        problems: Any = [{key: own(value) for key, value in problem.items()} for problem in error.problems]
        raise type(error)(own(str(error)), problems=problems) from None


def are_of_entries(weights: Any) -> bool:
    """Whether weights are a matrix, one an entry; else they are one an example."""
    return sp.issparse(matrix_of(weights))


def read_by(network: Network | None, settings: Mapping[str, Any]) -> bool:
    """Whether a run reads values of targets as weights: as a setting says, else as the network does."""
    scheme = settings.get("entry_weights")
    if scheme is not None:
        return bool(str(scheme).lower() != "none")
    return network is not None and any(layer.get("EntryWeights") for layer in network.layers("Output"))


def weighed(wanted: Any, weights: Any, argument: str) -> Any:
    """What is to be predicted with its weights in the place of its values. Raises UsageError where the two have not the same entries,
    DataError for weights that are none."""
    if isinstance(matrix_of(wanted), Mapping) and not sp.issparse(matrix_of(wanted)):
        raise UsageError("`sample_weight`: a matrix is for a network with one data set of targets; of several give the weights as values "
                         "of `targets`, and \"EntryWeights\" in the network")
    targets = without_zeros(csr_of(wanted, argument), argument)
    given = csr_of(weights, "sample_weight")
    if given.shape != targets.shape:
        raise UsageError(f"`sample_weight`: has the shape {given.shape}, `{argument}` has {targets.shape}; give a matrix with a weight for "
                         "each of its entries, or one number an example")
    _require_same_entries(given, targets, argument)
    _require_weights(given)
    made = sp.csr_matrix((floats_of(given, "sample_weight")[: given.indptr[-1]], given.indices[: given.indptr[-1]], given.indptr),
                         shape=given.shape)
    return types.SimpleNamespace(matrix=made, feature_labels=getattr(wanted, "feature_labels", None), name=getattr(wanted, "name", None))


def _require_same_entries(given: Any, targets: Any, argument: str) -> None:
    if np.array_equal(given.indptr, targets.indptr) and np.array_equal(*(m.indices[: m.indptr[-1]] for m in (given, targets))):
        return
    for one, other, fault in ((targets, given, f"of `{argument}` has no weight; give one, 0 where it is to count for nothing"),
                              (given, targets, f"has a weight, and is no entry of `{argument}`; leave it out")):
        places, others = (_places(matrix) for matrix in (one, other))
        lacking = ~np.isin(places, others, assume_unique=True)
        if lacking.any():
            at = int(lacking.argmax())
            raise UsageError(f"`sample_weight`: row {row_of(one.indptr, at)} (from 0): the entry of column {one.indices[at]} {fault}: "
                             f"{int(lacking.sum())} of {places.size} entries are such")


def _places(matrix: Any) -> Any:
    """A number for each entry that says where it stands."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices[: matrix.indptr[-1]]


def _require_weights(given: Any) -> None:
    values = given.data[: given.indptr[-1]]
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(f"`sample_weight`: row {row_of(given.indptr, at)} (from 0): the weight of column {given.indices[at]} is "
                        f"{values[at]:g}, expected a finite number of at least 0: {int(wrong.sum())} of {values.size} weights are such")
    if values.size and not values.any():
        raise DataError("`sample_weight`: all are 0, so that there is nothing to learn; 1 counts an entry once")
