# SPDX-License-Identifier: Apache-2.0
"""Who feeds whom in a network, as its canonical descriptor says."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from norn.interchange.windows import Window, extent_of, window_of

NORM_VECTORS = ("scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN")


def listed(value: Any) -> list[Any]:
    """A key that takes one or several."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


@dataclass
class Edge:
    """Weights between two layers: the matrix `parameter`, [source units, units], or where `transposed` the other way round."""

    source: str
    destination: str
    parameter: str
    transposed: bool = False

    @property
    def owns(self) -> bool:
        return self.parameter == f"{self.source} -> {self.destination}" and not self.transposed


@dataclass
class Layer:
    """A layer and what feeds it. `units` None: "auto"."""

    name: str
    kind: str
    units: int | None
    keys: dict[str, Any]
    edges: list[Edge] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    pooled: list[str] = field(default_factory=list)  # sources without weights
    extent: list[int] | None = None                  # [x, y .., channels], where it is known

    @property
    def type(self) -> str:
        return str(self.keys.get("Type", "FullyConnected")) if self.kind != "Input" else "Input"

    @property
    def channels(self) -> int | None:
        """Units that have one bias each."""
        return self.extent[-1] if self.extent and self.type == "Convolutional" else self.units

    @property
    def normalized(self) -> bool:
        return bool(self.keys.get("BatchNormalization"))


class Wiring:
    """The layers of a descriptor that take part, sources first, by name."""

    def __init__(self, descriptor: dict[str, Any]):
        self.descriptor = descriptor
        self.by_name = {keys["Name"]: _layer(keys) for keys in listed(descriptor["Layers"])}
        owners = {(edge.source, edge.destination): edge for layer in self.by_name.values() for edge in layer.edges}
        for layer in self.by_name.values():
            for shared in listed(layer.keys.get("SharedWeights")):
                edge = owners[shared["InputLayer"], layer.name]
                edge.parameter = f"{shared['SourceInputLayer']} -> {shared['SourceOutputLayer']}"
                edge.transposed = bool(shared.get("Transposed"))
        for edge in owners.values():
            self._follow(edge, owners)
        self.layers = self._sorted()
        for layer in self.layers:
            self._find_extent(layer)
        self.inputs = [layer for layer in self.layers if layer.kind == "Input"]
        self.outputs = [layer for layer in self.layers if layer.kind == "Output"]

    @staticmethod
    def _follow(edge: Edge, owners: dict[tuple[str, str], Edge]) -> None:
        # Shared weights may be shared in turn; the engine knows that they lead to an end.
        for _ in range(len(owners)):
            owner = owners[_ends(edge.parameter, owners)]
            if owner.parameter == edge.parameter and not owner.transposed or owner is edge:
                return
            edge.parameter, edge.transposed = owner.parameter, edge.transposed != owner.transposed

    def _sorted(self) -> list[Layer]:
        order: list[Layer] = []
        done: set[str] = set()
        pending = [(layer.name, False) for layer in reversed(list(self.by_name.values())) if layer.kind == "Output"]
        while pending:
            name, ready = pending.pop()
            if name in done:
                continue
            layer = self.by_name[name]
            if ready:
                done.add(name)
                order.append(layer)
                continue
            pending.append((name, True))
            pending.extend((source, False) for source in reversed(self.sources_of(layer)))
        return order

    @staticmethod
    def sources_of(layer: Layer) -> list[str]:
        return [edge.source for edge in layer.edges] + layer.pooled + layer.skips

    def _find_extent(self, layer: Layer) -> None:
        sources = [self.by_name[name].extent for name in [edge.source for edge in layer.edges] + layer.pooled]
        if layer.units is None or None in sources and layer.type in ("Convolutional", "Pooling"):
            layer.units = layer.extent = None
            return
        layer.extent = extent_of(layer.keys, [extent for extent in sources if extent is not None])
        layer.units = math.prod(layer.extent)

    def window(self, layer: Layer, source: str) -> Window:
        """Of a Convolutional layer, or a Pooling one that has windows."""
        extent = self.by_name[source].extent
        assert extent is not None
        return window_of(layer.keys, extent)

    def is_skipped_to(self, name: str) -> bool:
        """Whether a layer's units are read one by one by another, so that it cannot be sparse."""
        return any(name in layer.skips or layer.type in ("Convolutional", "Pooling") and name in self.sources_of(layer)
                   for layer in self.by_name.values())

    def extents(self) -> dict[str, tuple[int | None, ...]]:
        """All parameters by name, in the order in which layers come; None where "auto" does not say."""
        found: dict[str, tuple[int | None, ...]] = {}
        for layer in self.layers:
            for edge in layer.edges:
                if edge.owns:
                    found[edge.parameter] = self._extent_of_weights(layer, edge.source)
            if layer.kind == "Input":
                if "InputWeighting" in layer.keys:
                    found[f"{layer.name} featureWeights"] = (layer.units,)
                continue
            if layer.type == "Pooling":
                continue
            for vector in ("bias", *(NORM_VECTORS if layer.normalized else ())):
                found[f"{layer.name} {vector}"] = (layer.channels,)
        return found

    def _extent_of_weights(self, layer: Layer, source: str) -> tuple[int | None, ...]:
        """[source units, units]; of filters [channels of the layer, of the source, the kernel's axes from the last to x]."""
        if layer.type != "Convolutional":
            return self.by_name[source].units, layer.units
        kernel = listed(layer.keys.get("Kernel", 1))
        if layer.extent is None:
            return (None,) * (2 + len(kernel))
        window = self.window(layer, source)
        return layer.extent[-1], window.channels, *reversed(window.kernel)


def _ends(parameter: str, owners: Iterable[tuple[str, str]]) -> tuple[str, str]:
    return next(ends for ends in owners if f"{ends[0]} -> {ends[1]}" == parameter)


def _layer(keys: dict[str, Any]) -> Layer:
    n = keys.get("N", 1)
    units = None if n == "auto" else math.prod(int(extent) for extent in listed(n))
    name = keys["Name"]
    sources = listed(keys.get("Source"))
    if keys.get("Type") == "Pooling" and keys["Kind"] != "Input":
        return Layer(name, keys["Kind"], units, keys, [], [], sources)
    edges = [Edge(source, name, f"{source} -> {name}") for source in sources]
    return Layer(name, keys["Kind"], units, keys, edges, listed(keys.get("Skip")))
