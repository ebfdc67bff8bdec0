# SPDX-License-Identifier: Apache-2.0
"""The activations of Norn, and what other formats call them. docs/user/numerics.md has the formulas."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Activation:
    """`parameters`: the keys of the descriptor with what they are unless given. `onnx`: the operator, and which of its attributes each
    key is; None: it is made of several. `keras`: the words of a layer's `activation`, by version."""

    parameters: dict[str, float] = field(default_factory=dict)
    onnx: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    keras: tuple[str, ...] = ()


ACTIVATIONS = {
    "Linear": Activation(onnx="Identity", keras=("linear",)),
    "Sigmoid": Activation(onnx="Sigmoid", keras=("sigmoid",)),
    "Tanh": Activation(onnx="Tanh", keras=("tanh",)),
    "Relu": Activation(onnx="Relu", keras=("relu",)),
    "LRelu": Activation({"RELUSlope": 0.01}, "LeakyRelu", {"RELUSlope": "alpha"}, ("leaky_relu",)),
    "ELU": Activation({"ELUAlpha": 1.0}, "Elu", {"ELUAlpha": "alpha"}, ("elu",)),
    "SELU": Activation({"ELUAlpha": 1.67326324, "SELULambda": 1.05070099}, "Selu", {"ELUAlpha": "alpha", "SELULambda": "gamma"}, ("selu",)),
    "SoftPlus": Activation(onnx="Softplus", keras=("softplus",)),
    "SoftSign": Activation(onnx="Softsign", keras=("softsign",)),
    "GELU": Activation(keras=("gelu",)),
    "Swish": Activation({"SwishBeta": 1.0}, keras=("silu", "swish")),
    "SoftMax": Activation(onnx="Softmax", keras=("softmax",)),
}
BY_ONNX = {activation.onnx: name for name, activation in ACTIVATIONS.items() if activation.onnx}
BY_KERAS = {word: name for name, activation in ACTIVATIONS.items() for word in activation.keras}
# What an attribute of ONNX is where a node does not give it.
ONNX_DEFAULTS = {"LeakyRelu": {"alpha": 0.01}, "Elu": {"alpha": 1.0},
                 "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}}


def parameters_of(layer: dict[str, Any], network: dict[str, Any]) -> dict[str, float]:
    """The parameters of a layer's activation: the layer's own, the network's, or those by default."""
    word = layer["Activation"]
    return {key: float(layer.get(key, network.get(key, default))) for key, default in ACTIVATIONS[word].parameters.items()}
