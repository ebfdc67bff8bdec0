# SPDX-License-Identifier: Apache-2.0
"""Vectors of items and users: for programs that search by inner products, and to compare users by."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .errors import UsageError
from .folding import folded
from .interchange.wiring import Layer, Wiring

if TYPE_CHECKING:
    from ._types import Array, Floats, Ids
    from .network import Network

# They fall where what comes in rises, below zero.
_NOT_IN_ORDER = ("GELU", "Swish")
AT_A_TIME = 256  # rows that are compared with a part, to bound memory


class Vectors(NamedTuple):
    """What `Recommender.export_vectors` returns: `users @ items.T` is what comes into the output's activation, so that inner products
    are in the order of the scores.

    items: float32 [items, dimensions], a unit's weights and last its bias.
    users: float32 [users, dimensions], the activations that these weights are for and last 1.
    """

    items: Floats
    users: Floats


def _sources(wiring: Wiring, output: Layer) -> list[str]:
    """The hidden layers that feed an output. Raises UsageError for what an inner product is not in the order of."""
    word = output.keys.get("Activation", "Sigmoid")
    if word in _NOT_IN_ORDER:
        raise UsageError(f"layer \"{output.name}\": its activation {word} is not in the order of what comes in: a score may be lower where "
                         "the inner product is higher; `recommend` orders by scores")
    if output.skips:
        raise UsageError(f"layer \"{output.name}\": what comes by Skip is no inner product with the unit's weights")
    for edge in output.edges:
        if wiring.by_name[edge.source].kind == "Input":
            raise UsageError(f"layer \"{output.name}\": reads the input \"{edge.source}\" itself, so vectors would be as wide as the data; "
                             "there are vectors where hidden layers alone feed it")
    return [edge.source for edge in output.edges]


def vectors_of(network: Network, layer: str, activations: Callable[[str], Floats] | None) -> Vectors:
    """Those of an output layer; of users by what gives the activations of a hidden layer, [users, units]."""
    descriptor, parameters = folded(network)
    wiring = Wiring(descriptor)
    output = wiring.by_name[layer]
    sources = _sources(wiring, output)
    weights = [parameters[edge.parameter] if edge.transposed else parameters[edge.parameter].T for edge in output.edges]
    items = _columns([*weights, parameters[f"{layer} bias"][:, None]])
    if activations is None:
        return Vectors(items, np.empty((0, items.shape[1]), np.float32))
    hidden = [activations(source) for source in sources]
    return Vectors(items, _columns([*hidden, np.ones((len(hidden[0]), 1), np.float32)]))


def _columns(parts: Sequence[Floats]) -> Floats:
    """Side by side, row after row in memory, as other programs want them."""
    made = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)), np.float32)
    return np.concatenate(parts, axis=1, out=made)


def unit_rows(vectors: Floats) -> Floats:
    """Of length 1; what is 0 stays so."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


def nearest_units(vectors: Floats, asked: Array, allowed: Array | None, n: int) -> tuple[Ids, Floats]:
    """For each of the units `asked` the n with the largest cosine, of vectors [dimensions, units] of length 1 and of those that are
    allowed; -1 and nan where there are fewer."""
    scores = vectors[:, asked].T @ vectors
    if allowed is not None:
        scores[:, allowed == 0] = -np.inf
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :n].astype(np.int32)
    best = np.take_along_axis(scores, ids, axis=1)
    ids[best == -np.inf] = -1
    best[best == -np.inf] = np.nan
    return ids, best


def nearest(asked: Floats, parts: Iterable[Floats], n: int) -> tuple[Ids, Floats]:
    """For each row of `asked` the n rows with the largest cosine, or all where there are fewer, of equal ones the lower, of rows that
    come in parts."""
    blocks = [unit_rows(asked[at:at + AT_A_TIME]) for at in range(0, max(len(asked), 1), AT_A_TIME)]
    best = [(np.empty((len(block), 0), np.int32), np.empty((len(block), 0), np.float32)) for block in blocks]
    first = 0
    for part in map(unit_rows, parts):
        numbers = np.arange(first, first + len(part), dtype=np.int32)
        best = [_merged(kept, numbers, block @ part.T, n) for kept, block in zip(best, blocks)]
        first += len(part)
    return np.concatenate([ids for ids, _ in best]), np.concatenate([scores for _, scores in best])


def _merged(kept: tuple[Ids, Floats], numbers: Ids, cosines: Floats, n: int) -> tuple[Ids, Floats]:
    """The n best of two lists, the first of which has the lower numbers."""
    ids = np.concatenate([kept[0], np.broadcast_to(numbers, cosines.shape)], axis=1)
    scores = np.concatenate([kept[1], cosines], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)
