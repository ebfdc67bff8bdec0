# SPDX-License-Identifier: Apache-2.0
"""Arrays by the names that PyTorch gives them, to and from a network's parameters. `nn.Linear` has [units, source units], so matrices
are transposed; filters of `nn.Conv1d` to `nn.Conv3d` are those of Norn; `nn.EmbeddingBag(mode="sum")`, which reads a sparse input,
has [source units, units] as Norn."""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from norn.interchange.parts import Parts
from norn.interchange.problems import Problems, shown
from norn.interchange.wiring import NORM_VECTORS, Edge, Layer, Wiring

# Arrays of a batch normalisation, by the names of nn.BatchNorm1d.
NORM = dict(zip(("weight", "bias", "running_mean", "running_var"), NORM_VECTORS))
PASSED_OVER = ("num_batches_tracked",)
MOST_UNNAMED = 8  # modules without an order or a name that says which they are


def module_of(edge: Edge, layer: Layer) -> str:
    """"Hidden", or "Hidden.Source" where a layer has several sources."""
    return layer.name if len(layer.edges) == 1 else f"{layer.name}.{edge.source}"


def names_of(wiring: Wiring) -> dict[str, tuple[str, bool]]:
    """The names of a network's arrays in files: of which parameter, and whether transposed."""
    names: dict[str, tuple[str, bool]] = {}
    for layer in wiring.layers:
        for edge in layer.edges:
            if edge.owns:
                names[f"{module_of(edge, layer)}.weight"] = (edge.parameter, layer.type != "Convolutional")
        if layer.kind == "Input":
            if "InputWeighting" in layer.keys:
                names[f"{layer.name}.feature_weights"] = (f"{layer.name} featureWeights", False)
            continue
        if layer.type == "Pooling":
            continue
        names[f"{layer.name}.bias"] = (f"{layer.name} bias", False)
        if layer.normalized:
            names.update({f"{layer.name}.norm.{word}": (f"{layer.name} {item}", False) for word, item in NORM.items()})
    return names


def arrays_of(parts: Parts) -> dict[str, np.ndarray]:
    """A network's arrays as a state_dict has them, contiguous."""
    return {name: np.ascontiguousarray(parts.parameters[parameter].T if transposed else parts.parameters[parameter])
            for name, (parameter, transposed) in names_of(Wiring(parts.descriptor)).items()}


def parts_from(arrays: Mapping[str, np.ndarray], descriptor: dict[str, Any], where: str, names: Mapping[str, str] | None = None,
               embeddings: Sequence[str] | None = None, ordered: bool = True) -> Parts:
    """The network that the canonical descriptor describes with these arrays.

    Arrays that have the names of names_of() are those. Else modules ("encoder.0" of "encoder.0.weight") are taken in their order for
    the matrices and the batch normalisations of the layers in theirs; `names` says for a module or an array which it is: "Hidden",
    "Hidden.Source", "Hidden.norm", "Hidden.bias". `embeddings`: modules that are an EmbeddingBag; unless given, by their extents.
    Not `ordered`: the order means nothing, and extents say which module is which, if they can.
    "auto" becomes what the arrays have. Several biases of one layer are added up; one without is 0.
    Raises DataError with all that does not fit."""
    return _Matcher(descriptor, where, embeddings, ordered).parts(dict(arrays), dict(names or {}))


class _Matcher:
    def __init__(self, descriptor: dict[str, Any], where: str, embeddings: Sequence[str] | None, ordered: bool):
        self.wiring = Wiring(descriptor)
        self.problems = Problems(where)
        self.embeddings = embeddings
        self.ordered = ordered
        self.extents = self.wiring.extents()
        self.edges = {module_of(edge, layer): edge for layer in self.wiring.layers for edge in layer.edges if edge.owns}
        self.norms = {f"{layer.name}.norm": layer for layer in self.wiring.layers if layer.normalized}
        self.parameters: dict[str, np.ndarray] = {}
        self.left = {name: parameter for name, (parameter, transposed) in names_of(self.wiring).items()
                     if not transposed and " -> " not in parameter}

    def parts(self, arrays: dict[str, np.ndarray], names: dict[str, str]) -> Parts:
        modules: dict[str, dict[str, np.ndarray]] = {}
        targets: dict[str, str] = {}
        for name, array in arrays.items():
            module, _, word = name.rpartition(".")
            if word in PASSED_OVER:
                continue
            if name in names:  # an array of its own
                targets[name], _, word = names[name].rpartition(".")
                module = name
            elif module in names:
                targets[module] = names[module]
            if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
                self.problems.add(f"array \"{shown(name)}\" is of {array.dtype}; expected floats")
                continue
            modules.setdefault(module, {})[word] = array
        for module in names:
            if module not in targets:
                self.problems.add(f"`names`: there is no \"{shown(module)}\"")
        for target, module in self._places(modules, targets):
            self._take(target, module, modules[module])
        self.problems.raise_any()
        self._settle_sizes()
        self._fill_biases()
        for name, parameter in self.left.items():
            if parameter.endswith(" featureWeights") and parameter not in self.parameters:
                self.problems.add(f"array \"{shown(name)}\" is missing, the weights of the input's features, because the layer has "
                                  "\"InputWeighting\", as those of recipes; give it, 1 for each unit where there is none, or leave that "
                                  "key out of `like`")
        self.problems.raise_any()
        return Parts(self.wiring.descriptor, self.parameters)

    def _places(self, modules: dict[str, dict[str, np.ndarray]], targets: dict[str, str]) -> list[tuple[str, str]]:
        """Which part of the network each module is."""
        known = {*self.edges, *self.norms, *self.wiring.by_name}
        places = [(targets.get(module, module), module) for module in modules if module in targets or module in known]
        others = [module for module in modules if module not in targets and module not in known]
        taken = {target for target, module in places if "weight" in modules[module]}
        norms = [module for module in others if "running_mean" in modules[module]]
        dimensions = {2} | {len(self.extents[edge.parameter]) for edge in self.edges.values()}
        matrices = [module for module in others if module not in norms and getattr(modules[module].get("weight"), "ndim", 0) in dimensions]
        for module in others:
            if module not in norms and module not in matrices:
                words = ", ".join(f"{word} {list(array.shape)}" for word, array in modules[module].items())
                self.problems.add(f"\"{shown(module)}\" ({shown(words)}) is neither a linear layer nor a batch normalisation of the "
                                  "network; say with `names` what it is, or leave it out")
        for parts, found, what in ((self.edges, matrices, "matrices of weights"), (self.norms, norms, "batch normalisations")):
            free = [target for target in parts if target not in taken]
            if len(free) != len(found):
                self.problems.add(f"it has {len(found)} {what} with other names ({', '.join(map(shown, found)) or 'none'}) for "
                                  f"{len(free)} of the network ({', '.join(map(shown, free)) or 'none'})")
            elif self.ordered or len(found) < 2:
                places += list(zip(free, found))
            else:
                places += self._by_extents(free, found, modules)
        return places

    def _by_extents(self, free: list[str], found: list[str], modules: dict[str, dict[str, np.ndarray]]) -> list[tuple[str, str]]:
        sizes = {layer.name: layer.units for layer in self.wiring.layers}
        ways = list(itertools.islice(self._ways(free, found, modules, sizes), 2)) if len(found) <= MOST_UNNAMED else []
        if len(ways) != 1:
            self.problems.add(f"which of {', '.join(map(shown, found))} is which of {', '.join(map(shown, free))} does not follow from "
                              "their extents; say it with `names`")
        return ways[0] if len(ways) == 1 else []

    def _ways(self, free: list[str], found: list[str], modules: dict[str, dict[str, np.ndarray]],
              sizes: dict[str, int | None]) -> Iterator[list[tuple[str, str]]]:
        """All ways to give each part a module, so that layers have one size."""
        if not free:
            yield []
            return
        target = free[0]
        for module in found:
            shape = modules[module]["weight"].shape
            if target in self.norms:
                options = [((self.norms[target].name, shape[0]),)]
            elif self._is_filter(self.edges[target]):
                expected = self.extents[self.edges[target].parameter]
                options = [()] if len(shape) == len(expected) and all(one in (None, found) for one, found in zip(expected, shape)) else []
            else:
                edge = self.edges[target]
                both = [((edge.destination, shape[0]), (edge.source, shape[1])), ((edge.source, shape[0]), (edge.destination, shape[1]))]
                is_input = self.wiring.by_name[edge.source].kind == "Input" and "bias" not in modules[module]
                options = both if is_input and shape[0] != shape[1] else both[:1]
            for ends in options:
                if all(sizes[name] in (None, units) for name, units in ends):
                    rest = [other for other in found if other != module]
                    for way in self._ways(free[1:], rest, modules, {**sizes, **dict(ends)}):
                        yield [(target, module), *way]

    def _take(self, target: str, module: str, arrays: dict[str, np.ndarray]) -> None:
        for word, array in arrays.items():
            name = f"{module}.{word}"
            if target in self.norms:
                if word in NORM:
                    self._set(f"{self.norms[target].name} {NORM[word]}", array, name)
                    continue
            elif word == "weight" and target in self.edges:
                edge = self.edges[target]
                expected = len(self.extents[edge.parameter])
                if array.ndim != expected:
                    self.problems.add(f"array \"{shown(name)}\" has {array.ndim} dimensions; these weights have {expected}")
                elif self._is_filter(edge):
                    self._set(edge.parameter, array, name)
                else:
                    self._set(edge.parameter, array if self._is_embedding(edge, module, arrays) else array.T, name)
                continue
            elif word == "bias" and (layer := self._layer(target)):
                self._set(f"{layer} bias", array, name, added=True)
                continue
            elif f"{target}.{word}" in self.left:
                self._set(self.left[f"{target}.{word}"], array, name)
                continue
            self.problems.add(f"array \"{shown(name)}\" is none of \"{shown(target)}\"")

    def _layer(self, target: str) -> str | None:
        if target in self.edges:
            return self.edges[target].destination
        layer = self.wiring.by_name.get(target)
        return target if layer is not None and layer.kind != "Input" else None

    def _is_filter(self, edge: Edge) -> bool:
        return self.wiring.by_name[edge.destination].type == "Convolutional"

    def _is_embedding(self, edge: Edge, module: str, arrays: dict[str, np.ndarray]) -> bool:
        if self.embeddings is not None:
            return module in self.embeddings
        ends = self.wiring.by_name[edge.source].units, self.wiring.by_name[edge.destination].units
        # [source units, units], and not also what a linear layer would have.
        found = arrays["weight"].shape
        fits = [all(unit in (None, extent) for unit, extent in zip(extents, found)) for extents in (ends, ends[::-1])]
        return fits == [True, False] and self.wiring.by_name[edge.source].kind == "Input" and "bias" not in arrays

    def _set(self, parameter: str, array: np.ndarray, name: str, added: bool = False) -> None:
        values = np.ascontiguousarray(array, dtype=np.float32)
        if len(self.extents.get(parameter, ())) == 1:
            values = values.reshape(-1)
        if parameter not in self.parameters:
            self.parameters[parameter] = values
        elif not added:
            self.problems.add(f"array \"{shown(name)}\" and another one are both \"{parameter}\"")
        elif self.parameters[parameter].shape != values.shape:
            self.problems.add(f"array \"{shown(name)}\" has {values.size} elements, another bias of the layer "
                              f"{self.parameters[parameter].size}")
        else:
            self.parameters[parameter] = self.parameters[parameter] + values

    def _settle_sizes(self) -> None:
        """Layers whose N is "auto" are as wide as the arrays say."""
        for parameter, extent in self.wiring.extents().items():
            array = self.parameters.get(parameter)
            ends = parameter.split(" -> ") if " -> " in parameter else [parameter.rsplit(" ", 1)[0]]
            if array is None or len(ends) != len(extent):
                continue
            for end, units, found in zip(ends, extent, array.shape):
                layer = self.wiring.by_name[end]
                if units is None and layer.units is None and layer.keys.get("Type", "FullyConnected") == "FullyConnected":
                    layer.units = layer.keys["N"] = int(found)

    def _fill_biases(self) -> None:
        for parameter, extent in self.wiring.extents().items():
            if parameter.endswith(" bias") and len(extent) == 1 and extent[0] is not None:
                self.parameters.setdefault(parameter, np.zeros(extent[0], np.float32))
