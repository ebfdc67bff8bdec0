# SPDX-License-Identifier: Apache-2.0
"""Trains very wide, sparse neural networks, and recommends with them.

Names are imported when they are first used: `import norn` takes no time.
"""
from __future__ import annotations

import importlib

_HOMES = {
    "_core": ("version", "show_config"),
    "_settings": ("settings",),
    "recommender": ("Recommender", "load"),
    "network": ("Network",),
    "training": ("train",),
    "history": ("History",),
    "callbacks": ("early_stopping", "progress", "run_folder", "checkpoints", "reset_rate", "Callback", "StopTraining"),
    "interchange": ("export_onnx", "import_onnx", "export_safetensors", "import_safetensors", "import_torch", "import_keras",
                    "import_caffe"),
    "dataset": ("Dataset",),
    "errors": ("Error", "UsageError", "DataError", "DeviceError", "CommunicationError", "DivergenceError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str):
    if name == "__version__":
        value = __getattr__("version")()
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(f"norn.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'norn' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, "__version__"})
