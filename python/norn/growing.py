# SPDX-License-Identifier: Apache-2.0
"""Models that get new items: what their weights are before anything is learnt of them."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from . import _item_features
from ._item_features import Named
from .data.matrices import csr_of
from .dataset import Dataset
from .errors import UsageError
from .folding import folded, table_of, units_of
from .interchange.wiring import Edge, Wiring
from .network import Network

if TYPE_CHECKING:
    from ._types import Array

_TOLERANCE = 1e-10   # of the ridge regression: what remains, of what there was
_AT_A_TIME = 256     # columns of weights


def by_ridge(known: Any, new: Any, regularization: float) -> Callable[[Array], Array]:
    """Rows of new items from those of known ones [known, columns], by ridge regression on their features and a constant, which is
    one more: the P with the least |known P - rows|^2 + regularization |P|^2. By conjugate gradients in float64, a column at a time, so
    that the bits depend on no number of threads.

    known, new: CSR [items, features].
    """
    known, new = (scipy.sparse.hstack([part, np.ones((part.shape[0], 1))], format="csr", dtype=np.float64) for part in (known, new))
    turned = known.T.tocsr()
    diagonal = np.asarray(known.multiply(known).sum(axis=0)).reshape(-1, 1) + regularization

    def product(weights: Array) -> Array:
        return turned @ (known @ weights) + regularization * weights

    def rows(of_known: Array) -> Array:
        some = (of_known[:, at:at + _AT_A_TIME] for at in range(0, of_known.shape[1], _AT_A_TIME))
        return np.concatenate([new @ _solved(product, diagonal, turned @ part) for part in some], axis=1)
    return rows


def _solved(product: Callable[[Array], Array], diagonal: Array, right: Array) -> Array:
    """Solves a positive definite system for several right sides, each on its own."""
    found = np.zeros_like(right)
    remaining, goal = right.copy(), _TOLERANCE**2 * (right * right / diagonal).sum(axis=0)
    scaled = remaining / diagonal
    direction, size = scaled.copy(), (remaining * scaled).sum(axis=0)
    for _ in range(10 * len(right) + 10):
        going = size > goal
        if not going.any():
            break
        image = product(direction)
        bend = (direction * image).sum(axis=0)
        step = np.divide(size, bend, out=np.zeros_like(size), where=going & (bend > 0))
        found += step * direction
        remaining -= step * image
        scaled = remaining / diagonal
        before, size = size, (remaining * scaled).sum(axis=0)
        direction = scaled + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * direction
    return found


def by_neighbours(data: Any, known: int) -> Callable[[Array], Array]:
    """Rows of new items as the mean of those of known items that examples have beside them, each as often as they do; of an item
    without any the mean of all.

    data: CSR [examples, items], the known ones first.
    """
    has: Any = scipy.sparse.csr_matrix(data).astype(bool).astype(np.float64)
    beside = (has[:, known:].T @ has[:, :known]).tocsr()
    counts = np.asarray(beside.sum(axis=1)).reshape(-1, 1)

    def rows(of_known: Array) -> Array:
        means = beside @ of_known
        return np.where(counts > 0, np.divide(means, np.maximum(counts, 1.0)), of_known.mean(axis=0))
    return rows


class _Growth:
    """Arrays of a network while layers of it get more units."""

    def __init__(self, wiring: Wiring, parameters: Mapping[str, Array], rows: Callable[[Array], Array], count: int):
        self.wiring, self.rows, self.count = wiring, rows, count
        self.arrays: dict[str, Array] = {name: np.asarray(array) for name, array in parameters.items()}
        self.done: set[tuple[str, int]] = set()

    def grow(self, name: str) -> None:
        """More units of one layer, in all arrays that have an axis of them."""
        for layer in self.wiring.layers:
            for edge in layer.edges:
                if name in (edge.source, edge.destination):
                    self._grow_weights(edge, (edge.destination == name) != edge.transposed)
        if f"{name} bias" in self.arrays:
            self._grow(f"{name} bias", 0, self.rows)
        for vector in ("featureWeights", "scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN"):
            if f"{name} {vector}" in self.arrays:
                self._grow(f"{name} {vector}", 0, self._mean)

    def _mean(self, of_known: Array) -> Array:
        return np.broadcast_to(of_known.mean(axis=0), (self.count, of_known.shape[1]))

    def _grow_weights(self, edge: Edge, columns: bool) -> None:
        if self.arrays[edge.parameter].ndim != 2:
            raise UsageError(f"\"{edge.parameter}\": new items need layers that are FullyConnected")
        self._grow(edge.parameter, int(columns), self.rows)

    def _grow(self, name: str, axis: int, rule: Callable[[Array], Array]) -> None:
        if (name, axis) in self.done:
            return
        self.done.add((name, axis))
        array = np.moveaxis(self.arrays[name], axis, 0)
        more = rule(array.reshape(len(array), -1).astype(np.float64)).astype(np.float32)
        self.arrays[name] = np.moveaxis(np.concatenate([array, more.reshape(len(more), *array.shape[1:])]), 0, axis)


def item_layers(network: Network, layer: str) -> list[str]:
    """The layers whose units are the items: an output layer, and the input layer that has the same units, if there is one."""
    wiring = Wiring(network.descriptor)
    output = wiring.by_name[layer]
    labels = network.labels(layer)
    same = [one.name for one in wiring.inputs if one.units == output.units and network.labels(one.name) == labels]
    return [layer, *same[:1]]


def grown(network: Network, layers: list[str], count: int, rows: Callable[[Array], Array], labels: Iterable[str] | None) -> Network:
    """A network whose `layers`, of as many units each, have `count` more behind those that there are. Features that it was trained with
    become part of the weights; a state of training is left behind.

    rows: makes rows of the new units from those [units, columns] of the known ones.
    labels: of the new units; None: the network has none.

    Raises UsageError for layers that cannot grow, and labels that are there already.
    """
    descriptor, parameters = folded(network)
    wiring = Wiring(descriptor)
    units = units_of(wiring, layers[0])
    growth = _Growth(wiring, parameters, rows, count)
    for name in layers:
        growth.grow(name)
    of_new = np.arange(units, units + count)
    for edge in (edge for layer in wiring.layers for edge in layer.edges if {edge.source, edge.destination} == set(layers)):
        growth.arrays[edge.parameter][of_new, of_new] = 0.0  # nothing is known of what an item says of itself
    for keys in descriptor["Layers"]:
        if keys["Name"] in layers:
            keys["N"] = units + count
    names = {keys["Name"]: network.labels(keys["Name"]) for keys in descriptor["Layers"] if keys["Kind"] in ("Input", "Output")}
    new = None if labels is None else require_new(labels, names[layers[0]], count)
    known = {name: (list(words) + new if name in layers and new else words) for name, words in names.items() if words is not None}
    device: Any = network.device
    return Network.from_parameters(descriptor, growth.arrays, known, **device)


def require_new(labels: Iterable[str], known: Any, count: int) -> list[str]:
    """The labels of `count` new items. Raises UsageError where they are other than that, or the model knows one."""
    new = [str(label) for label in labels]
    if len(new) != count:
        raise UsageError(f"`labels`: {len(new)} labels are given, and {count} items; give one for each")
    if len(set(new)) != len(new):
        twice = Counter(new).most_common(1)[0][0]
        raise UsageError(f"`labels`: \"{twice}\" is there twice; give each item once")
    if known is None:
        raise UsageError("`labels`: the model's items have none, so that they go by number; leave `labels` out")
    there = [label for label, number in zip(new, known.find(new), strict=True) if number >= 0]
    if there:
        more = f", and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(f"`labels`: the model has \"{there[0]}\" already{more}; give new items alone")
    return new


def with_items(network: Network, layer: str, item_features: Any, labels: Iterable[str] | None, known_features: Any,
               regularization: float) -> Network:
    """The network with new items, whose weights follow from their features as those of known items do from theirs."""
    layers = item_layers(network, layer)
    known, names = _known_features(network, layer, known_features)
    if isinstance(item_features, Mapping):
        if labels is not None:
            raise UsageError("`labels`: the dictionary `item_features` has them; leave `labels` out")
        items = [str(item) for item in item_features]
        given = _item_features.by_name(item_features, {item: row for row, item in enumerate(items)}, Named(names))
        labels = None if network.labels(layer) is None else items
    else:
        given = _item_features.matrix_of_items(item_features)
        if labels is None and network.labels(layer) is not None:
            labels = getattr(item_features, "example_labels", None)
        given = _item_features.in_columns(item_features, given, names, known.shape[1])
    if labels is None and network.labels(layer) is not None:
        raise UsageError("`labels`: the model's items have labels; give those of the new ones")
    _item_features.tell_of_empty(given, list(labels) if labels is not None else None)
    return grown(network, layers, given.shape[0], by_ridge(known, given, regularization), labels)


def _known_features(network: Network, layer: str, given: Any) -> tuple[Any, list[str] | None]:
    """Of the items that a model knows: CSR [items, features], and what features are called."""
    trained = table_of(network, layer)
    if given is None and trained is None:
        raise UsageError("`known_features`: the model has no features of items: none were trained with, or new items made them part of its "
                         "weights; give those of the items that it knows")
    if given is None:
        names = network.labels(f"{layer} features")
        return trained, None if names is None else list(names)
    if trained is not None:
        raise UsageError("`known_features`: the model was trained with features of items, and has them; leave `known_features` out")
    units, labels = units_of(Wiring(network.descriptor), layer), network.labels(layer)
    table = _item_features.table_of(given, labels, units, "known_features")
    _item_features.tell_of_missing(table, labels, "known_features")
    return table.matrix, None if table.feature_labels is None else list(table.feature_labels)


def with_items_of(network: Network, data: Any) -> tuple[Network, Any]:
    """The network with the items of data [users, items] that it does not have, by_neighbours(), and the data with its columns: by label
    where both have some, else behind those that there are. Raises UsageError where the items are not both what users have and what is
    recommended."""
    layers = item_layers(network, network.layer()["Name"])
    if len(layers) != 2 or getattr(data, "targets", None) is not None:
        raise UsageError("`grow`: new items need a model that recommends what users have, and data without other targets")
    known, words = network.labels(layers[0]), getattr(data, "feature_labels", None)
    units, matrix = units_of(Wiring(network.descriptor), layers[0]), csr_of(data, "user_items")
    if (known is None) != (words is None):
        which = ("the model's items have labels and the data" if words is None else "the data have labels and the model's items")
        raise UsageError(f"`grow`: {which} none, so that nobody knows which items are new")
    if known is None or words is None:
        columns, new = np.arange(matrix.shape[1]), None
        count = max(0, matrix.shape[1] - units)
    else:
        columns = np.array(known.find(words))
        there = np.flatnonzero(columns < 0)
        new, count = [words[column] for column in there], len(there)
        columns[there] = units + np.arange(count)
    ordered = scipy.sparse.csr_matrix((matrix.data, columns[matrix.indices].astype(np.int32), matrix.indptr),
                                      (matrix.shape[0], units + count))
    ordered.sort_indices()
    if count:
        network = grown(network, layers, count, by_neighbours(ordered, units), new)
    labels = None if new is None else list(network.labels(layers[0]) or ())
    return network, Dataset(ordered, feature_labels=labels, name=getattr(data, "name", "data"))
