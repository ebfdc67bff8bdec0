# SPDX-License-Identifier: Apache-2.0
"""Weights of PyTorch. Its modules are not read, only their arrays: which network they are of is said by a descriptor."""
from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.errors import UsageError
from norn.interchange.named_arrays import arrays_of, parts_from
from norn.interchange.parts import Parts, canonical, parts_of
from norn.interchange.problems import fail, imports, need, place_of, shown

if TYPE_CHECKING:
    from norn._types import Array, Descriptor, Floats, Model, Path


def state_dict(model: Model) -> dict[str, Floats]:
    """A model's weights as NumPy arrays under the names of export_safetensors(), for `load_state_dict` of a module with layers of
    these names: {name: torch.from_numpy(array) for name, array in state_dict(model).items()}.

    model: a Network, a Recommender, or the name of a model file.

    Returns float32 arrays by name, weights [units, source units] as nn.Linear has them."""
    return arrays_of(parts_of(model))


@imports("a state_dict of PyTorch")
def import_torch(source: Path | Mapping[str, object], like: Descriptor, *, names: Mapping[str, str] | None = None,
                 embeddings: Sequence[str] | None = None) -> Parts:
    """The Network that `like` describes with the weights of a `state_dict`. Several biases of a layer are added up.

    source: a mapping of arrays or tensors, or the name of a .pt file of one, which is loaded with weights_only=True.
    like: a descriptor (a dictionary, JSON, the name of a file) or a Network; N may be "auto".
    names: what a module or an array is in the descriptor: {"encoder.0": "Hidden", "encoder.1": "Hidden.norm", "user_bias":
        "Hidden.bias"}. Without it linear layers and batch normalisations are taken in their order, or by Norn's own names.
    embeddings: modules that are an EmbeddingBag, whose matrix is taken as it is; unless given, those of an input whose extents
        say so.

    Raises DataError with all arrays that do not fit, UsageError for a descriptor that is wrong."""
    where = place_of(source, "state_dict")
    if isinstance(source, (str, os.PathLike)):
        torch = need("torch", "torch", "reading a .pt file")
        try:
            source = torch.load(where, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise fail(where,
                       f"holds more than arrays, such as a whole module, or is damaged; save module.state_dict(): "
                       f"{shown(error)}") from error
    if not isinstance(source, Mapping):
        raise fail(where, f"holds a {type(source).__name__}, not a state_dict; save module.state_dict()")
    arrays = {}
    for name, value in source.items():
        if not hasattr(value, "shape"):
            raise fail(where, f"\"{name}\" is a {type(value).__name__}, not an array; give the state_dict alone")
        arrays[str(name)] = _array(value)
    return parts_from(arrays, canonical(like), where, names, embeddings)


def _array(value: Any) -> Array:
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if not tensor.dtype.is_floating_point and tensor.dtype.is_complex:
        raise UsageError(f"a tensor of {tensor.dtype} has no place in a network")
    return (tensor.float() if tensor.dtype.is_floating_point else tensor).numpy()
