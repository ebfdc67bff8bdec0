# SPDX-License-Identifier: Apache-2.0
"""What a network is made of, between its file and Norn: a descriptor, arrays by name, labels."""
from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from norn.errors import DataError, UsageError

if TYPE_CHECKING:
    from norn._types import Floats, Model


@dataclass
class Parts:
    """`descriptor`: a dictionary as the descriptor's JSON reads. `parameters`: float32 arrays by the names that models give them,
    "Input -> Hidden" [source units, units], "Hidden bias" [units]. `labels`: by layer, of Input and Output layers, where they are
    known. `notes`: what the file said otherwise than Norn does, and was taken all the same."""

    descriptor: dict[str, Any]
    parameters: dict[str, Floats]
    labels: dict[str, Sequence[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _sha256: dict[str, str] | None = None

    def labels_sha256(self) -> dict[str, str]:
        """By layer, the SHA-256 of its labels, a line each, as models hold it."""
        if self._sha256 is None:
            self._sha256 = {layer: sha256_of_lines(labels) for layer, labels in self.labels.items()}
        return self._sha256


def sha256_of_lines(labels: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for label in labels:
        digest.update(label.encode() + b"\n")
    return digest.hexdigest()


def parts_of(model: Model) -> Parts:
    """Those of a Network, of what has one as `.network`, of Parts, or of a model file. What is learnt of features of items becomes part
    of the items' weights."""
    if isinstance(model, Parts):
        return model
    if isinstance(model, (str, os.PathLike)):
        from norn.network import Network
        model = Network.load(model)
    network: Any = getattr(model, "network_", model)
    if not hasattr(type(network), "descriptor") or not hasattr(type(network), "parameters"):
        raise UsageError(f"`model` is a {type(model).__name__}; give a Network, a Recommender, or the name of a model file")
    from norn.folding import folded
    descriptor, parameters = folded(network)
    labels = {}
    for layer in descriptor["Layers"]:
        if layer["Kind"] in ("Input", "Output"):
            known = network.labels(layer["Name"])
            if known is not None:
                labels[layer["Name"]] = known
    return Parts(descriptor, parameters, labels)


def canonical(descriptor: Any) -> dict[str, Any]:
    """A descriptor as models have it, names and sources filled in and keys in one spelling: of a dictionary, of JSON, of the name of a
    file with that, of a Network or of Parts. Raises UsageError."""
    from norn import _core
    if isinstance(descriptor, os.PathLike) or isinstance(descriptor, str) and not descriptor.lstrip().startswith("{"):
        with open(descriptor, encoding="utf-8") as file:
            descriptor = file.read()
    elif not isinstance(descriptor, (str, Mapping)):
        descriptor = getattr(descriptor, "network_", descriptor).descriptor
    return json.loads(_core.canonical_network(descriptor if isinstance(descriptor, str) else json.dumps(descriptor)))


def descriptor_of(metadata: Mapping[str, str], where: str) -> dict[str, Any]:
    """What metadata_of() of onnx_writer wrote into a file. Raises DataError."""
    try:
        return canonical(json.loads(metadata["norn_descriptor"]))
    except UsageError as error:
        raise DataError(f"{where}: the descriptor in its metadata is damaged: {error}", problems=error.problems) from error


def network_of(parts: Parts, where: str) -> Any:
    """The Network that the parts are of, of the file `where`. Raises DataError for all that does not fit."""
    from norn.network import Network
    try:
        return Network.from_parameters(parts.descriptor, parts.parameters, parts.labels)
    except UsageError as error:
        raise DataError("\n".join(f"{where}: {line}" for line in str(error).splitlines()), problems=error.problems) from error
