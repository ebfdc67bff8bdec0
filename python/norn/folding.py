# SPDX-License-Identifier: Apache-2.0
"""What is learnt of features of items, as weights of the items themselves."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from .errors import UsageError
from .interchange.wiring import Wiring

if TYPE_CHECKING:
    from ._types import Array
    from .network import Network


def table_of(network: Network, layer: str) -> Any:
    """The features of an output layer's units that a model was trained with, CSR [units, features]; None: without."""
    found: Any = network.model.features(layer)
    if found is None:
        return None
    values, columns, begin, features = found
    units = units_of(Wiring(network.descriptor), layer)
    begin = np.concatenate([begin, np.full(units + 1 - len(begin), begin[-1])])  # units behind the rows have none
    return scipy.sparse.csr_matrix((values, columns, begin), shape=(units, features))


def folded(network: Network) -> tuple[dict[str, Any], dict[str, Array]]:
    """Descriptor and parameters of the network that has the same scores without features: what was learnt of these is part of each
    unit's weights. As they are where no layer has any. Raises UsageError where a layer that learnt of features is not linear."""
    descriptor, parameters = network.descriptor, dict(network.parameters)
    for keys in descriptor["Layers"]:
        if "Features" in keys:
            _fold(keys["Name"], Wiring(descriptor), parameters, table_of(network, keys["Name"]).astype(np.float64))
    gone = {f"{keys['Name']} features" for keys in descriptor["Layers"] if keys.pop("Features", None)}
    descriptor["Layers"] = [keys for keys in descriptor["Layers"] if keys["Name"] not in gone]
    return descriptor, parameters


def _fold(output: str, wiring: Wiring, parameters: dict[str, Array], table: Any) -> None:
    learnt, layer = wiring.by_name[f"{output} features"], wiring.by_name[output]
    into = {edge.source: edge for edge in layer.edges}
    plain = learnt.keys.get("Activation") == "Linear" and not learnt.normalized and not learnt.skips
    if not plain or any(not edge.owns or edge.source not in into for edge in learnt.edges):
        raise UsageError(f"layer \"{learnt.name}\": only one that is Linear, by weights of its own from the sources of \"{output}\", can "
                         "become part of weights")
    bias = parameters.pop(f"{learnt.name} bias").astype(np.float64)
    parameters[f"{output} bias"] = (parameters[f"{output} bias"] + table @ bias).astype(np.float32)
    for edge in learnt.edges:
        by_feature = parameters.pop(edge.parameter).astype(np.float64)
        more, to = table @ by_feature.T, into[edge.source]
        parameters[to.parameter] = (parameters[to.parameter] + (more if to.transposed else more.T)).astype(np.float32)


def units_of(wiring: Wiring, layer: str) -> int:
    """How many a layer of a trained network has."""
    return int(np.prod(wiring.by_name[layer].keys["N"]))
