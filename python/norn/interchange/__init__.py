# SPDX-License-Identifier: Apache-2.0
"""Models in the formats of others: docs/user/interchange.md. Packages that a format needs are imported when it is used."""
from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "onnx_writer": ("export_onnx",),
    "onnx_reader": ("import_onnx",),
    "safetensors": ("export_safetensors", "import_safetensors"),
    "torch": ("import_torch", "state_dict"),
    "keras": ("import_keras",),
    "caffe": ("import_caffe",),
    "files": ("export", "convert"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'norn.interchange' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"norn.interchange.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
