# SPDX-License-Identifier: Apache-2.0
"""Trains very wide, sparse neural networks, and recommends with them.

Names are imported when they are first used: `import norn` takes no time.
"""
from __future__ import annotations

from . import _processor  # noqa: F401  # pyright: ignore[reportUnusedImport]  ImportError on a processor that lacks what the build needs
from ._lazy import lazy

_HOMES = {
    "recommender": ("Recommender", "load"),
    "popularity": ("most_popular",),
    "dataset": ("Dataset",),
    "network": ("Network",),
    "training": ("train",),
    "history": ("History",),
    "_evaluation": ("Evaluation",),
    "callbacks": ("early_stopping", "progress", "run_folder", "checkpoints", "reset_rate", "Callback", "Environment", "StopTraining"),
    "interchange": ("export_onnx", "import_onnx", "export_safetensors", "import_safetensors", "import_torch", "import_keras",
                    "import_caffe"),
    "errors": ("Error", "UsageError", "DataError", "DeviceError", "CommunicationError", "DivergenceError"),
    "_settings": ("settings",),
    "_core": ("version", "show_config", "__version__"),
}
_MODULES = ("callbacks", "errors", "implicit", "interchange", "spark")
__all__, __getattr__, __dir__ = lazy(globals(), _HOMES, _MODULES)
