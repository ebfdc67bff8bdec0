# SPDX-License-Identifier: Apache-2.0
"""Models in the formats of others: docs/user/interchange.md. Packages that a format needs are imported when it is used."""
from __future__ import annotations

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
