# SPDX-License-Identifier: Apache-2.0
"""Models in the formats of others: docs/user/interchange.md. Packages that a format needs are imported when it is used."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .caffe import import_caffe as import_caffe
    from .files import convert as convert, export as export
    from .keras import import_keras as import_keras
    from .onnx_reader import import_onnx as import_onnx
    from .onnx_writer import export_onnx as export_onnx
    from .safetensors import export_safetensors as export_safetensors, import_safetensors as import_safetensors
    from .torch import import_torch as import_torch, state_dict as state_dict
else:
    from .._lazy import lazy

    _HOMES = {
        "onnx_writer": ("export_onnx",),
        "onnx_reader": ("import_onnx",),
        "safetensors": ("export_safetensors", "import_safetensors"),
        "torch": ("import_torch", "state_dict"),
        "keras": ("import_keras",),
        "caffe": ("import_caffe",),
        "files": ("export", "convert"),
    }
    __all__, __getattr__, __dir__ = lazy(globals(), _HOMES)
